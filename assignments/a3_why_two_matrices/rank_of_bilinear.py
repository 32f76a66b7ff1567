# %% [markdown]
# # What two thin matrices cannot make
#
# **The question.** The logits depend only on W_i = W_i^Q (W_i^K)^T. Can a pair of kernels make every W_i? If not, two
# matrices are not only cheaper than one: they also do less. Compute how much they can do.
#
# **The idea.** No, they cannot make every W_i. Every column of W_i is a linear combination of the O columns of W_i^Q.
# So W_i has at most O independent columns: its *rank* is at most O, and of course at most I. This is the price of the
# parameters that you save, and it is intended: a head compares two positions in O respects, not in all I. The rank can
# be lower still, even lower than that of each kernel, because W_i^K may throw away what W_i^Q keeps.
#
# In floating point, hardly any matrix has a low rank exactly. Where a singular value should be 0, rounding leaves about
# 1e-16 of the largest one. So you count the singular values that are larger than a *tolerance times the largest one* of
# the same matrix. An absolute bound would call a matrix of small numbers empty.
#
# **The shapes.** The kernels are (H, I, O). W_i of all heads is (H, I, I), and its singular values are (H, I), largest
# first.
#
# **Worked example.** Take I = 3 and O = 2. W^Q has the columns a and 0; W^K has the columns 0 and b. Each has rank 1.
# Their product is a · 0^T + 0 · b^T = 0, which has rank 0. The bound is 2.

# %%
import numpy as np


def rank_of_bilinear(query_kernel, key_kernel, tolerance):
    """Return the largest rank that W_i can have, and the rank that it has.

    Args:
        query_kernel: W_i^Q of every head, (H, I, O).
        key_kernel: W_i^K of every head, (H, I, O).
        tolerance: Relative tolerance. A singular value counts if it is larger than the tolerance times the largest
            singular value of the same head's W_i.

    Returns:
        Two things: the largest rank that kernels of these shapes allow, an integer; and the numerical rank of each
        head's W_i, integers (H,). A W_i of zeros has rank 0.
    """
    ### BEGIN SOLUTION
    _, features, size = query_kernel.shape
    bilinear = query_kernel @ np.swapaxes(key_kernel, -1, -2)
    singular = np.linalg.svd(bilinear, compute_uv=False)
    ranks = np.sum(singular > tolerance * singular[:, :1], axis=-1)
    return min(features, size), ranks
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The first result follows from the shapes alone. For the second, make W_i of every head, (H, I, I). The rank is a
# property of the product; you cannot read it off the single kernels.

# %% [markdown] tags=["hint"]
# `np.linalg.svd` takes a stack of matrices. With `compute_uv=False` it returns only the singular values, a row for each
# head, from large to small. So each row has its own largest value in its first column.

# %% [markdown] tags=["hint"]
# Take the first column with a slice, `:1`, so that its axis stays. Multiply it by the tolerance and compare each row
# with it. Use strictly larger, so that zeros do not count. The number of True in a row is the rank.
