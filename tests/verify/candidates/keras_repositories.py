"""Keras layers in the styles of code in public repositories, whose masks and sizes are called differently."""

import numpy as np
import tensorflow as tf
from keras import Sequential, layers, ops


class Encoder(layers.Layer):
    """`key_dim` is the width of all heads together, and the mask hides."""

    def __init__(self, num_heads, key_dim, ff_dim, **options):
        super().__init__(**options)
        assert key_dim % num_heads == 0, "key_dim must be divisible by num_heads"
        self.heads, self.size = num_heads, key_dim // num_heads
        self.wq, self.wk, self.wv, self.out = (layers.Dense(key_dim) for _ in range(4))
        self.ffn = Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(key_dim)])
        self.norm1, self.norm2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)

    def _split(self, x):
        return ops.swapaxes(ops.reshape(x, (ops.shape(x)[0], -1, self.heads, self.size)), 1, 2)

    def call(self, x, mask=None):
        query, key, value = (self._split(layer(x)) for layer in (self.wq, self.wk, self.wv))
        logits = ops.matmul(query, ops.swapaxes(key, 2, 3)) / self.size**0.5
        logits = logits if mask is None else logits + ops.cast(mask, logits.dtype) * -1e9
        mixed = ops.swapaxes(ops.matmul(ops.softmax(logits), value), 1, 2)
        x = self.norm1(x + self.out(ops.reshape(mixed, ops.shape(x))))
        return self.norm2(x + self.ffn(x))


class SequenceDecoder(layers.Layer):
    """The masks of a widespread example: the padding mask is combined with the look-ahead mask.

    `second` says which mask the second attention gets: "both" as in the example, "look-ahead", or "padding", which is
    right.
    """

    def __init__(self, n_features, dense_dim, num_heads, second="both", **options):
        super().__init__(**options)
        self.attention_1, self.attention_2 = (layers.MultiHeadAttention(num_heads, n_features) for _ in range(2))
        self.dense_proj = Sequential([layers.Dense(dense_dim, activation="relu"), layers.Dense(n_features)])
        self.norm_1, self.norm_2, self.norm_3 = (layers.LayerNormalization() for _ in range(3))
        self.second = second

    def call(self, inputs, encoder_outputs, mask=None):
        rows = ops.arange(ops.shape(inputs)[1])
        look_ahead = (rows[:, None] >= rows)[None]
        padding = None if mask is None else ops.cast(mask[:, None, :], "bool")
        if self.second == "look-ahead":
            padding = look_ahead
        elif self.second == "both" and padding is not None:
            padding = padding & look_ahead
        x = self.norm_1(inputs + self.attention_1(inputs, inputs, attention_mask=look_ahead))
        x = self.norm_2(x + self.attention_2(x, encoder_outputs, attention_mask=padding))
        return self.norm_3(x + self.dense_proj(x))


class SingleEncoder(Encoder):
    """It scales in float32 alone, and its feed-forward network is four times as wide."""

    def __init__(self, dim, heads):
        super().__init__(heads, dim, 4 * dim)

    def call(self, x, mask=None):
        query, key, value = (self._split(layer(x)) for layer in (self.wq, self.wk, self.wv))
        logits = tf.matmul(query, key, transpose_b=True) / tf.sqrt(tf.cast(self.size, tf.float32))
        logits = logits if mask is None else logits + mask * -1e9
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(logits), value), (0, 2, 1, 3))
        x = self.norm1(x + self.out(tf.reshape(mixed, tf.shape(x))))
        return self.norm2(x + self.ffn(x))


class Direct(layers.Layer):
    """It replaces Keras' own way of calling a layer."""

    def __init__(self, dim, heads):
        super().__init__()
        self.inner = SingleEncoder(dim, heads)

    def __call__(self, x, mask=None):
        return self.inner(x, mask=mask)


class PositionsOfFirstCall(layers.Layer):
    """Make the table of positions in the first call, for as many positions as it has."""

    def __init__(self, twice=False, **kwargs):
        super().__init__(**kwargs)
        self.twice = twice

    def build(self, shape):
        feature = np.arange(shape[-1])
        exponent = 2 * (feature if self.twice else feature // 2) / shape[-1]
        angles = np.arange(shape[1])[:, None] / 10_000**exponent
        self.positions = np.where(feature % 2 == 0, np.sin(angles), np.cos(angles))

    def call(self, x):
        return x + self.positions
