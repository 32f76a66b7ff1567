"""A layer without its pruned heads computes what the layer computes with these heads turned off."""

import copy
import re

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import prune_heads, without_heads
from kmha.verify import tolerance

BATCH, QUERIES, KEYS, HEADS, WIDTH, SIZE, VALUE_SIZE, OUTPUT, KEY_WIDTH = 2, 7, 11, 5, 13, 3, 4, 6, 8
GONE = [3, 0]
LEFT = [1, 2, 4]

MODES = {"tensorflow": ["eager", "graph", "xla"], "jax": ["eager", "xla"]}.get(keras.backend.backend(), ["eager"])
CASES = {
    "self": {},
    "cross": {"cross": True},
    "no bias": {"use_bias": False},
    "another value_dim and output_shape": {"value_dim": VALUE_SIZE, "output_shape": OUTPUT, "cross": True},
    "gate": {"use_gate": True, "value_dim": VALUE_SIZE},
    "window": {"sliding_window": 3},
    "two attention axes": {"attention_axes": (1, 2), "rank": 4},
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def made(request):
    """A layer with random weights, also biases, and its inputs: query, value, key."""
    options = dict(request.param)
    rank, cross = options.pop("rank", 3), options.pop("cross", False)
    layer = kmha.MultiHeadAttention(HEADS, SIZE, dtype="float64", **options)
    numbers = np.random.default_rng(4)
    x = numbers.normal(size=(BATCH, QUERIES, WIDTH) if rank == 3 else (BATCH, 3, QUERIES, WIDTH))
    inputs = (x, x, x)
    if cross:
        inputs = x, numbers.normal(size=(BATCH, KEYS, WIDTH + 1)), numbers.normal(size=(BATCH, KEYS, KEY_WIDTH))
    inputs = [ops.convert_to_tensor(x, "float64") for x in inputs]
    layer(*inputs)
    _draw(layer)
    return layer, inputs


def _draw(layer):
    numbers = np.random.default_rng(5)
    for weight in layer.weights:
        weight.assign(numbers.normal(size=weight.shape))


def _arrays(outputs):
    return [ops.convert_to_numpy(x) for x in outputs]


def _check(actual, expected):
    """Some gradients are zero but for rounding, so that differences are relative to the largest of all arrays."""
    largest = max(np.abs(one).max() for one in expected)
    for one, other in zip(actual, expected, strict=True):
        assert tolerance.difference(one, other, largest)[1] <= tolerance.relative("float64")


def _gradients(layer, inputs, upstream, mode="eager"):
    """Return the output, and the gradients of the inputs and the weights."""
    weights = [weight.value for weight in layer.trainable_weights]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        def step(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                output = layer(*tensors)
            return output, tape.gradient(output, [*tensors, *weights], upstream)

        if mode != "eager":
            step = tf.function(step, autograph=False, jit_compile=mode == "xla")
        output, gradients = step(*inputs)
    elif backend == "jax":
        import jax

        def loss(tensors, values):
            output, _ = layer.stateless_call(values, [x.value for x in layer.non_trainable_variables], *tensors)
            return ops.sum(output * upstream), output

        step = jax.value_and_grad(loss, (0, 1), has_aux=True)
        (_, output), (of_inputs, of_weights) = (jax.jit(step) if mode != "eager" else step)(inputs, weights)
        gradients = [*of_inputs, *of_weights]
    else:
        import torch

        tensors = [x.detach().clone().requires_grad_() for x in inputs]
        output = layer(*tensors)
        gradients = torch.autograd.grad(output, [*tensors, *weights], ops.convert_to_tensor(upstream))
        output = output.detach()
    return _arrays([output, *gradients])


def test_the_output_is_that_of_masked_heads(made):
    layer, inputs = made
    with without_heads(layer, GONE):
        expected = ops.convert_to_numpy(layer(*inputs))
    assert not tolerance.is_close(ops.convert_to_numpy(layer(*inputs)), expected, "float64")
    prune_heads(layer, GONE)
    _check([ops.convert_to_numpy(layer(*inputs))], [expected])


def test_the_scores_are_those_of_the_other_heads(made):
    layer, inputs = made
    _, scores = layer(*inputs, return_attention_scores=True)
    prune_heads(layer, GONE)
    _, left = layer(*inputs, return_attention_scores=True)
    _check(_arrays([left]), [ops.convert_to_numpy(scores)[:, LEFT]])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", MODES)
def test_gradients(made, mode):
    layer, inputs = made
    upstream = np.random.default_rng(6).normal(size=layer(*inputs).shape)
    with without_heads(layer, GONE):
        expected = _gradients(layer, inputs, upstream, mode)
    for number, weight in enumerate(layer.weights, 1 + len(inputs)):
        if not weight.path.endswith("attention_output/bias"):  # which has no axis H
            expected[number] = expected[number][LEFT]
    prune_heads(layer, GONE)
    _check(_gradients(layer, inputs, upstream, mode), expected)


def test_weights_keep_order_path_and_flags(made):
    layer, _ = made
    layer.key_dense.trainable = False
    layer.query_dense.kernel.trainable = False
    before = [(weight.path, weight.trainable, weight.dtype) for weight in layer.weights]
    values = layer.get_weights()
    prune_heads(layer, 2)
    assert [(weight.path, weight.trainable, weight.dtype) for weight in layer.weights] == before
    assert [weight.path for weight in layer.variables[: len(before)]] == [path for path, *_ in before]
    for path, old, new in zip([path for path, *_ in before], values, layer.get_weights(), strict=True):
        expected = old if path.endswith("attention_output/bias") else np.delete(old, 2, axis=0)
        np.testing.assert_array_equal(new, expected)
    layer.key_dense.trainable = True
    assert all(weight.trainable for weight in layer.key_dense.weights)


def test_again(made):
    layer, inputs = made
    with without_heads(layer, GONE):
        expected = ops.convert_to_numpy(layer(*inputs))
    prune_heads(layer, 0)
    prune_heads(layer, [2, 2])
    prune_heads(layer, [])
    assert layer.num_heads == 3
    _check([ops.convert_to_numpy(layer(*inputs))], [expected])


def test_masks_and_dropout_and_symbolic_calls():
    layer = kmha.MultiHeadAttention(HEADS, SIZE, dropout=0.5, dtype="float64")
    x = ops.convert_to_tensor(np.random.default_rng(1).normal(size=(BATCH, QUERIES, WIDTH)))
    mask = np.tril(np.ones((BATCH, 1, QUERIES, QUERIES), bool))
    options = {"attention_mask": mask, "use_causal_mask": True, "return_attention_scores": True}
    layer(x, x)
    _draw(layer)
    with without_heads(layer, GONE):
        expected, scores = layer(x, x, **options)
    prune_heads(layer, GONE)
    output, left = layer(x, x, **options)
    _check(_arrays([output, left]), [ops.convert_to_numpy(expected), ops.convert_to_numpy(scores)[:, LEFT]])
    assert layer(x, x, training=True).shape == x.shape
    symbolic = layer(keras.Input((None, WIDTH)), keras.Input((None, WIDTH)), return_attention_scores=True)
    assert symbolic[1].shape == (None, 3, None, None)
    assert layer.key_dense.compute_output_shape((BATCH, None, WIDTH)) == (BATCH, None, 3, SIZE)


def test_a_cache_of_the_layer():
    layer = kmha.MultiHeadAttention(HEADS, SIZE, dtype="float64")
    x = ops.convert_to_tensor(np.random.default_rng(1).normal(size=(BATCH, QUERIES, WIDTH)))
    layer(x, x)
    _draw(layer)
    prune_heads(layer, GONE)
    cache = ops.zeros((BATCH, 2, QUERIES, 3, SIZE), "float64")
    output, _ = layer(x, x, use_causal_mask=True, cache=cache, cache_update_index=0)
    _check(_arrays([output]), _arrays([layer(x, x, use_causal_mask=True)]))


class _FirstAxis(keras.regularizers.Regularizer):
    """Tells axes apart: it weighs the numbers along the first one."""

    def __call__(self, x):
        return ops.sum(x * ops.reshape(ops.arange(x.shape[0], dtype=x.dtype), (-1, 1, 1)))


def test_lora_and_regularizer():
    layer = kmha.MultiHeadAttention(HEADS, SIZE, dtype="float64", kernel_regularizer=_FirstAxis())
    x = ops.convert_to_tensor(np.random.default_rng(1).normal(size=(BATCH, QUERIES, WIDTH)))
    layer(x, x)
    for dense in (layer.query_dense, layer.output_dense):
        dense.enable_lora(2)
    _draw(layer)
    before = [weight.path for weight in layer.trainable_weights]
    with without_heads(layer, GONE):
        expected = layer(x, x)
    prune_heads(layer, GONE)
    _check(_arrays([layer(x, x)]), _arrays([expected]))
    assert [weight.path for weight in layer.trainable_weights] == before
    assert layer.query_dense.lora_kernel_a.shape == (3, WIDTH, 2)
    kernel = ops.convert_to_numpy(layer.key_dense._kernel)  # (H, I, O), of which the regularizer sees (I, H, O)
    expected = np.sum(kernel * np.arange(WIDTH)[None, :, None])
    _check(_arrays([layer.key_dense._kernel.regularizer(layer.key_dense._kernel)]), [expected])


def test_a_model_saved_and_loaded(tmp_path):
    query, value = keras.Input((QUERIES, WIDTH), name="query"), keras.Input((KEYS, KEY_WIDTH), name="value")
    layer = kmha.MultiHeadAttention(HEADS, SIZE, VALUE_SIZE, dtype="float64", name="attention")
    model = keras.Model([query, value], keras.layers.Dense(5, dtype="float64")(layer(query, value)))
    numbers = np.random.default_rng(2)
    inputs = [numbers.normal(size=(BATCH, QUERIES, WIDTH)), numbers.normal(size=(BATCH, KEYS, KEY_WIDTH))]
    before = model.predict(inputs, verbose=0)
    with without_heads(layer, GONE):
        expected = model.predict(inputs, verbose=0)
    np.testing.assert_array_equal(model.predict(inputs, verbose=0), before)
    assert not tolerance.is_close(before, expected, "float64")
    prune_heads(layer, GONE, model)
    _check([model.predict(inputs, verbose=0)], [expected])
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("attention").num_heads == 3
    assert loaded.get_layer("attention").key_dense.kernel.shape == (3, KEY_WIDTH, SIZE)
    assert loaded.count_params() == model.count_params()
    for other in (loaded, keras.models.clone_model(model), copy.deepcopy(model)):
        other.load_weights(tmp_path / "model.weights.h5")
        _check([other.predict(inputs, verbose=0)], [expected])


@pytest.mark.slow
def test_training_after_compile():
    model = keras.Sequential([keras.Input((QUERIES, WIDTH)), kmha.layers.EncoderLayer(WIDTH, HEADS, 9)])
    x = np.random.default_rng(2).normal(size=(BATCH, QUERIES, WIDTH))
    model.compile("adam", "mse")
    model.fit(x, x, verbose=0)
    prune_heads(model.layers[0].mha, GONE, model)
    model.compile("adam", "mse")
    before = model.layers[0].mha.get_weights()
    model.fit(x, x, verbose=0)
    after = model.layers[0].mha.get_weights()
    for path, old, new in zip([w.path for w in model.layers[0].mha.weights], before, after, strict=True):
        assert (old != new).any(), path
    prune_heads(model.layers[0].mha, 0, model)
    with pytest.raises(ValueError, match=r"recreate a new optimizer|matches the corresponding variable shape"):
        model.fit(x, x, verbose=0)


def _transformer(**options):
    sizes = 2, 12, 3, 7, 19, 23, 29, 31
    model = kmha.layers.Transformer(*sizes, final_activation=None, dtype="float64", **options)
    model.build()
    _draw(model)
    return model


@pytest.mark.sampled(2)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_transformer_with_another_number_in_each_layer(tmp_path, norm):
    model = _transformer(norm=norm)
    source, target = np.array([[4, 5, 6, 0], [7, 8, 9, 3]]), np.array([[1, 7, 8], [1, 9, 4]])
    gone = {
        "encoder_layer2_self_att": [1],
        "decoder_layer1_block1_self_att": [0, 2],
        "decoder_layer2_block2_decenc_att": 2,
    }
    assert model.heads is None
    assert list(model.attentions()) == [
        *(f"encoder_layer{n}_self_att" for n in (1, 2)),
        *(f"decoder_layer{n}_{block}_att" for n in (1, 2) for block in ("block1_self", "block2_decenc")),
    ]
    for name, heads in gone.items():
        before = ops.convert_to_numpy(model(source, target)[0])
        with without_heads(model.attentions()[name], heads):
            expected = ops.convert_to_numpy(model(source, target)[0])
        assert not tolerance.is_close(before, expected, "float64")
        prune_heads(model.attentions()[name], heads)
        logits, scores = model(source, target)
        _check(_arrays([logits]), [expected])
    numbers = {"encoder_layer2_self_att": 2, "decoder_layer1_block1_self_att": 1, "decoder_layer2_block2_decenc_att": 2}
    assert model.heads == numbers
    for name, array in scores.items():
        assert array.shape[1] == numbers.get(name, 3), name
    spec = model.compute_output_spec(keras.KerasTensor((2, 4), "int32"), keras.KerasTensor((2, 3), "int32"))[1]
    assert {name: x.shape for name, x in spec.items()} == {
        name: tuple(x.shape) for name, x in scores.items() if name.startswith("decoder")
    }
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.heads == numbers
    _check(_arrays([loaded(source, target)[0]]), [expected])
    state = loaded.start_cache(source)
    for position in range(target.shape[1]):
        logits, state = loaded.step(ops.convert_to_tensor(target[:, position]), state)
        assert tolerance.is_close(ops.convert_to_numpy(logits), expected[:, position], "float32")


def test_files_have_the_places_that_they_always_had(tmp_path):
    """Keras saves what attributes refer to, also properties, under the first name in the alphabet."""
    import h5py

    _transformer().save_weights(tmp_path / "model.weights.h5")
    names = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visit(names.append)
    own = {"/".join(name.split("/")[:2]) for name in names if name.endswith("mha/key_dense/vars/0")}
    assert own == {"encoder/enc_layers"}
    assert {name.split("/")[0] for name in names} <= {
        "encoder",
        "decoder",
        "final_layer",
        "layers",
        "vars",
        "_layer_checkpoint_dependencies",
    }


def test_blocks_keep_their_numbers():
    block = kmha.layers.DecoderLayer(12, 3, 7, attention={"use_bias": False})
    block.build((2, 5, 12), (2, 7, 13))
    assert block.heads is None
    assert "heads" not in block.get_config()
    prune_heads(block.mha2, 1)
    assert block.heads == {"mha2": 2}
    again = kmha.layers.DecoderLayer.from_config(block.get_config())
    again.build((2, 5, 12), (2, 7, 13))
    assert [tuple(x.shape) for x in again.weights] == [tuple(x.shape) for x in block.weights]
    encoder = kmha.layers.Encoder(2, 12, 3, 7, 11, 13, heads={"encoder_layer2_self_att": 1})
    assert [layer.mha.num_heads for layer in encoder.enc_layers] == [3, 1]
    assert kmha.layers.Encoder.from_config(encoder.get_config()).heads == {"encoder_layer2_self_att": 1}


def test_numbers_of_heads_are_checked():
    with pytest.raises(ValueError, match=r"encoder_layer2_self_att.*Received.*encoder_layer3_self_att"):
        kmha.layers.Encoder(2, 12, 3, 7, 11, 13, heads={"encoder_layer3_self_att": 1})
    with pytest.raises(ValueError, match=r"Received.*decoder_layer1_self_att"):
        kmha.layers.Transformer(1, 12, 3, 7, 11, 13, 17, 19, heads={"decoder_layer1_self_att": 1})
    with pytest.raises(ValueError, match=r"`heads`.*Received.*0"):
        kmha.layers.EncoderLayer(12, 3, 7, heads={"mha": 0})


@pytest.mark.parametrize("heads", [[2], "mha", 2, 0])
def test_numbers_of_heads_are_a_dict(heads):
    for make, sizes in (
        (kmha.layers.EncoderLayer, (12, 3, 7)),
        (kmha.layers.Encoder, (1, 12, 3, 7, 11, 13)),
        (kmha.layers.Transformer, (1, 12, 3, 7, 11, 13, 17, 19)),
    ):
        received = re.escape(f"heads={heads!r}. Leave it out")
        with pytest.raises(ValueError, match=f"{make.__name__} .*`heads`, expected a dict.*{received}"):
            make(*sizes, heads=heads)
    with pytest.raises(ValueError, match=r"names among decoder_layer1_block1_self_att,.*heads=1"):
        kmha.layers.Transformer(1, 12, 3, 7, 11, 13, 17, 19, heads={1: 2})


def test_configs_of_unpruned_models_are_as_before():
    """Older versions of kmha read them, and so do subclasses that do not have the argument."""

    class Older(kmha.layers.EncoderLayer):
        def __init__(self, embedding_dim, num_heads, fully_connected_dim, *, key_dim=None, **kwargs):
            assert "heads" not in kwargs
            super().__init__(embedding_dim, num_heads, fully_connected_dim, key_dim=key_dim, **kwargs)

    layer = Older.from_config(Older(12, 3, 7).get_config())
    assert layer.mha.num_heads == 3
    for part in (layer, kmha.layers.Encoder(1, 12, 3, 7, 11, 13), _transformer()):
        assert "heads" not in part.get_config()


class _Average(keras.layers.Layer):
    """A replacement of the attention, which has no heads."""

    def call(self, query, value, key=None, return_attention_scores=False, **_):
        output = ops.zeros_like(query) + ops.mean(value, axis=1, keepdims=True)
        scores = ops.ones((ops.shape(query)[0], 3, query.shape[1], value.shape[1])) / value.shape[1]
        return (output, scores) if return_attention_scores else output


def test_an_attention_without_heads():
    encoder = kmha.layers.Encoder(2, 12, 3, 7, 11, 13)
    encoder.enc_layers[1].mha = _Average()
    assert encoder.enc_layers[1].heads is None
    assert encoder.heads is None
    _, scores = encoder.compute_output_spec(keras.KerasTensor((2, 5), "int32"), return_attention_scores=True)
    assert [x.shape for x in scores.values()] == [(2, 3, 5, 5)] * 2


def _built():
    layer = kmha.MultiHeadAttention(HEADS, SIZE, name="attention")
    layer.build((BATCH, QUERIES, WIDTH), (BATCH, QUERIES, WIDTH))
    return layer


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (range(HEADS), "at least one head of 'attention' must be left. Received: all 5 heads"),
        (5, "expected heads from 0 to 4, because 'attention' has 5 .H.. Received: 5"),
        ([1, -1], "Received: -1"),
        ([True], "Received: True"),
        ([1.0], "Received: 1.0"),
        (None, "Received: None. Give one integer, or a list of them"),
        ("1", "Received: '1'"),
        (np.array(2.0), "Received: array.2"),
        (np.array([[1, 2]]), r"Received: array.\[1, 2\]."),
        (np.array([True, False]), "Received: np.True_"),
    ],
)
def test_wrong_heads(heads, message):
    layer = _built()
    before = layer.get_weights()
    with pytest.raises(ValueError, match=message):
        prune_heads(layer, heads)
    for one, other in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_wrong_layers():
    with pytest.raises(ValueError, match="no weights before it is built"):
        prune_heads(kmha.MultiHeadAttention(HEADS, SIZE), 0)
    for layer in (keras.layers.MultiHeadAttention(HEADS, SIZE), keras.layers.GroupQueryAttention(SIZE, 4, 2)):
        received = f"{type(layer).__module__}.{type(layer).__name__}"
        with pytest.raises(TypeError, match=f"expected a kmha.MultiHeadAttention. Received: {received}") as error:
            prune_heads(layer, 0)
        grouped = isinstance(layer, keras.layers.GroupQueryAttention)
        assert ("grouped queries" in str(error.value), "convert_model" in str(error.value)) == (grouped, not grouped)
    layer = _built()
    model = keras.Sequential([keras.layers.Dense(3)], name="other")
    with pytest.raises(ValueError, match=r"contains the layer 'attention'. Received: 'other'"):
        prune_heads(layer, 0, model)
    layer.query_dense.quantize("int8")
    with pytest.raises(ValueError, match=r"Received: 'query' with a kernel in int8. Remove heads before"):
        prune_heads(layer, 0)
    with pytest.raises(ValueError, match="int8"), without_heads(layer, 0):
        pass


