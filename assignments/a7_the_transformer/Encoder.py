# %% [markdown]
# # The encoder
#
# **The question.** The embedding is multiplied by √d before the positions are added. Why, and why not after? And are
# the positions added in every layer?
#
# **The idea.** The entries of an embedding start out small, those of the positional encoding are sines and cosines, up
# to 1. Times √d the embedding is not drowned by the positions; were the sum multiplied, their ratio would be as
# before. The positions are added once, at the bottom: residual connections carry them up. Then comes dropout, and then
# the layers, each of which gets what the one before gave, and all of them the same padding mask. (`training` and masks
# are handed on by name: as positional arguments Keras takes tensors only.)
#
# **The shapes.** Ids are (B, S), the embedding (B, S, D). The table of positions is (1, P, D) with P ≥ S: the first S
# of its positions are added. The result is (B, S, D).
#
# **One line, worked.** D = 4, a first token whose embedding is [0.1, 0.2, 0.3, 0.4]: times √4 it is [0.2, 0.4, 0.6,
# 0.8], and with position 0, [0, 1, 0, 1], it is [0.2, 1.4, 0.6, 1.8].

# %%
import keras
from EncoderLayer import EncoderLayer  # these two are yours
from keras import ops
from positional_encoding import positional_encoding


class Encoder(keras.layers.Layer):
    """Embeds token ids, adds positions, and runs the layers.

    Args:
        num_layers: N.
        embedding_dim: D.
        num_heads: H.
        fully_connected_dim: the features in between in the fully connected parts.
        input_vocab_size: how many token ids there are.
        maximum_position_encoding: P, how many positions there may be.
        dropout_rate: of the embeddings, and of the layers.
        layernorm_eps: of the normalizations.

    Call arguments:
        x: token ids (B, S), integers, S ≤ P.
        training: whether anything is dropped; for the dropout here and for every layer.
        mask: as in `EncoderLayer`, for every layer.

    Returns:
        (B, S, D).
    """

    def __init__(
        self,
        num_layers,
        embedding_dim,
        num_heads,
        fully_connected_dim,
        input_vocab_size,
        maximum_position_encoding,
        dropout_rate=0.1,
        layernorm_eps=1e-6,
    ):
        super().__init__()
        self.supports_masking = True
        self.embedding_dim = embedding_dim
        self.embedding = keras.layers.Embedding(input_vocab_size, embedding_dim)
        self.pos_encoding = positional_encoding(maximum_position_encoding, embedding_dim)
        self.enc_layers = [
            EncoderLayer(embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps)
            for _ in range(num_layers)
        ]
        self.dropout = keras.layers.Dropout(dropout_rate)

    def build(self, x_shape):
        self.embedding.build()
        for layer in self.enc_layers:
            layer.build((None, None, self.embedding_dim))

    def compute_mask(self, x, mask=None):
        return None  # `mask` is an argument: nothing is to hang on the output

    def call(self, x, training=None, mask=None):
        ### BEGIN SOLUTION
        length = x.shape[1]
        x = self.embedding(x) * self.embedding_dim**0.5
        x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)
        x = self.dropout(x, training=training)
        for layer in self.enc_layers:
            x = layer(x, training=training, mask=mask)
        return x
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# The parts are made in `__init__`: embedding, table of positions, dropout, a list of layers. Take the length of the
# sentences from the ids' shape before you overwrite x.

# %% [markdown] tags=["hint"]
# The table is NumPy's, in float64: `ops.cast` it to the dtype of x. Its axis 1 are the positions, of which you need
# the first ones only; axis 0 has the size 1 and broadcasts over the batch.

# %% [markdown] tags=["hint"]
# Embed; multiply by the root of `embedding_dim`; add the first positions; drop out; then a loop over the layers, in
# which x is replaced by what the layer makes of it, with `training` and `mask` handed on.
