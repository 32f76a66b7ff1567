# %% [markdown]
# # Padding, look-ahead, and both
#
# **The question.** Encoder and decoder use different masks, says the article. Which masks are they, and what shapes do
# they have? And what does the decoder's first attention do with two of them?
#
# **The idea.** Sentences of different lengths share an array, because the short ones are filled up with an id that is
# not a word, here 0. The *padding mask* says which **keys** are words. It has a row for each sentence, and it is the
# same for every query. The *look-ahead mask* says that position t may attend to s only for s ≤ t, itself included. It
# is the same for every sentence. The decoder's first attention needs both at once: a pair is allowed if the first
# **and** the second mask allow it. Padding hides nothing on the side of the queries: whatever comes out at padding is
# ignored later.
#
# Here masks are boolean, and True means “may attend”. Others write 1 where something is hidden, so read twice before
# you copy a mask.
#
# **The shapes.** `ids` is (B, T). The padding mask is (B, 1, T), so that it broadcasts over the queries. The look-ahead
# mask is (T, T), with queries as rows. Both together are (B, T, T).
#
# **Worked example.** Take the ids `[[7, 5, 0]]`, and write 1 for True. The padding mask is `[[[1, 1, 0]]]`, the
# look-ahead mask is `[[1, 0, 0], [1, 1, 0], [1, 1, 1]]`, and both together are `[[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]`.

# %%
import numpy as np


def masks_from_ids(ids):
    """Return the three masks of a decoder's self-attention.

    Args:
        ids: Token ids, integers (B, T). 0 is padding, at the end of a sentence or at its beginning. A sentence may
            be padding only.

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
# The padding mask is one comparison of the ids, and one new axis. The look-ahead mask does not depend on the ids at
# all, only on the number of positions.

# %% [markdown] tags=["hint"]
# Rows are queries and columns are keys. The new axis of the padding mask stands where the queries would be. In the
# look-ahead mask, row t is True in the columns 0 to t. NumPy has a function for lower triangles.

# %% [markdown] tags=["hint"]
# `&` of two boolean arrays broadcasts: (B, 1, T) and (T, T) give (B, T, T). Keep the dtype boolean throughout: make the
# triangle from ones of that dtype.