@pytest.mark.parametrize(
    ("heads", "left"),
    [(np.argmin([3, 1, 2]), 4), (np.array(1), 4), (np.array([1, 4]), 3), ({0, 3}, 3), (np.array([], "int32"), 5)],
)
def test_heads_as_numpy_gives_them(heads, left):
    layer = _built()
    before = ops.convert_to_numpy(layer.key_dense.kernel)
    prune_heads(layer, heads)
    assert layer.num_heads == left
    gone = sorted(heads) if isinstance(heads, set) else np.atleast_1d(heads)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.key_dense.kernel), np.delete(before, gone, axis=0))


def test_heads_as_tensors():
    layer = _built()
    prune_heads(layer, ops.convert_to_tensor(2))
    prune_heads(layer, ops.convert_to_tensor([0, 3]))
    assert layer.num_heads == 2


def test_no_heads_change_nothing():
    layer = _built()
    before = layer.weights
    prune_heads(layer, [])
    assert all(one is other for one, other in zip(layer.weights, before, strict=True))


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="torch's own view of the parameters")
def test_torch_parameters():
    import torch

    model = keras.Sequential([keras.Input((QUERIES, WIDTH)), kmha.layers.EncoderLayer(WIDTH, HEADS, 9)])
    model.compile("adam", "mse")
    prune_heads(model.layers[0].mha, GONE, model)
    for part in (model, model.layers[0], model.layers[0].mha, model.layers[0].mha.key_dense):
        assert sum(parameter.numel() for parameter in part.parameters() if parameter.is_floating_point()) == sum(
            weight.value.numel() for weight in part.weights
        )
    x = ops.convert_to_tensor(np.random.default_rng(2).normal(size=(BATCH, QUERIES, WIDTH)), "float32")
    before, state = _arrays([model(x)]), copy.deepcopy(model.state_dict())
    for weight in model.weights:
        weight.assign(ops.zeros_like(weight))
    model.load_state_dict(state)
    _check(_arrays([model(x)]), before)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.layers[0].mha.get_weights()
    torch.sum(model(x) ** 3).backward()
    optimizer.step()
    after = model.layers[0].mha.get_weights()
    for weight, old, new in zip(model.layers[0].mha.weights, before, after, strict=True):
        assert (old != new).any(), weight.path


def test_weights_come_back_after_an_error():
    layer = _built()
    before = layer.get_weights()
    with pytest.raises(RuntimeError), without_heads(layer, 1):
        raise RuntimeError
    for one, other in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
