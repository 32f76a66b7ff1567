"""Keras layers in the styles of course notebooks."""

import keras
import tensorflow as tf
from keras import layers, ops


class SelfAttention(layers.Layer):
    """Returns a list: the output and the weights."""

    def __init__(self, d_model, n_heads, wrong="", **options):
        super().__init__(**options)
        self.n_heads, self.d_head, self.wrong = n_heads, d_model // n_heads, wrong
        self.to_q, self.to_k, self.to_v = (layers.Dense(d_model, use_bias=False) for _ in range(3))
        self.to_out = layers.Dense(d_model)

    def split(self, x):
        return ops.transpose(ops.reshape(x, (-1, ops.shape(x)[1], self.n_heads, self.d_head)), (0, 2, 1, 3))

    def call(self, x, mask=None):
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(ops.cast(self.d_head, x.dtype))
        if mask is not None and not self.wrong:
            logits = ops.where(ops.cast(mask[:, None, None, :], "bool"), logits, -1e9)
        weights = ops.softmax(logits, axis=-1)
        if mask is not None and self.wrong:
            weights = weights * ops.cast(mask[:, None, None, :], weights.dtype)
        joined = ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), ops.shape(x))
        return [self.to_out(joined), weights]


class EncoderBlock(layers.Layer):
    """Each head is as wide as the input."""

    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1, wrong="", **options):
        super().__init__(**options)
        self.att = layers.MultiHeadAttention(num_heads, key_dim=embed_dim, dropout=rate)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.n1, self.n2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.wrong = wrong

    def call(self, inputs):
        x = self.n1(inputs + self.att(inputs, inputs))
        return self.n2(self.ffn(x) if self.wrong else x + self.ffn(x))


def masked_attention(queries, keys, values, valid_lens, axis=-1):
    logits = tf.matmul(queries, keys, transpose_b=True) / tf.math.sqrt(tf.cast(tf.shape(keys)[-1], queries.dtype))
    seen = tf.sequence_mask(valid_lens, tf.shape(keys)[1])[:, None, :]
    return tf.matmul(tf.nn.softmax(tf.where(seen, logits, tf.constant(-1e6, logits.dtype)), axis), values)


unbuilt_attention = layers.MultiHeadAttention(2, 8, output_shape=7)
unbuilt_block = EncoderBlock(32, 4, 40)
