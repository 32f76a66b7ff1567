"""Keras layers of public threads, in own words."""

import keras
from keras import ops


class HeadsFirstAttention(keras.layers.Layer):
    """lsdefine/attention-is-all-you-need-keras#36 and #3: the mask is repeated; divided by the root of the width.

    The heads come before the batch, (H·B, T, O), and `repeat` makes masks of (B·H, T, S).
    """

    def __init__(self, n_head, d_model, **options):
        super().__init__(**options)
        self.n_head, self.d_model, self.d_k = n_head, d_model, d_model // n_head
        self.qs_layer, self.ks_layer, self.vs_layer = (keras.layers.Dense(d_model, use_bias=False) for _ in range(3))
        self.w_o = keras.layers.Dense(d_model)

    def _heads(self, array):
        batch, length = ops.shape(array)[:2]
        array = ops.transpose(ops.reshape(array, (batch, length, self.n_head, self.d_k)), (2, 0, 1, 3))
        return ops.reshape(array, (-1, length, self.d_k))

    def call(self, q, k, v, mask=None):
        batch, length = ops.shape(q)[:2]
        q, k, v = self._heads(self.qs_layer(q)), self._heads(self.ks_layer(k)), self._heads(self.vs_layer(v))
        logits = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / self.d_model**0.5
        if mask is not None:
            mask = ops.repeat(ops.cast(mask, logits.dtype), self.n_head, axis=0)
            logits = logits + (1 - mask) * -1e10
        mixed = ops.reshape(ops.matmul(ops.softmax(logits), v), (self.n_head, batch, length, self.d_k))
        return self.w_o(ops.reshape(ops.transpose(mixed, (1, 2, 0, 3)), (batch, length, self.d_model)))


class LookAheadAttention(keras.layers.Layer):
    """community.deeplearning.ai/t/9914: a look-ahead mask with ones above the diagonal, where one means *attend*."""

    def __init__(self, num_heads, key_dim, **options):
        super().__init__(**options)
        self.mha = keras.layers.MultiHeadAttention(num_heads, key_dim)

    def call(self, x):
        length = ops.shape(x)[1]
        look_ahead_mask = 1 - ops.tril(ops.ones((1, length, length)))
        return self.mha(x, x, attention_mask=look_ahead_mask)


class CaptioningAttention(keras.layers.Layer):
    """keras-team/keras-io#482: the decoder's self-attention gets the causal mask alone, though padding is given too."""

    def __init__(self, embed_dim, num_heads, **options):
        super().__init__(**options)
        self.attention = keras.layers.MultiHeadAttention(num_heads, embed_dim // num_heads)

    def call(self, inputs, padding_mask=None):
        causal_mask = ops.tril(ops.ones((1, ops.shape(inputs)[1], ops.shape(inputs)[1]), dtype="int32"))
        if padding_mask is not None:
            combined_mask = ops.cast(padding_mask[:, None, :], dtype="int32")
            combined_mask = ops.minimum(combined_mask, causal_mask)  # made, and not handed on
        return self.attention(query=inputs, value=inputs, key=inputs, attention_mask=causal_mask)
