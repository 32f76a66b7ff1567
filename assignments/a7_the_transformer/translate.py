# %% [markdown]
# # Your Transformer translates
#
# **The question.** In training, the model gets the whole target sentence. When it translates, there is none. So what
# goes into the decoder?
#
# **The idea.** What it has written so far. It begins with the start token alone. The probabilities at the *last*
# position are those of the next token. Append the most probable one (that is what "greedy" means), and run everything
# again, `max_length` times in all. The sentences of a batch end at different times: a sentence that has ended gets 0,
# padding, from then on, whatever the model says. Dropout is off here, and the masks are those of training: the
# source's padding in the encoder and in the decoder's second attention, and the future in its first.
#
# **The shapes.** Source ids are (B, S). After n rounds the target is (B, n + 1), with the start token first. Its
# probabilities are (B, n + 1, V), of which only the last position's are new. Return (B, `max_length`): without the
# start token, with the end token, and with zeros after it.
#
# **Worked example.** Start token 1, end token 2, `max_length` 4, and a model that writes 5, 7, 2 and then anything:
# the result is [[5, 7, 2, 0]].
#
# The last check trains *your* Transformer, from random weights, for 200 steps on a thousand dates ("3 may 1984" and
# "1984 may 3" to "1984-05-03"; digits and months are tokens), and lets your function read a hundred others. That
# takes about ten seconds. `kmha train dates` does the same with thirty thousand dates, in many languages.

# %%
import numpy as np
from create_look_ahead_mask import create_look_ahead_mask  # you wrote these two
from create_padding_mask import create_padding_mask


def translate(transformer, source, start_id, end_id, max_length):
    """Decode greedily: append the most probable next token, again and again.

    Args:
        transformer: A model that is called as your `Transformer` is, with `training` and its three masks by name, in the
            shapes that yours takes. It returns probabilities (B, T, V) and a dict.
        source: Ids (B, S), integers; 0 is padding.
        start_id: Token that begins every target sentence.
        end_id: Token that ends it.
        max_length: Number of tokens to write, an integer.

    Returns:
        Ids (B, max_length), integers, without the start token. After a sentence's end token all ids are 0.
    """
    ### BEGIN SOLUTION
    padding = create_padding_mask(source)
    target = np.full((len(source), 1), start_id)
    ended = np.zeros(len(source), bool)
    for _ in range(max_length):
        probabilities, _ = transformer(
            source,
            target,
            training=False,
            enc_padding_mask=padding,
            look_ahead_mask=create_look_ahead_mask(target.shape[1]),
            dec_padding_mask=padding,
        )
        chosen = np.argmax(np.asarray(probabilities)[:, -1], axis=-1)
        chosen = np.where(ended, 0, chosen)
        ended = ended | (chosen == end_id)
        target = np.concatenate([target, chosen[:, None]], axis=1)
    return target[:, 1:]
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Keep two arrays through the loop: the target so far, (B, n + 1), which begins as a column of start tokens, and a
# boolean for every sentence that says whether it has ended. Make the source's mask once, and the look-ahead mask in
# every round.

# %% [markdown] tags=["hint"]
# In every round, call the transformer, take the last position of the probabilities, and take `np.argmax` over the
# vocabulary. Where a sentence had ended before, write 0 instead. Then see which sentences have ended now.

# %% [markdown] tags=["hint"]
# `np.asarray` turns a tensor into a NumPy array. `np.concatenate` with `axis=1` appends a column, (B, 1). After the
# loop, leave the first column out. There are always `max_length` rounds.
