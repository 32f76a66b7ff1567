"""A student's attention layer, right or with one mistake."""

import keras
import numpy as np
import pytest
from keras import ops

SIZES = B, T, I, O = 3, 7, 8, 5


class Attention(keras.layers.Layer):
    """Self-attention with one head, causal or not, with padding; `wrong` names its mistake."""

    def __init__(self, wrong="", causal=True, **kwargs):
        super().__init__(**kwargs)
        self.causal = causal
        self.supports_masking = True
        self.wrong = wrong
        self.query, self.key, self.value = (keras.layers.Dense(O, name=name) for name in ("query", "key", "value"))
        self.merge = keras.layers.Dense(I, name="merge")
        self.dropout = keras.layers.Dropout(0.4, seed=1)

    def build(self, x_shape):
        for layer in (self.query, self.key, self.value):
            layer.build(x_shape)
        self.merge.build((*x_shape[:-1], O))
        if self.wrong == "unused weight":
            self.unused = self.add_weight(shape=(2, 4), name="unused")

    def compute_output_spec(self, x, **_):
        return keras.KerasTensor(x.shape, x.dtype)

    def call(self, x, mask=None, training=None, return_attention_scores=False):
        if self.wrong == "mean of the batch":
            x = x - ops.mean(x, axis=0, keepdims=True)
        if self.wrong == "place in the batch":
            x = x + ops.reshape(ops.arange(x.shape[0], dtype=x.dtype), (-1, 1, 1))
        logits = ops.einsum("bto,bso->bts", self.query(x), self.key(x)) / O**0.5
        seen = self._seen(x, mask)
        scores = ops.softmax(ops.where(seen, logits, -1e9), axis=-2 if self.wrong == "over queries" else -1)
        if self.wrong == "not renormalised":
            scores = ops.where(seen, ops.softmax(logits), 0.0)
        kept = self.dropout(scores, training=True if self.wrong == "dropout left on" else training)
        value = self.value(ops.stop_gradient(x)) if self.wrong == "stopped" else self.value(x)
        output = self.merge(ops.matmul(kept, ops.stop_gradient(value) if self.wrong == "stopped" else value))
        if self.wrong == "mean of the positions":
            output = output + ops.mean(x, axis=1, keepdims=True)
        if self.wrong == "number of positions":
            output = output + x.shape[1]
        if self.wrong == "NaN":
            output = output / ops.cast(ops.greater(output, 0), output.dtype) * 0
        return (output, scores) if return_attention_scores else output

    def _seen(self, x, mask):
        rows, columns = np.arange(x.shape[1])[:, None], np.arange(x.shape[1])
        causal = columns <= rows + (self.wrong == "mask shifted by one")
        causal = columns >= rows if self.wrong == "mask reversed" else causal
        causal = ops.convert_to_tensor(causal[None] if self.causal else np.ones_like(causal[None]))
        if mask is None or self.wrong == "padding ignored":
            return causal
        mask = ops.expand_dims(ops.cast(mask, "bool"), 2 if self.wrong == "queries padded" else 1)
        return ops.logical_and(causal, mask)


@pytest.fixture
def attention():
    return Attention


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def x(rng):
    """(B, T, I), with T=7 and I=8 for three items."""
    return rng.normal(size=(B, T, I)).astype("float32")


@pytest.fixture
def tokens():
    """A padding mask (B, T)."""
    return np.arange(T) < np.array([[4], [7], [5]])
