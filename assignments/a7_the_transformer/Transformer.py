# %% [markdown]
# # The Transformer
#
# **The question.** Encoder and decoder are done. What does the whole model take, and what does it return: logits or
# probabilities? And are the encoder's mask and the decoder's padding mask the same thing?
#
# **The idea.** The encoder reads the source. The decoder reads the target so far, and attends to the encoder's
# output. A last `Dense` gives a number for each token of the target vocabulary at each position, a *logit*, and a
# softmax over the vocabulary turns the logits into probabilities. *This model returns probabilities*, as the course's
# does. Tell the loss so (`from_logits=False`), or it applies the softmax twice. Both padding masks hide the padding
# of the source: one in the encoder's own attention, the other in the decoder's second attention. They are separate
# arguments because a caller may want to hide more.
#
# **The shapes.** Source ids are (B, S), target ids (B, T) and probabilities (B, T, V). The probabilities of a
# position sum to 1. The masks are (B, 1, S), (1, T, T) and (B, 1, S).
#
# **Worked example.** V = 2 and the logits [0, log 3] at a position: the probabilities are [1/4, 3/4].

# %%
import keras
from Decoder import Decoder  # you wrote these two
from Encoder import Encoder
from keras import ops


class Transformer(keras.Model):
    """Encoder, decoder, and the probabilities of the next target token at every position.

    Args:
        num_layers: Number of layers (N) of the encoder, and of the decoder.
        embedding_dim: Number of features (D).
        num_heads: Number of heads (H).
        fully_connected_dim: Number of features inside the fully connected parts.
        input_vocab_size: Number of source token ids.
        target_vocab_size: Number of target token ids (V).
        max_positional_encoding_input: Largest number of source positions.
        max_positional_encoding_target: Largest number of target positions.
        dropout_rate: Dropout rate of encoder and decoder.
        layernorm_eps: Epsilon of the normalizations.

    Call arguments:
        input_sentence: Source ids (B, S), integers.
        output_sentence: Target ids (B, T), integers.
        training: Whether dropout is active. Pass it to encoder and decoder.
        enc_padding_mask: The encoder's mask.
        look_ahead_mask: The mask of the decoder's self-attention.
        dec_padding_mask: The mask of the decoder's attention to the encoder's output.

    Returns:
        The probabilities (B, T, V), and the decoder's dict of scores.
    """

    def __init__(
        self,
        num_layers,
        embedding_dim,
        num_heads,
        fully_connected_dim,
        input_vocab_size,
        target_vocab_size,
        max_positional_encoding_input,
        max_positional_encoding_target,
        dropout_rate=0.1,
        layernorm_eps=1e-6,
    ):
        super().__init__()
        sizes = num_layers, embedding_dim, num_heads, fully_connected_dim
        rates = dropout_rate, layernorm_eps
        self.encoder = Encoder(*sizes, input_vocab_size, max_positional_encoding_input, *rates)
        self.decoder = Decoder(*sizes, target_vocab_size, max_positional_encoding_target, *rates)
        self.final_layer = keras.layers.Dense(target_vocab_size)

    def call(
        self,
        input_sentence,
        output_sentence,
        training=None,
        enc_padding_mask=None,
        look_ahead_mask=None,
        dec_padding_mask=None,
    ):
        ### BEGIN SOLUTION
        enc_output = self.encoder(input_sentence, training=training, mask=enc_padding_mask)
        masks = {"look_ahead_mask": look_ahead_mask, "padding_mask": dec_padding_mask}
        dec_output, scores = self.decoder(output_sentence, enc_output, training=training, **masks)
        logits = self.final_layer(dec_output)
        return ops.softmax(logits, axis=-1), scores
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# Make four calls, one after the other: encoder, decoder, last layer, softmax. Which of the two sentences does each of
# the first two get, and which masks?

# %% [markdown] tags=["hint"]
# The encoder gets the source and `mask`. The decoder gets the target, the encoder's output, and two masks with the
# names `look_ahead_mask` and `padding_mask`. Both get `training`. The decoder returns a pair.

# %% [markdown] tags=["hint"]
# The last layer is a `Dense` without an activation, so its outputs are logits. Apply the softmax yourself, over the
# last axis, which is the vocabulary. Return the probabilities and the dict.
