import keras
import numpy as np
import pytest

import kmha
from kmha import show
from kmha.show import worked_steps

GENERATOR = np.random.default_rng(8)
QUERY, VALUE, KEY = (GENERATOR.normal(size=shape).astype("float32") for shape in ((2, 3, 5), (2, 4, 7), (2, 4, 9)))
KINDS = [kmha.MultiHeadAttention, keras.layers.MultiHeadAttention]


def _shapes(value_dim):
    inputs = {"query": (3, 5), "key": (4, 9), "value": (4, 7)}
    logits = dict.fromkeys(("logits", "scaled logits", "masked logits", "scores"), (3, 4))
    output = {"mixed values": (3, value_dim), "part of head 2": (3, 10), "output": (3, 10)}
    return inputs | {"Q": (3, 8), "K": (4, 8), "V": (4, value_dim)} | logits | output


def _layer(kind=kmha.MultiHeadAttention, **options):
    options = {"value_dim": 6, "output_shape": 10, "bias_initializer": "normal", **options}
    return kind(2, 8, name="block", **options)


def _panels(figure):
    """The arrays that are drawn, by name."""
    names = [text.get_text().split(" (")[0] for text in figure.texts if ") = (" in text.get_text()]
    arrays = [np.ma.filled(axes.images[0].get_array(), -np.inf) for axes in figure.axes]
    return dict(zip(names, arrays, strict=True))


def _weights(layer):
    """The kernels of head 2 as the papers write them: W_Q, W_K, W_V (I, O) and W_O (O, E), with their biases."""
    denses = layer.query_dense, layer.key_dense, layer.value_dense
    own = isinstance(layer, kmha.MultiHeadAttention)
    arrays = [[keras.ops.convert_to_numpy(x).astype("float64") for x in (d.kernel, d.bias)] for d in denses]
    kernels = [kernel[1] if own else kernel[:, 1] for kernel, _ in arrays]
    output = [keras.ops.convert_to_numpy(x).astype("float64") for x in (layer.output_dense.kernel,)]
    return kernels, [bias[1] for _, bias in arrays], output[0][1]


@pytest.mark.parametrize(
    ("kind", "value_dim"), list(zip(KINDS, (6, 8), strict=True))
)  # on JAX, the built-in needs one size
def test_every_panel_has_the_numbers_of_its_step(kind, value_dim):
    layer, mask = _layer(kind, value_dim=value_dim), np.array([[True, True, False, True]])
    figure = show.steps(layer, QUERY, VALUE, KEY, attention_mask=mask, head=1, item=1)
    found = _panels(figure)
    assert {name: values.shape for name, values in found.items()} == _shapes(value_dim)
    (w_q, w_k, w_v), (b_q, b_k, b_v), w_o = _weights(layer)
    query, value, key = (x[1].astype("float64") for x in (QUERY, VALUE, KEY))
    q, k, v = query @ w_q + b_q, key @ w_k + b_k, value @ w_v + b_v
    scaled = q @ k.T / np.sqrt(8)
    masked = np.where(mask, scaled, -np.inf)
    scores = np.exp(masked) / np.exp(masked).sum(1, keepdims=True)
    output = layer(QUERY, VALUE, KEY, attention_mask=mask[None])[1]
    expected = [query, key, value, q, k, v, q @ k.T, scaled, masked, scores, scores @ v, scores @ v @ w_o]
    for (name, values), numbers in zip(found.items(), [*expected, keras.ops.convert_to_numpy(output)], strict=True):
        np.testing.assert_allclose(values, numbers, rtol=1e-4, atol=1e-5, err_msg=name)


def test_names_shapes_and_explanations():
    figure = show.steps(_layer(), QUERY, VALUE, KEY, use_causal_mask=True, item=0)
    texts = [text.get_text() for text in figure.texts]
    assert figure.get_suptitle() == "block, head 1"
    assert {"Q (T, O) = (3, 8)", "V (S, O) = (4, 6)", "part of head 1 (T, E) = (3, 10)"} <= set(texts)
    assert {"query · W_Q + b_Q", "logits / √O = logits / √8", "scores · V", "softmax of each row"} <= set(texts)
    own = show.steps(_layer(use_bias=False), QUERY, VALUE, KEY, item=0, title="mine")
    texts = [text.get_text() for text in own.texts]
    assert "query · W_Q" in texts
    assert not any(text.startswith("masked") for text in texts)
    assert own.get_suptitle() == "mine"


def test_inputs_that_are_one_tensor_are_one_panel():
    layer = kmha.MultiHeadAttention(2, 4)
    x, y = GENERATOR.normal(size=(3, 5)), GENERATOR.normal(size=(4, 5))
    assert list(_panels(show.steps(layer, x)))[:2] == ["query = key = value", "Q"]
    assert list(_panels(show.steps(layer, x, y)))[:3] == ["query", "key = value", "Q"]
    assert list(_panels(show.steps(layer, x, y, y.copy())))[:4] == ["query", "key", "value", "Q"]


def test_cells_have_numbers_in_small_panels_only():
    figure = show.steps(_layer(), QUERY, VALUE, KEY, item=0, head=1)
    panels = dict(zip(_panels(figure), figure.axes, strict=True))
    for name, axes in panels.items():
        values = np.asarray(axes.images[0].get_array())
        texts = {(round(y), round(x)): text.get_text() for text in axes.texts for x, y in [text.get_position()]}
        if max(values.shape) <= 8:
            assert {place: float(text.replace("−", "-")) for place, text in texts.items()} == {
                place: pytest.approx(number, abs=0.0051) for place, number in np.ndenumerate(values)
            }
        else:
            assert not texts
            assert name in ("key", "part of head 2", "output")
    ranges = [text.get_text() for text in figure.texts if " to " in text.get_text() and "from" in text.get_text()]
    assert f"from {KEY[0].min():.2f} to {KEY[0].max():.2f}".replace("-", "−") in ranges


