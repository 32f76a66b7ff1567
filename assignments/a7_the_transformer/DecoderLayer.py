# %% [markdown]
# # The decoder layer
#
# **The question.** A decoder layer attends twice. What are query, key and value the second time, and which of the two
# masks goes where?
#
# **The idea.** Block 1 is self-attention over the target, which may not see the future: it gets the look-ahead mask.
# Block 2 asks the source: its query is block 1's output, its key *and* its value are `enc_output`, the encoder's.
# (The layer makes K and V of it by its own two kernels.) Its keys are source positions, so its mask is the *source's*
# padding mask. Then the fully connected part. Around each of the three: a sum with what went in, and a normalization.
#
# **The shapes.** x is (B, T, D), `enc_output` (B, S, D). Scores of block 1 are (B, H, T, T), of block 2 (B, H, T, S).
# So the look-ahead mask is (1, T, T), or (B, T, T) with the target's padding, and the padding mask (B, 1, S).
#
# **One line, worked.** Source of 5 tokens, the last 2 padding, target of 3: target position 0 attends in block 1 to 1
# position (itself), in block 2 to 3 positions, those of the source that are words.

# %%
import keras
from fully_connected import fully_connected  # yours


class DecoderLayer(keras.layers.Layer):
    """Self-attention, attention to the encoder's output, the fully connected part.

    Args:
        embedding_dim: D, the features of input and output.
        num_heads: H.
        fully_connected_dim: the features in between in the fully connected part.
        dropout_rate: of the scores, and of what the fully connected part gives.
        layernorm_eps: of the normalizations.

    Call arguments:
        x: (B, T, D), the target.
        enc_output: (B, S, D), what the encoder gave.
        training: whether anything is dropped; for both attentions and the dropout layer.
        look_ahead_mask: boolean, for block 1, broadcasts to (B, T, T), or `None`.
        padding_mask: boolean, for block 2, of the source, broadcasts to (B, T, S), or `None`.

    Returns:
        The output (B, T, D), the scores of block 1 (B, H, T, T), and those of block 2 (B, H, T, S).
    """

    def __init__(self, embedding_dim, num_heads, fully_connected_dim, dropout_rate=0.1, layernorm_eps=1e-6):
        super().__init__()
        self.mha1 = keras.layers.MultiHeadAttention(num_heads, embedding_dim // num_heads, dropout=dropout_rate)
        self.mha2 = keras.layers.MultiHeadAttention(num_heads, embedding_dim // num_heads, dropout=dropout_rate)
        self.ffn = fully_connected(embedding_dim, fully_connected_dim)
        self.layernorm1 = keras.layers.LayerNormalization(epsilon=layernorm_eps)
        self.layernorm2 = keras.layers.LayerNormalization(epsilon=layernorm_eps)
        self.layernorm3 = keras.layers.LayerNormalization(epsilon=layernorm_eps)
        self.dropout_ffn = keras.layers.Dropout(dropout_rate)

    def build(self, x_shape, enc_output_shape):
        self.mha1.build(x_shape, x_shape)
        self.mha2.build(x_shape, enc_output_shape)
        for part in (self.ffn, self.layernorm1, self.layernorm2, self.layernorm3):
            part.build(x_shape)

    def call(self, x, enc_output, training=None, look_ahead_mask=None, padding_mask=None):
        ### BEGIN SOLUTION
        options = {"training": training, "return_attention_scores": True}
        attention1, scores1 = self.mha1(x, x, attention_mask=look_ahead_mask, **options)
        block1 = self.layernorm1(x + attention1)
        attention2, scores2 = self.mha2(
            block1, key=enc_output, value=enc_output, attention_mask=padding_mask, **options
        )
        block2 = self.layernorm2(block1 + attention2)
        forward = self.dropout_ffn(self.ffn(block2), training=training)
        return self.layernorm3(block2 + forward), scores1, scores2
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# It is the encoder layer with one more block in the middle. Keras' layer returns a pair if it is asked for with
# `return_attention_scores=True`.

# %% [markdown] tags=["hint"]
# `mha1` gets x as query and as value, and the look-ahead mask. `mha2` gets block 1's normalized output as query, and the
# encoder's output by the names `key` and `value`, and the padding mask. Masks go in by the name `attention_mask`.

# %% [markdown] tags=["hint"]
# Three sums: x and the first attention's output; block 1's output and the second's; block 2's output and the fully
# connected part's, after dropout. Each has a normalization of its own. Return the last, then both scores in order.
