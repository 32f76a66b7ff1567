# %% [markdown]
# # The decoder layer
#
# **The question.** A decoder layer attends twice. What are query, key and value the second time, and which of the two
# masks goes where?
#
# **The idea.** Block 1 is self-attention over the target. It must not see the future, so it gets the look-ahead mask.
# Block 2 attends to the source: its query is block 1's output, and its key *and* its value are `enc_output`, the
# encoder's output. (The layer computes K and V from it with its own two kernels.) Its keys are source positions, so
# its mask is the *source's* padding mask. Then comes the fully connected part. Each of the three adds its input to
# its output and normalizes the sum.
#
# **The shapes.** x is (B, T, D), and `enc_output` is (B, S, D). The scores of block 1 are (B, H, T, T), and those of
# block 2 are (B, H, T, S). So the look-ahead mask is (1, T, T), or (B, T, T) with the target's padding, and the
# padding mask is (B, 1, S).
#
# **Worked example.** The source has 5 tokens, of which the last 2 are padding, and the target has 3. Target
# position 0 attends to 1 position in block 1 (itself), and to 3 positions in block 2, the source's words.

# %%
import keras
from fully_connected import fully_connected  # you wrote it


class DecoderLayer(keras.layers.Layer):
    """Self-attention, attention to the encoder's output, and the fully connected part.

    Args:
        embedding_dim: Number of features of input and output (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Number of features inside the fully connected part.
        dropout_rate: Dropout rate of the scores, and of the fully connected part's output.
        layernorm_eps: Epsilon of the normalizations.

    Call arguments:
        x: Target (B, T, D).
        enc_output: The encoder's output (B, S, D).
        training: Whether dropout is active. Pass it to both attentions and to the dropout layer, as in `EncoderLayer`.
        look_ahead_mask: Block 1's mask: boolean, broadcasts to (B, T, T), or `None`.
        padding_mask: Block 2's mask, of the source: boolean, broadcasts to (B, T, S), or `None`.

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
            if not part.built:
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
# This is the encoder layer with one more block in the middle. Keras' layer returns a pair if you pass
# `return_attention_scores=True`.

# %% [markdown] tags=["hint"]
# `mha1` gets x as query and as value, and the look-ahead mask. `mha2` gets block 1's normalized output as query, the
# encoder's output under the names `key` and `value`, and the padding mask. Pass masks under the name
# `attention_mask`.

# %% [markdown] tags=["hint"]
# Make three sums: x and the first attention's output; block 1's output and the second attention's output; block 2's
# output and the fully connected part's output after dropout. Each has its own normalization. Return the last one,
# then both scores in order.