def test_a_row_with_nothing_to_attend_to_is_zero():
    mask = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
    found = _panels(show.steps(_layer(), QUERY, VALUE, KEY, attention_mask=mask, item=0))
    np.testing.assert_array_equal(found["scores"][1], np.zeros(4))
    assert np.isneginf(found["masked logits"]).tolist() == (mask == 0).tolist()


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 4), (2, 2, 3, 4)])
def test_masks_of_each_rank(shape):
    """A mask of heads and items applies to the head and item that are drawn."""
    mask = GENERATOR.random(shape) < 0.6
    mask[..., 0] = True
    found = _panels(show.steps(_layer(), QUERY, VALUE, KEY, attention_mask=mask, head=1, item=1))
    of_item = mask if mask.ndim == 2 else mask[1] if mask.ndim == 3 else mask[1, 1]
    np.testing.assert_array_equal(np.isfinite(found["masked logits"]), np.broadcast_to(of_item, (3, 4)))


def test_a_window_and_half_precision():
    layer = kmha.MultiHeadAttention(2, 4, sliding_window=2, dtype="bfloat16")
    found = _panels(show.steps(layer, GENERATOR.normal(size=(5, 6)), use_causal_mask=True))
    assert np.isfinite(found["masked logits"]).tolist() == (np.tril(np.ones((5, 5))) - np.tri(5, k=-2) > 0).tolist()


def test_tokens_label_rows_and_columns_and_cut_padding():
    rows, columns = ["a", "▁dog"], ["ein", "▁Hund", "."]
    figure = show.steps(_layer(), QUERY, VALUE, KEY, rows=rows, columns=columns, item=0)
    panels = dict(zip(_panels(figure), figure.axes, strict=True))
    labels = {
        name: [[label.get_text() for label in labels] for labels in (axes.get_yticklabels(), axes.get_xticklabels())]
        for name, axes in panels.items()
    }
    assert labels["Q"] == [["a", "dog"], []]
    assert labels["K"] == [["ein", "Hund", "."], []]
    assert labels["V"] == [[], []]
    assert labels["scores"] == [[], ["ein", "Hund", "."]]
    assert panels["scores"].images[0].get_array().shape == (2, 3)
    own = show.steps(kmha.MultiHeadAttention(2, 4), QUERY[0], rows=["a", "b", "c"])
    assert [label.get_text() for label in own.axes[4].get_xticklabels()] == ["a", "b", "c"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("length", "keys", "width"), [(1, 1, 1), (2, 5, 3), (5, 5, 8), (60, 60, 64), (8, 60, 300)])
@pytest.mark.parametrize("tokens", ["{}", "a long token {}", None])
def test_no_text_overlaps_or_is_cut_off(length, keys, width, tokens, check_texts):
    query, value = GENERATOR.normal(0, 30, (length, width)), GENERATOR.normal(0, 300, (keys, width))
    texts = [None if tokens is None else [tokens.format(index) for index in range(size)] for size in (length, keys)]
    layer = kmha.MultiHeadAttention(2, 4, name="a long name of a layer " * 3)
    mask = np.arange(keys) <= 2
    figure = show.steps(layer, query, value, attention_mask=mask[None], rows=texts[0], columns=texts[1])
    check_texts(figure)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_it_is_saved(tmp_path, suffix):
    path = tmp_path / f"steps.{suffix}"
    show.save(show.steps(_layer(), QUERY, VALUE, item=0), path)
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


class _Doubled(kmha.MultiHeadAttention):
    def _compute_attention(self, *args, **kwargs):
        mixed, scores = super()._compute_attention(*args, **kwargs)
        return 2 * mixed, scores


def test_a_layer_that_computes_something_else():
    for layer in (_Doubled(2, 4), kmha.MultiHeadAttention(2, 4, use_gate=True)):
        with pytest.raises(ValueError, match=r"computes other steps than softmax.*Its output differs by up to"):
            show.steps(layer, QUERY, item=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"steps, query: expected an item from 0 to 1, as B is 2\. Received: None"),
        ({"item": 2}, r"from 0 to 1, as B is 2\. Received: 2"),
        ({"item": 0, "head": 2}, r"expected a head from 0 to 1, as H is 2\. Received: 2"),
        ({"item": 0, "query": QUERY[0]}, r"steps, query: expected \(T, I\).*Received the shape \(3, 5\), item=0"),
        ({"item": 0, "attention_mask": [True]}, r"steps, attention_mask: expected a mask .*shape \(1,\)"),
        ({"item": 0, "rows": list("abcd")}, r"rows: expected at most 3 query tokens"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        show.steps(**{"layer": _layer(), "query": QUERY, "value": VALUE, **arguments})


def test_another_layer():
    with pytest.raises(TypeError, match=r"expected a kmha\.MultiHeadAttention or .*Received: Dense"):
        show.steps(keras.layers.Dense(3), QUERY, item=0)


def test_numbers_are_short():
    assert max(len(worked_steps._number(number)) for number in GENERATOR.normal(0, 1e6, 100)) <= 6
