# %% [markdown]
# # One large kernel is h small ones
#
# **The question.** The formulas have h matrices for the queries, the class has one, called W_q. Where are the others?
# Some conclude that it is one huge head and not several.
#
# **The idea.** The h small matrices stand side by side in the large one. One output column of a product depends on one
# column of the matrix and on no other, so X times the large matrix is X times each small one, with the results side by
# side: the same numbers, computed at once. The first O columns are head 0's, the next O are head 1's, and so on. It is
# h *heads* and not one large one because of what comes after: each takes a softmax of its own.
#
# **The shapes.** The flat kernel is (I, H·O). Split it is (H, I, O): for each head a matrix from the I input features
# to its O.
#
# **One line, worked.** I = 1, two heads with O = 3: `[[1, 2, 3, 4, 5, 6]]` splits into `[[1, 2, 3]]` and `[[4, 5,
# 6]]`.

# %%
import numpy as np


def split_kernel(flat, num_heads):
    """The kernels of all heads, out of one.

    Args:
        flat: (I, H·O); the columns of head 0 come first, then those of head 1, and so on.
        num_heads: H.

    Returns:
        (H, I, O).
    """
    ### BEGIN SOLUTION
    features, width = flat.shape
    return np.swapaxes(flat.reshape(features, num_heads, width // num_heads), 0, 1)
    ### END SOLUTION


def join_kernels(kernels):
    """One kernel out of those of all heads: the opposite of `split_kernel`.

    Args:
        kernels: (H, I, O).

    Returns:
        (I, H·O).
    """
    ### BEGIN SOLUTION
    num_heads, rows, size = kernels.shape
    return np.swapaxes(kernels, 0, 1).reshape(rows, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Only the columns are cut; every row stays whole. So the first step leaves the axis I alone and makes two axes of the
# other. That is three axes already, in an order that is not yet the one asked for.

# %% [markdown] tags=["hint"]
# A reshape never moves numbers: it reads them in their order and writes other brackets. H·O columns, head by head,
# become (H, O). To bring an axis to another place takes a transpose (`np.transpose`, `np.swapaxes`, `np.moveaxis`).

# %% [markdown] tags=["hint"]
# Split: reshape to (I, H, O), then exchange the first two axes. Join: do the opposite of each step, the last one
# first.
