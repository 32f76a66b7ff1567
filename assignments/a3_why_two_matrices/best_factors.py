# %% [markdown]
# # The nearest pair of kernels
#
# **The question.** Suppose somebody did train a single matrix W of I × I. Can you replace it by two thin matrices
# afterwards? And how much do you lose? People compress trained layers this way.
#
# **The idea.** If each thin matrix has r columns, their product has at most rank r, so a W of higher rank cannot be
# replaced exactly. But there is a best approximation. Write W = U diag(s) V^T, the singular value decomposition, with
# s from large to small. Keep the r largest singular values with their columns of U and V. By the Eckart–Young
# theorem, no matrix of rank r is nearer to W. The loss is the root of the sum of squares of all elements of the
# difference. It equals the root of the sum of squares of the singular values that you dropped.
#
# The singular values must go somewhere: into the left factor, into the right one, or as roots into both. So there is no
# single answer. (You may even put any invertible r × r matrix between the factors, with its inverse beside it: the
# product is the same.) Only the *product* of your factors is checked.
#
# **The shapes.** W is (I, I). Each factor is (I, r), like W^Q and W^K. The approximation is left · right^T.
#
# **Worked example.** Take W = `[[3, 0], [0, 2]]` and r = 1. Then s = (3, 2), and left = right = `[[√3], [0]]` gives
# `[[3, 0], [0, 0]]`. The loss is 2.

# %%
import numpy as np


def best_factors(bilinear, rank):
    """Return two thin matrices whose product is as near as possible to a given matrix.

    Args:
        bilinear: Matrix to approximate (W), (I, I).
        rank: Number of columns of each factor (r), from 1 to I. W may have a lower rank.

    Returns:
        `left` and `right`, each (I, r), such that `left @ right.T` is the nearest matrix of rank r to W.
    """
    ### BEGIN SOLUTION
    left, singular, right_transposed = np.linalg.svd(bilinear)
    return left[:, :rank] * singular[:rank], right_transposed[:rank].T
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `np.linalg.svd(W)` returns three arrays: U (I, I), s (I,) and a third one, (I, I). Look up the third array in the
# documentation of `np.linalg.svd`: it is not V.

# %% [markdown] tags=["hint"]
# The singular values come from large to small, so you keep the first r. That means r columns of U, and r columns of V,
# which are rows of what `svd` returns.

# %% [markdown] tags=["hint"]
# Multiply the r columns of one factor by the r singular values, once, with broadcasting: `(I, r) * (r,)`. Then test
# yourself: with r = I, `left @ right.T` must be W again.
