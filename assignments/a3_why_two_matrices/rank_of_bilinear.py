# %% [markdown]
# # What two thin matrices cannot make
#
# **The question.** If W_i = W_i^Q (W_i^K)^T is all that the logits depend on, can a pair of kernels make every W_i?
#
# **The idea.** No. Every column of W_i is a linear combination of the O columns of W_i^Q, so that W_i has at most O
# independent columns: its *rank* is at most O, and at most I in any case. That is the price of the parameters that are
# saved, and it is meant: a head compares two positions in O respects, not in all I. The rank can be lower still, also
# lower than that of each kernel: what W_i^Q keeps, W_i^K may throw away.
#
# In floating point no matrix is exactly of low rank: where a singular value should be 0, rounding leaves about 1e-16 of
# the largest one. So one counts the singular values that are larger than a *tolerance times the largest one* of the
# same matrix. An absolute bound would call a matrix of small numbers empty.
#
# **The shapes.** The kernels are (H, I, O), W_i of all heads (H, I, I), their singular values (H, I), largest first.
#
# **One line, worked.** I = 3, O = 2, W^Q has the columns a and 0, W^K has the columns 0 and b. Each has rank 1. The
# product is a · 0^T + 0 · b^T = 0: rank 0. The bound is 2.

# %%
import numpy as np


def rank_of_bilinear(query_kernel, key_kernel, tolerance):
    """The rank that W_i can have, and the one that it has.

    Args:
        query_kernel: (H, I, O).
        key_kernel: (H, I, O).
        tolerance: a singular value counts if it is larger than this times the largest one of its head's W_i.

    Returns:
        Two things: the largest rank that kernels of these shapes allow, an integer; and the numerical rank of W_i of
        every head, integers, (H,). A W_i of zeros has rank 0.
    """
    ### BEGIN SOLUTION
    _, features, size = query_kernel.shape
    bilinear = query_kernel @ np.swapaxes(key_kernel, -1, -2)
    singular = np.linalg.svd(bilinear, compute_uv=False)
    ranks = np.sum(singular > tolerance * singular[:, :1], axis=-1)
    return min(features, size), ranks
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The first result follows from the shapes alone. For the second make W_i for every head, (H, I, I): rank is a property
# of the product, and it cannot be read off the kernels one by one.

# %% [markdown] tags=["hint"]
# `np.linalg.svd` takes a stack of matrices, and with `compute_uv=False` it gives the singular values alone, those of a
# head in a row, from large to small. So each row has its own largest value, in its first column.

# %% [markdown] tags=["hint"]
# Keep the axis when you take the first column (slice it, `:1`), multiply it by the tolerance, and compare each row with
# it: strictly larger, so that zeros do not count. The number of True in a row is the rank.
