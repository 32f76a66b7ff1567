# %% [markdown]
# # Merge
#
# **The question.** After attention every head has its own result. The article merges by reshaping, until the head
# dimension is gone. In which order, and is that a concatenation?
#
# **The idea.** Merging is the way of the split back: first the heads move behind the positions, so that a position's H
# results lie side by side; then a reshape joins the last two axes. A reshape alone would join the heads' *positions*: a
# query would get pieces of other queries. Done right, head 0 fills the first O columns of every position, head 1 the
# next: the same as concatenating the heads' results along their features. It is the results that are merged, not the
# scores.
#
# **The shapes.** (B, H, T, O) → (B, T, H, O) → (B, T, H · O).
#
# **One line, worked.** B = 1, H = 2, T = 3, O = 1: `[[[[1], [3], [5]], [[2], [4], [6]]]]` becomes
# `[[[1, 2], [3, 4], [5, 6]]]`. The reshape alone would give `[[[1, 3], [5, 2], [4, 6]]]`.

# %%
import numpy as np


def merge_heads(array):
    """Lays the results of the heads side by side, for every position.

    Args:
        array: (B, H, T, O).

    Returns:
        (B, T, H·O), the features of head 0 first.
    """
    ### BEGIN SOLUTION
    batch, num_heads, positions, size = array.shape
    heads = np.transpose(array, (0, 2, 1, 3))
    return heads.reshape(batch, positions, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# A reshape joins axes that are neighbours, and keeps the order of everything. Which two axes are to be joined, and are
# they neighbours?

# %% [markdown] tags=["hint"]
# Exchange the axes of heads and positions first. Then H and O are neighbours, with H as the outer one: head 0 comes
# first.

# %% [markdown] tags=["hint"]
# The split and the merge use the same order of axes for the transpose, since exchanging two axes twice changes nothing.
# What comes after it is a reshape with three sizes.
