"""Attention with TensorFlow's variables in a `tf.Module`, which is no Keras layer."""

import tensorflow as tf


class Attention(tf.Module):
    def __init__(self, width, heads, power=0.5):
        super().__init__()
        self.heads, self.power = heads, power
        self.kernels = {name: tf.Variable(tf.random.normal((width, width))) for name in "qkvo"}

    def __call__(self, x, is_token=None):
        batch, length, width = x.shape
        q, k, v = (tf.reshape(x @ self.kernels[name], (batch, length, self.heads, -1)) for name in "qkv")
        logits = tf.einsum("bthk,bshk->bhts", q, k) / float(width // self.heads) ** self.power
        if is_token is not None:
            logits = tf.where(is_token[:, None, None, :], logits, -1e9)
        mixed = tf.einsum("bhts,bshk->bthk", tf.nn.softmax(logits), v)
        return tf.reshape(mixed, (batch, length, width)) @ self.kernels["o"]
