"""Keras code with the signatures of well-known texts, all of it right."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def scaled_dot_product_attention(q, k, v, mask):
    """Return the mix and the scores. 1 in the mask hides."""
    logits = tf.einsum("...td,...sd->...ts", q, k) / tf.sqrt(tf.cast(tf.shape(k)[-1], q.dtype))
    if mask is not None:
        logits += tf.cast(mask, q.dtype) * -1e9
    scores = tf.nn.softmax(logits, axis=-1)
    return tf.einsum("...ts,...sd->...td", scores, v), scores


def positional_encoding(position, d_model):
    """Return (1, position, d_model): sine in even features, cosine in odd ones."""
    rates = 10000.0 ** (-2 * (np.arange(d_model) // 2) / d_model)
    angles = np.arange(position)[:, None] * rates
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return tf.cast(angles[None], tf.float32)


def positional_encoding_halves(length, depth):
    """Return (length, depth): all sines, then all cosines, as the text's later edition has it."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(depth // 2) / (depth // 2))
    return tf.cast(np.concatenate([np.sin(angles), np.cos(angles)], axis=-1), tf.float32)


def point_wise_feed_forward_network(d_model, dff):
    return keras.Sequential([layers.Dense(dff, activation="relu"), layers.Dense(d_model)])


class MultiHeadAttention(layers.Layer):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_model, self.depth = num_heads, d_model, d_model // num_heads
        self.wq, self.wk, self.wv = layers.Dense(d_model), layers.Dense(d_model), layers.Dense(d_model)
        self.dense = layers.Dense(d_model)

    def split_heads(self, x, batch_size):
        return tf.transpose(tf.reshape(x, (batch_size, -1, self.num_heads, self.depth)), (0, 2, 1, 3))

    def call(self, v, k, q, mask=None):
        count = tf.shape(q)[0]
        heads = [self.split_heads(x, count) for x in (self.wq(q), self.wk(k), self.wv(v))]
        mixed, scores = scaled_dot_product_attention(*heads, mask)
        joined = tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (count, -1, self.d_model))
        return self.dense(joined), scores


class BaseAttention(layers.Layer):
    """An attention, a normalization and a residual connection, without a call of its own."""

    def __init__(self, **kwargs):
        super().__init__()
        self.mha = layers.MultiHeadAttention(**kwargs)
        self.layernorm, self.add = layers.LayerNormalization(), layers.Add()


class CrossAttention(BaseAttention):
    def call(self, x, context):
        mixed, self.last_attn_scores = self.mha(query=x, key=context, value=context, return_attention_scores=True)
        return self.layernorm(self.add([x, mixed]))


class GlobalSelfAttention(BaseAttention):
    def call(self, x):
        return self.layernorm(self.add([x, self.mha(query=x, value=x, key=x)]))


class CausalSelfAttention(BaseAttention):
    def call(self, x):
        return self.layernorm(self.add([x, self.mha(query=x, value=x, key=x, use_causal_mask=True)]))


class TransformerBlock(layers.Layer):
    """An encoder layer in which each head is as wide as the input (`key_dim=embed_dim`)."""

    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1, self.layernorm2 = (layers.LayerNormalization(epsilon=1e-6) for _ in range(2))
        self.dropout1, self.dropout2 = layers.Dropout(rate), layers.Dropout(rate)

    def call(self, inputs):
        first = self.layernorm1(inputs + self.dropout1(self.att(inputs, inputs)))
        return self.layernorm2(first + self.dropout2(self.ffn(first)))


class TokenAndPositionEmbedding(layers.Layer):
    """A table of tokens plus a learned table of positions, not scaled."""

    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(vocab_size, embed_dim)
        self.pos_emb = layers.Embedding(maxlen, embed_dim)

    def call(self, x):
        return self.token_emb(x) + self.pos_emb(keras.ops.arange(0, keras.ops.shape(x)[-1]))
