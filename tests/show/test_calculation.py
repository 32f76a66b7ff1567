import keras
import numpy as np
import pytest
from keras import layers, ops

import kmha
from kmha.show import capture
from kmha.show.calculation import Calculation

RANDOM = np.random.default_rng(4)
QUERY, VALUE, KEY = (RANDOM.normal(size=shape).astype("float32") for shape in ((2, 5, 6), (2, 7, 4), (2, 7, 8)))
MASK = RANDOM.random((2, 5, 7)) < 0.6
MASK[1, 2] = False


def _array(x):
    return np.array(ops.convert_to_numpy(ops.cast(x, "float32")))


def _close(actual, desired):
    np.testing.assert_allclose(actual, desired, atol=1e-5, rtol=1e-5)


def _layer(kind, **options):
    """A layer with random biases."""
    value_dim = 9 if kind is kmha.MultiHeadAttention else 10  # on JAX, the built-in needs the same
    layer = kind(3, 10, value_dim=value_dim, output_shape=11, name="mha", **options)
    layer.build(QUERY.shape, VALUE.shape, KEY.shape)
    layer.set_weights([RANDOM.normal(size=weight.shape, scale=0.5) for weight in layer.get_weights()])
    return layer


KINDS = pytest.mark.parametrize("kind", [kmha.MultiHeadAttention, layers.MultiHeadAttention])


@KINDS
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        {},
        {"use_causal_mask": True},
        {"attention_mask": MASK[0, :2].any(0)[None, None].repeat(5, 1)},
        {"value_mask": np.array([[True] * 7, [True] * 3 + [False] * 4])},
        {"attention_mask": np.stack([MASK | True, MASK | True, np.tril(MASK | True)], axis=1)},
    ],
    ids=["plain", "causal", "mask", "padding", "mask of heads"],
)
def test_the_steps_end_with_the_outputs_of_the_layer(kind, use_bias, call):
    layer = _layer(kind, use_bias=use_bias)
    output, scores = layer(QUERY, VALUE, KEY, return_attention_scores=True, **call)
    with capture(layer, steps=True) as captured:
        again = layer(QUERY, VALUE, KEY, **call)
    found = captured.steps["mha"]
    _close(found.scores, _array(scores))
    _close(found.scores, captured["mha"])
    _close(found.output, _array(output))
    _close(_array(again), _array(output))
    assert found.projected("query").shape == (2, 5, 3, 10)
    assert found.projected("key").shape == (2, 7, 3, 10)
    assert found.mixed.shape == (2, 5, 3, 9 if kind is kmha.MultiHeadAttention else 10)
    assert found.parts.shape == (2, 3, 5, 11)
    assert (found.mask is None) == (not call)


def test_a_query_with_nothing_to_attend_to():
    layer = _layer(kmha.MultiHeadAttention)
    with capture(layer, steps=["mha"]) as captured:
        output, scores = layer(QUERY, VALUE, KEY, attention_mask=MASK, return_attention_scores=True)
    _close(captured.steps["mha"].scores, _array(scores))
    _close(captured.steps["mha"].output, _array(output))
    np.testing.assert_array_equal(captured.steps["mha"].scores[1, :, 2], np.zeros((3, 7)))


def test_a_window_and_one_input():
    layer = kmha.MultiHeadAttention(3, 4, sliding_window=2, name="mha")
    with capture(layer, steps=True) as captured:
        output = layer(QUERY, QUERY)
    _close(captured.steps["mha"].output, _array(output))
    np.testing.assert_array_equal(captured.steps["mha"].inputs["key"], QUERY)
    assert captured.steps["mha"].mask[0, 0].sum() == 5 + 2 * 4


@KINDS
def test_predict_records_too(kind):
    query, value = keras.Input((None, 6)), keras.Input((None, 4))
    model = keras.Model([query, value], kind(3, 4, name="mha")(query, value))
    with capture(model, steps=["mha"]) as captured:
        output = model.predict([QUERY, VALUE], verbose=0)
    _close(captured.steps["mha"].output, output)
    _close(captured.steps["mha"].scores, captured["mha"])
    layer = model.get_layer("mha")
    assert not {"call", "_compute_attention"} & set(vars(layer))


