# %% [markdown]
# # One matrix in place of two
#
# **The question.** A head computes its logits from Q W_i^Q and K W_i^K. Written out, two matrices meet in the middle
# with nothing between them: Q W_i^Q (W_i^K)^T K^T. Why not multiply them once, and keep one matrix?
#
# **The idea.** They can be multiplied: W_i = W_i^Q (W_i^K)^T takes a query's features on its left and a key's features
# on its right, and gives their logit. Such a thing is called a *bilinear form*. A head's logits say only how W_i weighs
# each pair of features; whatever pair of kernels has this product gives the same logits. Whether one *should* keep W_i
# is what the next exercises count.
#
# **The shapes.** `query` is (B, T, I), `key` is (B, S, I). The kernels are (H, I, O), a matrix from I features to O for
# each head. W_i is (I, I): its rows belong to the query's features, its columns to the key's; for all heads (H, I, I).
# Logits are (B, H, T, S). They are not scaled here.
#
# **One line, worked.** I = 2, O = 1, W^Q = `[[1], [2]]`, W^K = `[[3], [4]]`. Then W = `[[3, 4], [6, 8]]`. For the query
# `[1, 0]` and the key `[0, 1]` the projections are 1 and 4, their product is 4; and row 0, column 1 of W is 4.

# %%
import numpy as np


def bilinear_form(query, key, query_kernel, key_kernel):
    """The matrix W_i of every head, and the logits in both ways.

    Args:
        query: (B, T, I).
        key: (B, S, I).
        query_kernel: W_i^Q of every head, (H, I, O).
        key_kernel: W_i^K of every head, (H, I, O).

    Returns:
        Three arrays: W_i of every head, (H, I, I), rows for the query's features; the logits made of W_i,
        (B, H, T, S); the logits made of the projected query and key, (B, H, T, S). Neither is scaled.
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
# In W_i^Q (W_i^K)^T the O features of the head are summed over. What is left are two axes of I features, one of the
# query and one of the key: they need two different letters.

# %% [markdown] tags=["hint"]
# For the first array call the key's features J: from HIO and HJO you want HIJ. For the second, three arrays meet: the
# query (B, T, I), W (H, I, J) and the key (B, S, J); I and J are summed over, and `np.einsum` takes three arrays as
# well.

# %% [markdown] tags=["hint"]
# For the third array project first: query and key each with its own kernel, to (B, H, T, O) and (B, H, S, O). Then `@`
# multiplies the last two axes, once the key's last two have changed places. If the second and third array differ by
# more than rounding, one of them has the kernels in the wrong places.
