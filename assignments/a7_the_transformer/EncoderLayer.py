# %% [markdown]
# # The encoder layer
#
# **The question.** "Add & Norm" stands twice in the figure of an encoder layer. What is added to what, and is it
# added before the normalization or after it?
#
# **The idea.** A layer has two sublayers, self-attention and the fully connected part. Around each: what went *into*
# the sublayer is added to what came out, and the sum is normalized. What went into the second is the first one's
# normalized sum, and not x. Self-attention means that query, key and value are all x. Here, as in the course, dropout
# is in the attention itself and on what the fully connected part gives, before that is added.
#
# **The shapes.** x is (B, S, D), and so is everything else. The mask is (B, 1, S) or (B, S, S), boolean, True means
# may be attended. `mha(x, x, x, mask)` does *not* use it: the fourth argument of Keras' layer is another. Name it.
#
# **One line, worked.** D = 2: x = [1, 3], the attention gives [2, -2]. The sum [3, 1] has the mean 2 and the
# deviation 1, so its normalization is [1, -1] (before gain and bias), and this, not [1, 3], is what the second sum
# starts from.

# %%
import keras
from fully_connected import fully_connected  # yours


class EncoderLayer(keras.layers.Layer):
    """Self-attention, then the fully connected part, each with a residual connection and a normalization after it.

    Args:
        embedding_dim: D, the features of input and output.
        num_heads: H.
        fully_connected_dim: the features in between in the fully connected part.
        dropout_rate: of the scores, and of what the fully connected part gives.
        layernorm_eps: of the normalizations.

    Call arguments:
        x: (B, S, D).
        training: whether anything is dropped; to be handed on to the attention and to the dropout layer.
        mask: boolean (B, 1, S) or (B, S, S), True where a query may attend, or `None`.

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
            part.build(x_shape)

    def compute_mask(self, x, mask=None):
        return None  # `mask` is an argument: nothing is to hang on the output

    def call(self, x, training=None, mask=None):
        ### BEGIN SOLUTION
        attention = self.mha(x, x, attention_mask=mask, training=training)
        block1 = self.layernorm1(x + attention)
        forward = self.dropout_ffn(self.ffn(block1), training=training)
        return self.layernorm2(block1 + forward)
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# Everything that you need is made in `__init__`; each part is called once. Write down what each gets: the attention x
# (as query and as value), the first normalization a sum, the fully connected part what that normalization gave.

# %% [markdown] tags=["hint"]
# The mask goes into the attention by the name `attention_mask`. `training` goes into the attention and into the
# dropout layer. Without a key Keras' layer takes the value.

# %% [markdown] tags=["hint"]
# Two sums, each normalized: x plus the attention's output; then that result plus what the fully connected part makes
# of it, after dropout. What the second normalization gives is returned.
