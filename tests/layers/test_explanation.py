import importlib

import keras
import pytest

import kmha
from kmha.core import planning

tensorflow = pytest.mark.tensorflow


def test_parameters_are_those_of_the_built_layer():
    for arguments in ({}, {"use_bias": False}, {"use_gate": True}, {"value_dim": 11, "output_shape": (13, 2)}):
        layer = kmha.MultiHeadAttention(3, 5, **arguments)
        explanation = layer.explain((2, 7, 4), (2, 9, 6), (2, 9, 8))
        layer.build((2, 7, 4), (2, 9, 6), (2, 9, 8))
        assert explanation.parameters == layer.count_params()


def test_flops_count_products_and_sums_of_what_is_seen():
    layer = kmha.MultiHeadAttention(3, 5, value_dim=11, sliding_window=2)
    explanation = layer.explain((2, 4, 6), (2, 4, 8), use_causal_mask=True)
    flops = {step.name: step.flops for step in explanation.steps}
    pairs = 7  # 1 + 2 + 2 + 2
    assert flops == {
        "query": 2 * 2 * 4 * 6 * 3 * 5,
        "key": 2 * 2 * 4 * 8 * 3 * 5,
        "value": 2 * 2 * 4 * 8 * 3 * 11,
        "scores": 2 * 2 * 3 * pairs * 5,
        "mix": 2 * 2 * 3 * pairs * 11,
        "merge": 2 * 2 * 4 * 3 * 11 * 6,
    }
    assert explanation.forward_flops == sum(flops.values())
    assert explanation.step_flops == 3 * sum(flops.values())


@pytest.mark.slow
@tensorflow
def test_the_path_is_the_one_that_is_taken(monkeypatch):
    import tensorflow as tf

    taken = []
    choose = planning.choose
    monkeypatch.setattr(planning, "choose", lambda request: taken.append(choose(request)) or taken[-1])
    for arguments, shape, flags in (
        ({}, (1, 512, 6), {"use_causal_mask": True}),
        ({}, (1, 512, 6), {}),
        ({"sliding_window": 3}, (1, 512, 6), {}),
        ({"dropout": 0.1}, (1, 512, 6), {"use_causal_mask": True, "training": True}),
        ({"dropout": 0.1}, (1, 512, 6), {"use_causal_mask": True}),
        ({"flash_attention": True}, (1, 12, 6), {}),
        ({}, (1, 512, 6), {"use_causal_mask": True, "return_attention_scores": True}),
        ({"attention_axes": (2,)}, (1, 2, 512, 6), {"use_causal_mask": True}),
    ):
        layer = kmha.MultiHeadAttention(3, 5, **arguments)
        x = keras.ops.ones(shape)
        for eager, run in ((False, tf.function(layer)), (True, layer)):
            explained = layer.explain(shape, **flags, eager=eager)
            taken.clear()
            run(x, x, **flags)
            assert (explained.path, explained.reason) == (taken[-1].path, taken[-1].reason)


@tensorflow
def test_the_largest_length_fits_and_the_next_does_not():
    explanation = kmha.MultiHeadAttention(8, 64).explain((4, 128, 512), use_causal_mask=True, training=True)
    lengths = explanation.largest_length(2**31)
    assert lengths["blocked"] > lengths["direct"] > lengths["steps"] > 1000
    for path, length in lengths.items():
        assert explanation.bytes_on(path, length) <= 2**31 < explanation.bytes_on(path, length + 1)


@tensorflow
def test_the_text_says_it_all():
    text = str(kmha.MultiHeadAttention(8, 64).explain((1, 4096, 512), use_causal_mask=True))
    for part in (
        "path: blocked (the mask lets blocks skip keys",
        "BSI,HIO->BSHO",
        "BTHO,BSHO->BHTS",
        "1,050,624 parameters",
        "MiB",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, None, 4),), "explain needs the number of positions"),
        (((2, 7, 4), (3, 9, 4)), "must have the same size in the batch"),
        (((2, 4),), "must have the same number of axes, three or more"),
    ],
)
def test_shapes_that_cannot_be_explained(shapes, message):
    with pytest.raises(ValueError, match=message):
        kmha.MultiHeadAttention(3, 5).explain(*shapes)


@pytest.mark.parametrize("memory", [0, -1, "8GB", True, float("nan")])
def test_memory_is_a_number_of_bytes(memory):
    with pytest.raises(ValueError, match=r"8 GiB are 8 \* 2\*\*30"):
        kmha.MultiHeadAttention(3, 5).explain((2, 7, 4)).largest_length(memory)


@tensorflow
def test_an_override_is_explained_as_it_runs():
    class Own(kmha.MultiHeadAttention):
        def _compute_attention(self, *args, **kwargs):
            return super()._compute_attention(*args, **kwargs)

    class Sharp(kmha.MultiHeadAttention):
        def _masked_softmax(self, attention_scores, attention_mask=None):
            return super()._masked_softmax(2.0 * attention_scores, attention_mask)

    assert Own(3, 5).explain((1, 512, 6), use_causal_mask=True).path == "direct"
    assert Sharp(3, 5).explain((1, 512, 6), use_causal_mask=True).path == "steps"


@tensorflow
def test_an_unknown_batch_is_planned_for_as_in_the_call():
    assert kmha.MultiHeadAttention(8, 4).explain((None, 2100, 8)).path == "blocked"
    assert kmha.MultiHeadAttention(8, 4).explain((1, 2100, 8)).path == "direct"


def test_what_cannot_be_called_is_not_explained():
    with pytest.raises(ValueError, match="Returning attention scores is not supported"):
        kmha.MultiHeadAttention(3, 5, flash_attention=True).explain((1, 7, 6), return_attention_scores=True)
    layer = kmha.MultiHeadAttention(3, 5)
    layer.build((1, 7, 8), (1, 7, 8))
    with pytest.raises(ValueError, match="8"):
        layer.explain((1, 7, 9))
    for shape in (5, "abc"):
        with pytest.raises(ValueError, match="expected a shape as a tuple of sizes"):
            layer.explain(shape)
    with pytest.raises(ValueError, match="must be known when the layer is built"):
        kmha.MultiHeadAttention(3, 5).explain((1, 7, None))


@pytest.mark.parametrize(("flash", "path"), [(None, "fused"), (True, "fused"), (False, "steps")])
def test_flash_attention_decides_on_the_other_backends(flash, path, monkeypatch):
    """`False` forbids the fused kernel, in the call and in its explanation."""
    if keras.backend.backend() == "tensorflow":
        pytest.skip("there it chooses between blocks and one piece, which test_planning.py tests")
    fused = []

    def spy(name, **instead):
        module, _, attribute = name.rpartition(".")
        kernel = getattr(importlib.import_module(module), attribute)
        monkeypatch.setattr(name, lambda *args, **kwargs: fused.append(1) or kernel(*args, **{**kwargs, **instead}))

    spy("keras.ops.dot_product_attention", flash_attention=None)
    if keras.backend.backend() == "torch":
        spy("torch.nn.functional.scaled_dot_product_attention")
    layer, x = kmha.MultiHeadAttention(3, 5, flash_attention=flash), keras.ops.ones((2, 7, 4), dtype="float32")
    layer(x, x)
    assert layer.explain((2, 7, 4)).path == ("fused" if fused else "steps") == path
