# %% [markdown]
# # The encoder
#
# **The question.** The embedding is multiplied by √d before the positions are added. Why, and why not after? And are
# the positions added in every layer?
#
# **The idea.** The entries of an embedding start out small. Those of the positional encoding are sines and cosines,
# up to 1. Multiplied by √d, the embedding is not drowned by the positions; multiplying the sum instead would leave
# their ratio as it was. Add the positions once, at the bottom: residual connections carry them up. Then comes
# dropout, and then the layers. Each layer gets the output of the layer before, and all of them get the same padding
# mask. (Pass `training` and masks by name: Keras takes only tensors as positional arguments.)
#
# **The shapes.** Ids are (B, S), and the embedding is (B, S, D). The table of positions is (1, P, D) with P ≥ S; add
# its first S positions. The result is (B, S, D).
#
# **Worked example.** D = 4, and the first token's embedding is [0.1, 0.2, 0.3, 0.4]. Times √4 it is [0.2, 0.4, 0.6,
# 0.8], and with position 0, [0, 1, 0, 1], it is [0.2, 1.4, 0.6, 1.8].

# %%
import keras
from EncoderLayer import EncoderLayer  # you wrote these two
from keras import ops
from positional_encoding import positional_encoding


class Encoder(keras.layers.Layer):
    """Token ids through embedding, positions and layers.

    Args:
        num_layers: Number of layers (N).
        embedding_dim: Number of features (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Number of features inside the fully connected parts.
        input_vocab_size: Number of token ids.
        maximum_position_encoding: Largest number of positions (P).
        dropout_rate: Dropout rate of the embeddings and of the layers.
        layernorm_eps: Epsilon of the normalizations.

    Call arguments:
        x: Token ids (B, S), integers, S ≤ P.
        training: Whether dropout is active. Pass it to the dropout layer and to every layer, as in `EncoderLayer`.
        mask: The mask for every layer, as in `EncoderLayer`.

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
        return None  # `mask` is an argument: the output carries none

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
# `__init__` makes the parts: embedding, table of positions, dropout, and a list of layers. Read the length of the
# sentences from the ids' shape before you overwrite x.

# %% [markdown] tags=["hint"]
# The table is a float64 NumPy array: `ops.cast` it to the dtype of x. Its axis 1 holds the positions, and you need
# only the first ones. Axis 0 has the size 1 and broadcasts over the batch.

# %% [markdown] tags=["hint"]
# Embed. Multiply by the root of `embedding_dim`. Add the first positions. Apply dropout. Then loop over the layers,
# and replace x by each layer's output; pass `training` and `mask` to each.
