# %% [markdown]
# # A mask for every head
#
# **The question.** The heads have moved into the batch, so B·H items need B·H masks. The textbook repeats `valid_lens`
# for them. You could use `np.repeat` or `np.tile`. Is there a difference? One of the two makes a bug that people find
# late, or never.
#
# **The idea.** Both give B·H numbers. `np.repeat(lens, H)` writes the first number H times, then the second, and so on.
# `np.tile(lens, H)` writes all numbers once, then all of them again. In the batch of `transpose_qkv`, the heads of one
# item stand together. So the H masks of an item must stand together too. If you tile, a head gets the mask of another
# sentence, and neither a shape nor an error tells you. With a batch of one item, which is what people test, the two are
# the same.
#
# **The shapes.** `valid_lens` says how many keys may be attended to, counted from the first. It is (B,), one number for
# all queries of an item, or (B, T), one for each query. The mask is boolean, (B·H, T, S), and True where t may attend
# to s. Head h of item b is at b·H + h.
#
# **Worked example.** With `valid_lens` [1, 3] and two heads, the four masks have the lengths 1, 1, 3, 3. With three
# keys, a row of length 1 is `[True, False, False]`.

# %%
import numpy as np


def head_mask(valid_lens, num_heads, num_queries, num_keys):
    """Return the mask of every head of every item.

    Args:
        valid_lens: Integers from 1 to S, with shape (B,), or (B, T) if each query has its own.
        num_heads: Number of heads (H).
        num_queries: Number of queries (T).
        num_keys: Number of keys (S).

    Returns:
        A boolean mask, (B·H, T, S). It is True for the first keys, as many as the length says.
    """
    ### BEGIN SOLUTION
    rows = valid_lens[:, None] if valid_lens.ndim == 1 else valid_lens
    lengths = np.repeat(rows, num_heads, axis=0)
    mask = np.arange(num_keys) < lengths[:, :, None]
    return np.repeat(mask, num_queries, axis=1) if valid_lens.ndim == 1 else mask
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Bring both kinds of lengths into one form, (B, T). Then repeat along the batch, and only there. Without `axis`,
# `np.repeat` flattens.

# %% [markdown] tags=["hint"]
# Compare the numbers of the keys, 0 to S − 1, with the lengths. Key s is valid if s is less than the length. For this
# comparison the lengths need an axis of size 1 at the end.

# %% [markdown] tags=["hint"]
# If the lengths are (B,), all queries of an item share one: use `np.broadcast_to`, or `np.repeat` along axis 1, to get
# (B, T). From there both cases are the same. Repeat H times along axis 0, add the last axis, and compare with
# `np.arange` of the number of keys.
