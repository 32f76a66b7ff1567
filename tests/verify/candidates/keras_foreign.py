"""Keras layers as people use them."""

import keras
import numpy as np


class TwoSizes(keras.layers.MultiHeadAttention):
    """The built-in layer."""


class Unscaled(keras.layers.MultiHeadAttention):
    """With one mistake."""

    def _compute_attention(self, query, *rest, **more):
        return super()._compute_attention(query * np.sqrt(query.shape[-1]), *rest, **more)


def built(kind):
    """Return a layer whose values have another head size than its queries."""
    layer = kind(2, 3, value_dim=5)
    layer(np.ones((2, 7, 6)), np.ones((2, 4, 6)))
    return layer
