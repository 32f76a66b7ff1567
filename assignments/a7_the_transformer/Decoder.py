# %% [markdown]
# # The decoder
#
# **The question.** Each decoder layer attends to the encoder's output. Is it the output of the encoder layer with the
# same number, or that of the last one? And how do you get the scores that pictures of attention show?
#
# **The idea.** All decoder layers get the same `enc_output`, the output of the *last* encoder layer. Only x changes
# from layer to layer. Otherwise the decoder begins as the encoder does: embedding times √d, plus the first T
# positions, then dropout. Each layer returns its scores beside x. Keep them in a dict, under a name that says the
# layer and the block.
#
# **The shapes.** Target ids are (B, T), `enc_output` is (B, S, D), and the output is (B, T, D). The dict has two
# entries for each layer, (B, H, T, T) and (B, H, T, S).
#
# **Worked example.** A decoder of one layer returns x and {"decoder_layer1_block1_self_att": …,
# "decoder_layer1_block2_decenc_att": …}. These names count layers from 1.

# %%
import keras
from DecoderLayer import DecoderLayer  # you wrote these two
from keras import ops
from positional_encoding import positional_encoding


class Decoder(keras.layers.Layer):
    """Token ids through embedding, positions, and layers that attend to the encoder's output.

    Args:
        num_layers: Number of layers (N).
        embedding_dim: Number of features (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Number of features inside the fully connected parts.
        target_vocab_size: Number of token ids.
        maximum_position_encoding: Largest number of positions.
        dropout_rate: Dropout rate of the embeddings and of the layers.
        layernorm_eps: Epsilon of the normalizations.

    Call arguments:
        x: Target ids (B, T), integers.
        enc_output: The encoder's output (B, S, D), the same for all layers.
        training: Whether dropout is active. Pass it to the dropout layer and to every layer, as in `DecoderLayer`.
        look_ahead_mask, padding_mask: Arguments for every layer, as in `DecoderLayer`.

    Returns:
        The output (B, T, D), and a dict of the scores of every layer i, from 1: `decoder_layer{i}_block1_self_att`, (B, H, T, T),
        and `decoder_layer{i}_block2_decenc_att`, (B, H, T, S).
    """

    def __init__(
        self,
        num_layers,
        embedding_dim,
        num_heads,
        fully_connected_dim,
        target_vocab_size,
        maximum_position_encoding,
        dropout_rate=0.1,
        layernorm_eps=1e-6,
    ):
        super().__init__()
        self.embedding_dim = embedding_dim
        self.embedding = keras.layers.Embedding(target_vocab_size, embedding_dim)
        self.pos_encoding = positional_encoding(maximum_position_encoding, embedding_dim)
        self.dec_layers = [
            DecoderLayer(embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps)
            for _ in range(num_layers)
        ]
        self.dropout = keras.layers.Dropout(dropout_rate)

    def build(self, x_shape, enc_output_shape):
        self.embedding.build()
        for layer in self.dec_layers:
            layer.build((None, None, self.embedding_dim), enc_output_shape)

    def call(self, x, enc_output, training=None, look_ahead_mask=None, padding_mask=None):
        ### BEGIN SOLUTION
        length = x.shape[1]
        x = self.embedding(x) * self.embedding_dim**0.5
        x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)
        x = self.dropout(x, training=training)
        masks = {"look_ahead_mask": look_ahead_mask, "padding_mask": padding_mask}
        scores = {}
        for number, layer in enumerate(self.dec_layers, 1):
            x, block1, block2 = layer(x, enc_output, training=training, **masks)
            scores[f"decoder_layer{number}_block1_self_att"] = block1
            scores[f"decoder_layer{number}_block2_decenc_att"] = block2
        return x, scores
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# The first four lines are those of your encoder. Then loop over the layers. Each returns three things.

# %% [markdown] tags=["hint"]
# `enumerate(…, 1)` counts from 1, and an f-string puts the number into a name. Start from an empty dict before the
# loop, and add two entries in every round.

# %% [markdown] tags=["hint"]
# In every round, x becomes the layer's first result. Pass the same `enc_output`, `training` and both masks to each
# layer by name. Keep the second result under the name with block1, and the third under the name with block2.
