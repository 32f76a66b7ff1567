"""Attention that needs a mask in every call, or whose mask has a name that says what True does."""

import keras
import numpy as np
import tensorflow as tf


class HeadsInTheBatch(keras.layers.Layer):
    """Attention with the heads on the axis of items, before a residual connection and a normalization."""

    def __init__(self, num_units, num_heads=2, causality=False, wrong=""):
        super().__init__()
        self.count, self.causality, self.wrong = num_heads, causality, wrong
        self.q_layer, self.k_layer, self.v_layer = (keras.layers.Dense(num_units) for _ in range(3))
        self.norm = keras.layers.LayerNormalization(epsilon=1e-8)

    def call(self, queries, keys, key_masks):
        q, k, v = (
            tf.concat(tf.split(each, self.count, axis=-1), 0)
            for each in (self.q_layer(queries), self.k_layer(keys), self.v_layer(keys))
        )
        logits = q @ tf.transpose(k, (0, 2, 1)) / np.sqrt(q.shape[-1])
        hidden = tf.cast(key_masks, tf.float32)
        hidden = tf.repeat(hidden, self.count, 0) if self.wrong == "repeat" else tf.tile(hidden, (self.count, 1))
        logits += hidden[:, None] * -(2.0**32)
        if self.causality:
            logits = tf.where(tf.linalg.band_part(tf.ones_like(logits), -1, 0) > 0, logits, -(2.0**32))
        heads = tf.split(tf.nn.softmax(logits) @ v, self.count, axis=0)
        return self.norm(queries + tf.concat(heads, -1))


def weights(query, key, seen):
    """Return the weights of the keys, which are 0 where `seen` is False."""
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    logits = np.where(seen, logits, -1e9)
    logits = np.exp(logits - logits.max(-1, keepdims=True))
    return logits / logits.sum(-1, keepdims=True)


class OfHidden(keras.layers.Layer):
    """Self-attention with one head.

    source_valid: (B, T), True for tokens and False for padding
    """

    def __init__(self, units, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.into, self.out = keras.layers.Dense(3 * units), keras.layers.Dense(units)

    def call(self, h, source_valid=None, umbrella=None):
        q, k, v = tf.split(self.into(h), 3, axis=-1)
        logits = q @ tf.transpose(k, (0, 2, 1)) / np.sqrt(q.shape[-1])
        if source_valid is not None:
            seen = tf.logical_not(source_valid) if self.wrong == "inverted" else source_valid
            logits = tf.where(seen[:, None], logits, tf.cast(-1e9, logits.dtype))
        if umbrella is not None:
            logits = logits * umbrella
        return self.out(tf.nn.softmax(logits) @ v)


def of_two_mistakes(query, key, value, pads=None):
    """Attend where `pads` (B, S) is True, and forget the root. Masks (B, T, S) would give more positions.

    pads: True for padding
    """
    mixed = weights(query, key / np.sqrt(key.shape[-1]), True if pads is None else pads[:, None]) @ value
    return mixed.reshape(len(query), -1, value.shape[-1])


def with_visible(query, key, value, visible):
    return weights(query, key, visible[...]) @ value


def with_ignored(query, key, value, ignore):
    return weights(query, key, ~ignore) @ value


def with_unknown(query, key, value, regenschirm):
    return weights(query, key, regenschirm[...]) @ value


def cross(x, sonnenblume, w_q, w_k, w_v, w_o):
    """Attend to the second argument, with one head."""
    query, key, value = x @ w_q, sonnenblume @ w_k, sonnenblume @ w_v
    return weights(query, key, True) @ value @ w_o


def of_lengths(query, key, value, valid_lens=None, axis=1):
    """Attend to so many keys, or with `axis=2` from so many queries, which is wrong."""
    logits = tf.matmul(query, key, transpose_b=True) / np.sqrt(query.shape[-1])
    if valid_lens is not None:
        seen = tf.sequence_mask(valid_lens, key.shape[1] if axis == 1 else query.shape[1])
        logits = tf.where(tf.expand_dims(seen, axis), logits, -1e6)
    return tf.nn.softmax(logits) @ value


class OfFeatures(keras.layers.Layer):
    """Self-attention with an input called `feats`."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)

    def call(self, feats):
        return self.attention(feats, feats)


def heads_in_the_middle(query, key, value, ignore):
    """Attend without a batch: query, key and value are (positions, heads, features). A row may see nothing."""
    logits = np.einsum("thd,shd->hts", query, key) / np.sqrt(query.shape[2])
    logits = np.where(ignore[None, :, :], -1e9, logits)
    exp = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.einsum("hts,shd->thd", exp / exp.sum(axis=2, keepdims=True), value)


class Compiled(tf.Module):
    """Self-attention whose call TensorFlow compiles, with biases called `qkv_b` and `proj_b`."""

    def __init__(self, dim, num_heads=2, axis=-1):
        super().__init__()
        self.num_heads, self.axis = num_heads, axis
        self.qkv_w, self.qkv_b = tf.Variable(tf.random.normal((dim, 3 * dim))), tf.Variable(tf.ones(3 * dim))
        self.proj_w, self.proj_b = tf.Variable(tf.random.normal((dim, dim))), tf.Variable(tf.ones(dim))

    @tf.function
    def __call__(self, x):
        batch, length, dim = x.shape
        packed = tf.reshape(x @ self.qkv_w + self.qkv_b, (batch, length, 3, self.num_heads, dim // self.num_heads))
        q, k, v = tf.unstack(tf.transpose(packed, (2, 0, 3, 1, 4)))
        logits = tf.matmul(q, k, transpose_b=True) / float(dim // self.num_heads) ** 0.5
        heads = tf.transpose(tf.nn.softmax(logits, self.axis) @ v, (0, 2, 1, 3))
        return tf.reshape(heads, (batch, length, dim)) @ self.proj_w + self.proj_b


class OfIds(keras.layers.Layer):
    """An encoder layer with a table of words, which takes token ids."""

    def __init__(self, vocab, dim=12, heads=2, ff=20):
        super().__init__()
        self.table = keras.layers.Embedding(vocab, dim)
        self.attention = keras.layers.MultiHeadAttention(heads, dim // heads)
        self.first, self.second = keras.layers.Dense(ff, "relu"), keras.layers.Dense(dim)

    def call(self, ids):
        x = self.table(ids)
        x = x + self.attention(x, x)
        return x + self.second(self.first(x))


class OfSegments(keras.layers.Layer):
    """The sum of the vectors of words, positions and segments. The ids of the segments are required."""

    def __init__(self, vocab_size=30, hidden_size=8, max_position=64):
        super().__init__()
        self.words, self.segments = (
            keras.layers.Embedding(vocab_size, hidden_size),
            keras.layers.Embedding(2, hidden_size),
        )
        self.positions = keras.layers.Embedding(max_position, hidden_size)

    def call(self, input_ids, token_type_ids):
        places = tf.range(tf.shape(input_ids)[1])
        return self.words(input_ids) + self.segments(token_type_ids) + self.positions(places)
