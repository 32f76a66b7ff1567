"""Layers that take one position in each call, so that they have no call without a cache to compare with."""

import keras
import pytest
import tensorflow as tf

from kmha.verify import diagnose


class OneToken(keras.layers.Layer):
    """Attention from one token to those before it, as a decoder of a notebook computes it."""

    scaled = True
    masked = True

    def __init__(self, size, heads):
        super().__init__()
        self.h, self.d = heads, size // heads
        self.wq, self.wk, self.wv, self.wo = (keras.layers.Dense(size, use_bias=False) for _ in range(4))

    def split(self, x):
        return tf.reshape(x, [tf.shape(x)[0], 1, self.h, self.d])

    def new_values(self, keys, values):
        return values

    def attend(self, q, k, v):
        logits = tf.einsum("bqhd,bkhd->bhqk", q, k)
        logits = logits / self.d**0.5 if self.scaled else logits
        return tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(logits), v)


class Growing(OneToken):
    def init_cache(self, batch):
        return {"k": tf.zeros([batch, 0, self.h, self.d]), "v": tf.zeros([batch, 0, self.h, self.d])}

    def call(self, token, cache):
        q, k, v = self.split(self.wq(token)), self.split(self.wk(token)), self.split(self.wv(token))
        new = {"k": tf.concat([cache["k"], k], 1), "v": tf.concat([self.new_values(cache["k"], cache["v"]), v], 1)}
        out = self.attend(q, new["k"], new["v"])
        return self.wo(tf.reshape(out, tf.shape(token))), new


class Unscaled(Growing):
    scaled = False


class KeysAsValues(Growing):
    def new_values(self, keys, values):
        return keys


class Preallocated(OneToken):
    def init_cache(self, batch, max_len):
        return tf.zeros([batch, max_len, self.h, self.d]), tf.zeros([batch, max_len, self.h, self.d])

    def call(self, token, cache, step):
        q, k, v = self.split(self.wq(token)), self.split(self.wk(token)), self.split(self.wv(token))
        length = tf.shape(cache[0])[1]
        here = tf.reshape(tf.range(length) == step, [1, -1, 1, 1])
        keys, values = tf.where(here, k, cache[0]), tf.where(here, v, cache[1])
        stop = step + 1 if self.masked else length
        out = self.attend(q, keys[:, :stop], values[:, :stop])
        return self.wo(tf.reshape(out, tf.shape(token))), (keys, values)


class WithEmptySlots(Preallocated):
    masked = False


@pytest.mark.parametrize("kind", [Growing, Preallocated])
def test_a_right_layer_is_right(kind):
    found = diagnose(kind)
    assert found.verdict == "right"
    assert found.name == kind.__name__
    assert "one position in each call" in str(found)


def test_mistakes_of_attention_are_named():
    assert diagnose(Unscaled).ids == ("scale-missing",)


def test_mistakes_of_the_cache_are_named():
    assert diagnose(KeysAsValues).ids == ("cache-keys-as-values",)
    assert diagnose(WithEmptySlots).ids == ("cache-empty-slots-visible",)
    assert "layer(x" not in str(diagnose(KeysAsValues))  # a script that calls it with all positions would not run
