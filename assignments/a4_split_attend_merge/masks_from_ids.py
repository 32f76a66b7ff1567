# %% [markdown]
# # Padding, look-ahead, and both
#
# **The question.** Encoder and decoder use different masks, the article says. Which are they, what shapes do they have,
# and what does the decoder's first attention do with two?
#
# **The idea.** Sentences of different lengths share an array because the short ones are filled up with an id that is no
# word, here 0. The *padding mask* says which **keys** are words; it has a row for each sentence, and is the same for
# every query. The *look-ahead mask* says that position t may attend to s only for s ≤ t, itself included; it is the
# same for every sentence. The decoder's first attention needs both at once: a pair is allowed where the one **and** the
# other allow it. The queries' padding hides nothing: what comes out at padding is ignored later.
#
# Here masks are boolean and True means "may attend". Others write 1 where something is hidden: read twice before you
# copy a mask.
#
# **The shapes.** `ids` (B, T). Padding mask (B, 1, T), so that it broadcasts over the queries; look-ahead mask (T, T),
# rows for queries; both together (B, T, T).
#
# **One line, worked.** ids `[[7, 5, 0]]`: padding `[[[1, 1, 0]]]`, look-ahead `[[1, 0, 0], [1, 1, 0], [1, 1, 1]]`, both
# `[[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]`, with 1 for True.

# %%
import numpy as np


def masks_from_ids(ids):
    """The three masks of a decoder's self-attention.

    Args:
        ids: integers (B, T); 0 is padding, at the end of a sentence or at its beginning.

    Returns:
        Three boolean arrays, True where attention is allowed: the padding mask (B, 1, T), the look-ahead mask (T, T),
        and both together (B, T, T).
    """
    ### BEGIN SOLUTION
    positions = ids.shape[1]
    padding = (ids != 0)[:, None, :]
    look_ahead = np.tril(np.ones((positions, positions), bool))
    return padding, look_ahead, padding & look_ahead
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The padding mask is one comparison of the ids, and one new axis. The look-ahead mask does not look at the ids at all,
# only at how many positions there are.

# %% [markdown] tags=["hint"]
# Rows are queries and columns are keys. The new axis of the padding mask stands in the place of the queries. In the
# look-ahead mask, row t has True in its columns 0 to t: NumPy has a function for lower triangles.

# %% [markdown] tags=["hint"]
# `&` of two boolean arrays broadcasts: (B, 1, T) with (T, T) gives (B, T, T). Keep the dtype boolean throughout: start
# the triangle from ones of that dtype.