def test_a_transformer_by_the_names_of_its_scores():
    model = kmha.layers.Transformer(2, 6, 3, 7, 11, 12, 20, 21)
    source, target = np.array([[4, 5, 6, 7, 0], [4, 5, 0, 0, 0]]), np.array([[1, 7, 8], [1, 8, 0]])
    name = "decoder_layer2_block2_decenc_att"
    with capture(model, steps=[name]) as captured:
        _, expected = model((source, target), return_attention_scores=True)
    assert [*captured.steps] == [name]
    _close(captured.steps[name].scores, _array(expected[name]))
    np.testing.assert_array_equal(captured.steps[name].inputs["key"], captured.steps[name].inputs["value"])


def test_mixed_precision_and_dropout():
    layer = _layer(kmha.MultiHeadAttention, dropout=0.5, dtype="mixed_bfloat16")
    with capture(layer, steps=True) as captured:
        layer(QUERY, VALUE, KEY, training=True)
    np.testing.assert_allclose(captured.steps["mha"].scores, captured["mha"], atol=0.01)


@KINDS
def test_batches_of_predict_are_joined(kind):
    query, value = keras.Input((None, 6)), keras.Input((None, 4))
    model = keras.Model([query, value], kind(3, 4, name="mha")(query, value, use_causal_mask=True))
    inputs = [np.concatenate([x, x[:1] + 1]) for x in (QUERY, VALUE)]
    with capture(model, steps=True) as captured:
        output = model.predict(inputs, batch_size=2, verbose=0)
    assert len(captured["mha"]) == 3
    _close(captured.steps["mha"].scores, captured["mha"])
    _close(captured.steps["mha"].output, output)
    _close(captured.steps["mha"].item(2).output, output[2:])


def test_calls_of_other_shapes_leave_the_last():
    layer = _layer(kmha.MultiHeadAttention)
    with capture(layer, steps=True) as captured:
        layer(QUERY, VALUE, KEY)
        expected = layer(QUERY[:, :2], VALUE, KEY)
    _close(captured.steps["mha"].output, _array(expected))


@KINDS
def test_one_capture_inside_another(kind):
    layer = _layer(kind)
    with capture(layer, steps=True) as outer, capture(layer, steps=True) as inner:
        output = _array(layer(QUERY, VALUE, KEY))
    for captured in (outer, inner):
        _close(captured.steps["mha"].output, output)
    assert not {"call", "_compute_attention"} & set(vars(layer))


class _Halved(layers.MultiHeadAttention):
    def _masked_softmax(self, attention_scores, attention_mask=None):
        return super()._masked_softmax(attention_scores, attention_mask) / 2


def _quantized():
    layer = _layer(kmha.MultiHeadAttention)
    layer.key_dense.quantize("int8")
    return layer


def test_layers_of_other_steps_are_refused():
    for layer in (
        _Halved(3, 4, name="mha"),
        _quantized(),
        layers.GroupQueryAttention(4, 6, 2, name="mha"),
        kmha.MultiHeadAttention(3, 4, use_gate=True, name="mha"),
    ):
        with (
            pytest.raises(ValueError, match=r"capture: the steps are those of .*Received the layer 'mha' \("),
            capture(layer, steps=True),
        ):
            pass
    with (
        pytest.raises(ValueError, match="Received: 'other'"),
        capture(_layer(kmha.MultiHeadAttention), steps=["other"]),
    ):
        pass


def test_float64_of_a_worked_example():
    """Two tokens of two features, by hand: softmax([0, ln 3]) = [1/4, 3/4]."""
    inputs = {"query": np.ones((1, 1, 2)), "key": np.array([[[0.0, 0], [1, 1]]]), "value": np.array([[[4.0], [8]]])}
    kernels = {
        "query": np.array([[[1.0], [0]]]),
        "key": np.array([[[np.log(3)], [0]]]),
        "value": np.array([[[1.0]]]),
        "output": np.array([[[2.0, -1, 0.5]]]),
    }
    biases = {
        "query": np.zeros((1, 1)),
        "key": np.zeros((1, 1)),
        "value": np.ones((1, 1)),
        "output": np.array([1.0, 0, 0]),
    }
    found = Calculation(inputs, kernels, biases, None)
    np.testing.assert_allclose(found.logits, [[[[0, np.log(3)]]]])
    np.testing.assert_allclose(found.scores, [[[[0.25, 0.75]]]])
    np.testing.assert_allclose(found.mixed, [[[[8.0]]]])
    np.testing.assert_allclose(found.output, [[[17.0, -8, 4]]])
