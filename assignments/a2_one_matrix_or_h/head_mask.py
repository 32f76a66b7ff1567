# %% [markdown]
# # A mask for every head
#
# **The question.** The heads have moved into the batch, and B·H items need B·H masks. The textbook repeats
# `valid_lens` for that. `np.repeat` or `np.tile`: is there a difference?
#
# **The idea.** Both give B·H numbers. `np.repeat(lens, H)` writes each number H times, then the next; `np.tile(lens,
# H)` writes all of them, then all again. In the batch of `transpose_qkv` the heads of one item stand together. So all
# H masks of an item must stand together too; tiled, a head would be given another sentence's mask, and neither shapes
# nor errors would tell. With a batch of one item, the test that people write, both are the same.
#
# **The shapes.** `valid_lens` says how many keys, from the first one on, may be attended to: (B,), one number for all
# queries of an item, or (B, T), one for each query. The mask is (B·H, T, S), boolean, True where t may attend to s.
# Item b's head h is at b·H + h.
#
# **One line, worked.** `valid_lens` [1, 3] and two heads: the four masks have the lengths 1, 1, 3, 3. With three keys
# a row of length 1 is `[True, False, False]`.

# %%
import numpy as np


def head_mask(valid_lens, num_heads, num_queries, num_keys):
    """The mask of every head of every item, out of the lengths.

    Args:
        valid_lens: integers from 1 to S: (B,), or (B, T) where each query has its own.
        num_heads: H.
        num_queries: T.
        num_keys: S.

    Returns:
        Boolean (B·H, T, S): True for the first keys, as many as the length says.
    """
    ### BEGIN SOLUTION
    rows = valid_lens[:, None] if valid_lens.ndim == 1 else valid_lens
    lengths = np.repeat(rows, num_heads, axis=0)
    mask = np.arange(num_keys) < lengths[:, :, None]
    return np.repeat(mask, num_queries, axis=1) if valid_lens.ndim == 1 else mask
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Bring both kinds of lengths into one form, (B, T). Then repeat along the batch, and only there: `np.repeat` without
# `axis` flattens.

# %% [markdown] tags=["hint"]
# Compare numbers of keys, 0 to S − 1, with lengths: a key s is valid if s is less than the length. For this comparison
# the lengths need an axis of size 1 at the end.

# %% [markdown] tags=["hint"]
# If the lengths are (B,), every query has the same: `np.broadcast_to` or `np.repeat` along axis 1 makes (B, T) of
# them. After that there is one way only: repeat H times along axis 0, add the last axis, compare with `np.arange` of
# the number of keys.
