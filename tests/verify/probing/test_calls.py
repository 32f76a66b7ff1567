import keras
import numpy as np
import pytest

import kmha
from kmha.verify.probing.calls import Callee, NotCalled, leaves
from kmha.verify.probing.inputs import CannotTry
from kmha.verify.probing.reading import read


def reading(thing, *args, mask=None, **kwargs):
    return read(thing, args, kwargs, mask, None, np.random.default_rng(0))


def test_every_call_starts_from_the_same_state(x, attention):
    layer = attention("dropout left on")
    inputs = reading(layer, x)
    callee = Callee(layer)
    callee.run(inputs)
    callee.remember()
    first, again = callee.run(inputs)["output"], callee.run(inputs, again=True)["output"]
    assert not np.array_equal(first, again)
    np.testing.assert_array_equal(callee.run(inputs)["output"], first)


def test_a_layer_within(x):
    layer = kmha.layers.EncoderLayer(8, 2, 9)
    inputs = reading(layer, x)
    inner = Callee(layer, "mha").run(inputs)["output"]
    expected = layer.mha(x, x)
    np.testing.assert_array_equal(inner, keras.ops.convert_to_numpy(expected))
    assert [weight.path for weight in Callee(layer, "mha").weights] == [w.path for w in layer.mha.weights]


def test_a_layer_that_is_not_called(x):
    class Idle(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="idle")
            self.inner = keras.layers.Dense(3, name="inner")

        def call(self, x):
            return x

    layer = Idle()
    with pytest.raises(NotCalled, match="'inner' is not called when 'idle' is"):
        Callee(layer, "inner").run(reading(layer, x))


def test_scores_of_the_innermost_layers(x):
    layer = kmha.layers.DecoderLayer(8, 2, 9)
    memory = x[:, :5] * 2
    inputs = reading(layer, x, memory)
    found = Callee(layer).scores(inputs)
    _, *expected = layer(x, memory)
    assert list(found) == ["mha1", "mha2"]
    for one, other in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(one, keras.ops.convert_to_numpy(other))


def test_scores_of_a_layer_called_twice(x):
    layer = kmha.MultiHeadAttention(2, 3, name="mha")
    given = keras.Input((7, 8))
    model = keras.Model(given, layer(layer(given, given), given))
    found = Callee(model).scores(reading(model, x))
    assert list(found) == ["mha", "mha (2)"]
    assert not np.allclose(*found.values())


def test_scores_that_a_layer_refuses(x):
    class Refusing(kmha.MultiHeadAttention):
        def call(self, query, value, return_attention_scores=False):
            if return_attention_scores:
                raise ValueError("none here")
            return super().call(query, value)

        def build(self, query_shape, value_shape):
            super().build(query_shape, value_shape)

    layer = Refusing(2, 3)
    inputs = reading(layer, x, x)
    with pytest.raises(CannotTry, match="the layer raised ValueError: none here"):
        Callee(layer).scores(inputs)


@pytest.mark.parametrize("mask_zero", [True, False])
def test_other_padding_stays_padding(mask_zero):
    """Only the embedding of the id changes: that of position 0 stays as it is."""
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 0]])
    given = keras.Input((4,), dtype="int32")
    tokens = keras.layers.Embedding(11, 8, mask_zero=mask_zero)(given)
    positions = keras.ops.cumsum(keras.ops.ones_like(given), axis=1) - 1
    model = keras.Model(given, tokens + keras.layers.Embedding(4, 8)(positions))
    inputs = reading(model, ids)
    callee = Callee(model)
    before = callee.run(inputs)["output"]
    after, count = callee.with_other_padding(inputs, np.random.default_rng(0))
    assert count == 1
    differs = (before != after["output"]).all(axis=-1)
    np.testing.assert_array_equal(differs, ids == 0)
    np.testing.assert_array_equal((before != after["output"]).any(axis=-1), ids == 0)


def test_gradients(x):
    layer = keras.layers.Dense(5)
    inputs = reading(layer, x)
    output = Callee(layer).run(inputs)["output"]
    upstream = np.random.default_rng(1).normal(size=output.shape)
    kernel, bias = Callee(layer).gradients(inputs, {"output": upstream})
    np.testing.assert_allclose(kernel, np.einsum("bti,bto->io", x, upstream), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bias, upstream.sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_leaves():
    one, two = np.ones(3), np.ones(4)
    assert list(leaves((one, {"scores": [two, None]}))) == ["output[0]", "output[1]['scores'][0]"]
    assert leaves(None) == {}
