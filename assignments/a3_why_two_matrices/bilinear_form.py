# %% [markdown]
# # One matrix instead of two?
#
# **The question.** A head computes its logits from Q W_i^Q and K W_i^K. Written out, two matrices meet in the middle
# with nothing between them: Q W_i^Q (W_i^K)^T K^T. Why not multiply them once, and keep a single matrix? Compute the
# logits both ways and compare.
#
# **The idea.** You can multiply them. W_i = W_i^Q (W_i^K)^T takes the features of a query on its left and the
# features of a key on its right, and gives their logit. This is called a *bilinear form*. The logits of a head depend
# only on how W_i weighs each pair of features. Any pair of kernels with this product gives the same logits. Whether
# you *should* keep W_i instead of the two kernels is another question; the next exercises answer it by counting.
#
# **The shapes.** `query` is (B, T, I) and `key` is (B, S, I). The kernels are (H, I, O): for each head, a matrix from I
# features to O. W_i is (I, I), with the query's features as rows and the key's as columns. For all heads it is (H, I,
# I). The logits are (B, H, T, S). They are not scaled here.
#
# **Worked example.** Take I = 2, O = 1, W^Q = `[[1], [2]]` and W^K = `[[3], [4]]`. Then W = `[[3, 4], [6, 8]]`. The
# query `[1, 0]` projects to 1 and the key `[0, 1]` to 4, so their logit is 1·4 = 4. And row 0, column 1 of W is 4.

# %%
import numpy as np


def bilinear_form(query, key, query_kernel, key_kernel):
    """Return the matrix W_i of every head, and the logits computed in both ways.

    Args:
        query: Query, (B, T, I).
        key: Key, (B, S, I).
        query_kernel: W_i^Q of every head, (H, I, O).
        key_kernel: W_i^K of every head, (H, I, O).

    Returns:
        Three arrays: W_i of every head, (H, I, I), with the query's features as rows; the logits from W_i, (B, H, T,
        S); and the logits from the projected query and key, (B, H, T, S). Neither of the two logits is scaled.
    """
    ### BEGIN SOLUTION
    bilinear = np.einsum("HIO,HJO->HIJ", query_kernel, key_kernel)
    from_bilinear = np.einsum("BTI,HIJ,BSJ->BHTS", query, bilinear, key)
    projected_query = np.einsum("BTI,HIO->BHTO", query, query_kernel)
    projected_key = np.einsum("BSI,HIO->BHSO", key, key_kernel)
    from_projections = projected_query @ np.swapaxes(projected_key, -1, -2)
    return bilinear, from_bilinear, from_projections
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# In W_i^Q (W_i^K)^T you sum over the O features of the head. Two axes of I features are left, one of the query and one
# of the key. They need two different letters.

# %% [markdown] tags=["hint"]
# For the first array, call the key's features J: from HIO and HJO you want HIJ. For the second array, three arrays
# meet: the query (B, T, I), W (H, I, J) and the key (B, S, J). You sum over I and J. `np.einsum` also takes three
# arrays.

# %% [markdown] tags=["hint"]
# For the third array, project first: query and key, each with its own kernel, to (B, H, T, O) and (B, H, S, O).
# Exchange the last two axes of the key, then multiply with `@`. If the second and third arrays differ by more than
# rounding, one of them has the kernels in the wrong places.
