# %% [markdown]
# # The Transformer
#
# **The question.** Encoder and decoder are done. What does the whole model take, what does it give: logits or
# probabilities? And are the encoder's mask and the decoder's padding mask the same thing?
#
# **The idea.** The encoder reads the source, the decoder the target so far, and asks the encoder's output. A last
# `Dense` makes a number for each token of the target's vocabulary at each position, a *logit*; a softmax over the
# vocabulary makes probabilities of them. *This model returns probabilities*, as the course's does: a loss must be
# told so (`from_logits=False`), or the softmax would be taken twice. Both padding masks hide the padding of the
# source: one in the encoder's own attention, one in the decoder's second. They are separate arguments, since a caller
# may want to hide more.
#
# **The shapes.** Source ids (B, S), target ids (B, T), probabilities (B, T, V); those of a position sum to 1. The
# masks are (B, 1, S), (1, T, T) and (B, 1, S).
#
# **One line, worked.** V = 2, logits [0, log 3] at a position: probabilities [1/4, 3/4].

# %%
import keras
from Decoder import Decoder  # these two are yours
from Encoder import Encoder
from keras import ops


class Transformer(keras.Model):
    """Encoder, decoder, and probabilities of the next target token at every position.

    Args:
        num_layers: N, of the encoder and of the decoder.
        embedding_dim: D.
        num_heads: H.
        fully_connected_dim: the features in between in the fully connected parts.
        input_vocab_size: how many source token ids there are.
        target_vocab_size: V, how many target token ids there are.
        max_positional_encoding_input: how many source positions there may be.
        max_positional_encoding_target: how many target positions there may be.
        dropout_rate: of everything in encoder and decoder.
        layernorm_eps: of the normalizations.

    Call arguments:
        input_sentence: source ids (B, S), integers.
        output_sentence: target ids (B, T), integers.
        training: whether anything is dropped.
        enc_padding_mask: for the encoder.
        look_ahead_mask: for the decoder's self-attention.
        dec_padding_mask: for the decoder's attention to the encoder's output.

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
# Four calls, one after the other: encoder, decoder, last layer, softmax. Which of the two sentences does each of the
# first two get, and which masks?

# %% [markdown] tags=["hint"]
# The encoder gets the source and `mask`; the decoder the target, the encoder's output, and two masks by the names
# `look_ahead_mask` and `padding_mask`. Both get `training`. The decoder returns a pair.

# %% [markdown] tags=["hint"]
# The last layer is a `Dense` without an activation, so its numbers are logits: the softmax over the last axis, the
# vocabulary, is yours to take. Return it and the dict.
