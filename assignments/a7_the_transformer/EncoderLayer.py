# %% [markdown]
# # The encoder layer
#
# **The question.** The figure of an encoder layer says "Add & Norm" twice. What is added to what, and does the
# addition come before the normalization or after it?
#
# **The idea.** A layer has two sublayers, self-attention and the fully connected part. Around each, add the
# sublayer's *input* to its output, and normalize the sum. The second sublayer's input is the first one's normalized
# sum, not x. Self-attention means that query, key and value are all x. As in the course, dropout acts inside the
# attention, and on the fully connected part's output before it is added.
#
# **The shapes.** x is (B, S, D), and so are the output of each sublayer and both sums. The mask is boolean, (B, 1, S)
# or (B, S, S), and True means *attend*. `mha(x, x, x, mask)` does *not* use your mask as the attention mask, because
# the fourth argument of Keras' layer is a different mask. Pass yours by name. As in every layer, compute with Keras
# alone: NumPy would cut the gradient, and fail where the layer is traced.
#
# **Worked example.** D = 2, x = [1, 3], and the attention gives [2, -2]. The sum [3, 1] has the mean 2 and the
# deviation 1, so its normalization is [1, -1] (before gain and bias). The second sum starts from this, not from [1,
# 3].

# %%
import keras
from fully_connected import fully_connected  # you wrote it


class EncoderLayer(keras.layers.Layer):
    """Self-attention and the fully connected part, each followed by a residual connection and a normalization.

    Args:
        embedding_dim: Number of features of input and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Number of features inside the fully connected part.
        dropout_rate: Dropout rate of the scores, and of the fully connected part's output.
        layernorm_eps: Epsilon of the normalizations.

    Call arguments:
        x: Input (B, S, D).
        training: Whether dropout is active. Pass it to the attention and to the dropout layer. Keras would fill it in, but
            not where `call` itself is called, as the checks do.
        mask: Boolean (B, 1, S) or (B, S, S), True where a query may attend, or `None`.

    Returns:
        (B, S, D).
    """

    def __init__(self, embedding_dim, num_heads, fully_connected_dim, dropout_rate=0.1, layernorm_eps=1e-6):
        super().__init__()
        self.supports_masking = True
        self.mha = keras.layers.MultiHeadAttention(num_heads, embedding_dim // num_heads, dropout=dropout_rate)
        self.ffn = fully_connected(embedding_dim, fully_connected_dim)
        self.layernorm1 = keras.layers.LayerNormalization(epsilon=layernorm_eps)
        self.layernorm2 = keras.layers.LayerNormalization(epsilon=layernorm_eps)
        self.dropout_ffn = keras.layers.Dropout(dropout_rate)

    def build(self, x_shape):
        self.mha.build(x_shape, x_shape)
        for part in (self.ffn, self.layernorm1, self.layernorm2):
            if not part.built:
                part.build(x_shape)

    def compute_mask(self, x, mask=None):
        return None  # `mask` is an argument: the output carries none

    def call(self, x, training=None, mask=None):
        ### BEGIN SOLUTION
        attention = self.mha(x, x, attention_mask=mask, training=training)
        block1 = self.layernorm1(x + attention)
        forward = self.dropout_ffn(self.ffn(block1), training=training)
        return self.layernorm2(block1 + forward)
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# `__init__` makes everything that you need. Call each part once. Write down what each gets: the attention gets x (as
# query and as value), the first normalization gets a sum, and the fully connected part gets the normalization's
# output.

# %% [markdown] tags=["hint"]
# Pass the mask to the attention under the name `attention_mask`. Pass `training` to the attention and to the dropout
# layer. Without a key, Keras' layer uses the value.

# %% [markdown] tags=["hint"]
# Make two sums, and normalize each: x plus the attention's output; then that result plus the output of the fully
# connected part, after dropout. Return the second normalization's output.
