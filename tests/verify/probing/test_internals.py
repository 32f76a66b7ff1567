import keras
import numpy as np
import pytest

import kmha
from kmha.verify import probe


@pytest.mark.tensorflow  # JAX would compile for minutes
def test_scores_with_two_axes_of_keys():
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")
    for attention in (keras.layers.MultiHeadAttention, kmha.MultiHeadAttention):
        for axes in (None, (1, 2), (2,)):
            found = probe(attention(2, 3, attention_axes=axes), x, x)
            assert found["rows"].holds, found
            assert found["gradient"].holds


def test_no_scores(x):
    found = probe(keras.layers.Dense(3), x)
    assert found["rows"].holds is None
    assert "it returns no scores" in found["rows"].where
    assert found["gradient"].holds


@pytest.mark.parametrize(
    ("layer", "why"), [(keras.layers.Softmax(), "it has no trainable weights"), (np.tanh, "function")]
)
def test_nothing_to_train(x, layer, why):
    found = probe(layer, x)["gradient"]
    assert found.holds is None
    assert why in found.where


class Gated(keras.layers.Layer):
    """x + gate · dense(x), whose gate starts at zero."""

    def __init__(self):
        super().__init__(name="gated")
        self.dense = keras.layers.Dense(8, name="dense")

    def build(self, x_shape):
        self.dense.build(x_shape)
        self.gate = self.add_weight(shape=(), initializer="zeros", name="gate")

    def call(self, x):
        return x + self.gate * self.dense(x)


def test_weights_without_a_gradient_at_first(x):
    """A bias that changes nothing is excused only if its name is that of a key."""
    found = probe(Gated(), x)["gradient"]
    assert not found.holds
    assert found.where == "no gradient for gated/dense/kernel, gated/dense/bias"
    assert found.effect == 0


def test_weights_of_a_layer_within(x, attention):
    given = keras.Input((7, 8))
    model = keras.Model(given, attention("unused weight", name="wrong")(keras.layers.Dense(8, name="right")(given)))
    assert not probe(model, x)["gradient"].holds
    assert not probe(model, x, layer="wrong")["gradient"].holds
    assert probe(model, x, layer="right")["gradient"].holds


def test_key_biases_of_any_name(x):
    """The gradient of a key bias is zero up to rounding; those of other biases are not."""

    class Named(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="named")
            self.denses = [keras.layers.Dense(8, name=f"dense_{n}") for n in range(3)]

        def build(self, x_shape):
            for dense in self.denses:
                dense.build(x_shape)

        def call(self, x):
            q, k, v = (dense(x) for dense in self.denses)
            return keras.ops.matmul(keras.ops.softmax(keras.ops.matmul(q, keras.ops.swapaxes(k, 1, 2))), v)

    found = probe(Named(), x)["gradient"]
    assert found.holds
    assert found.where == "except named/dense_1/bias: no softmax depends on it"
    assert found.effect > 1e-3
