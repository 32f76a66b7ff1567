# %% [markdown]
# # The nearest pair of kernels
#
# **The question.** Suppose that somebody did train one matrix W of I × I. Can it be replaced by two thin matrices
# afterwards, and how much is lost?
#
# **The idea.** Not exactly, if its rank is higher than the r columns that the two may have. But there is a best
# approximation: write W = U diag(s) V^T (the singular value decomposition, with s from large to small), and keep the r
# largest singular values with their columns of U and V. By the Eckart–Young theorem no matrix of rank r is nearer to W:
# what is lost, as the root of the summed squares of all elements, is the root of the summed squares of the singular
# values that were dropped.
#
# The singular values must go somewhere: into the left factor, into the right one, or as roots into both. So there is no
# one answer (put any invertible r × r matrix between the factors and its inverse beside it: the product is the same).
# Only the *product* of your factors is compared.
#
# **The shapes.** W is (I, I); the factors are (I, r) each, as W^Q and W^K are, and the approximation is left · right^T.
#
# **One line, worked.** W = `[[3, 0], [0, 2]]`, r = 1: s = (3, 2), and left = right = `[[√3], [0]]` gives
# `[[3, 0], [0, 0]]`. What is lost is 2.

# %%
import numpy as np


def best_factors(bilinear, rank):
    """Two thin matrices whose product is as near to a given one as it can be.

    Args:
        bilinear: W, (I, I).
        rank: r, from 1 to I.

    Returns:
        `left` and `right`, each (I, r), so that `left @ right.T` is the nearest matrix of rank r to W.
    """
    ### BEGIN SOLUTION
    left, singular, right_transposed = np.linalg.svd(bilinear)
    return left[:, :rank] * singular[:rank], right_transposed[:rank].T
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `np.linalg.svd(W)` gives three arrays: U (I, I), s (I,), and a third one (I, I). Look into its documentation for what
# the third one is: it is not V.

# %% [markdown] tags=["hint"]
# The singular values come from large to small, so the first r are kept: r columns of U, and r columns of V, which are
# rows of what `svd` returns.

# %% [markdown] tags=["hint"]
# Multiply the r columns of one factor by the r singular values, once, by broadcasting: `(I, r) * (r,)`. Then test
# yourself: with r = I, `left @ right.T` must be W again.
