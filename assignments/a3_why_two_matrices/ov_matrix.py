# %% [markdown]
# # The other pair of matrices
#
# **The question.** Query and key meet only as a product. Is there another pair of matrices with nothing between them?
#
# **The idea.** Yes: a head mixes the rows of V W_i^V and multiplies the result by its own rows of W^O. Mixing works
# along the positions, both matrices along the features, so it makes no difference whether the mixing comes before or
# after them: scores · (V W_i^V) · W_i^O = scores · V · (W_i^V W_i^O). The product W_i^V W_i^O is the head's *OV
# matrix*. It says what is carried from a position, while W_i^Q (W_i^K)^T says from which one.
#
# And concatenating heads before W^O is the same as giving each head its rows of W^O and *summing*: so the layer's
# output is a sum, with one summand from each head.
#
# **The shapes.** `value` (B, S, I), `scores` (B, H, T, S), W^V (H, I, O), W^O (H, O, E). The OV matrices are (H, I, E),
# the heads' summands (B, H, T, E), the output (B, T, E). There are no biases here.
#
# **One line, worked.** I = O = E = 1, one position and two heads: value 2, W^V = 3 and 5, W^O = 10 and 1, all scores 1.
# The OV matrices are 30 and 5, the summands 60 and 10, the output 70.

# %%
import numpy as np


def ov_matrix(value, scores, value_kernel, output_kernel):
    """The OV matrix of every head, what each head adds to the output, and the output.

    Args:
        value: (B, S, I).
        scores: after the softmax, (B, H, T, S).
        value_kernel: W_i^V of every head, (H, I, O).
        output_kernel: W_i^O of every head, (H, O, E).

    Returns:
        Three arrays: the OV matrices, (H, I, E); what each head adds to the output, (B, H, T, E); the output of all
        heads together, (B, T, E).
    """
    ### BEGIN SOLUTION
    matrices = value_kernel @ output_kernel
    mixed = np.einsum("BHTS,BSI->BHTI", scores, value)
    summands = np.einsum("BHTI,HIE->BHTE", mixed, matrices)
    return matrices, summands, summands.sum(axis=1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# For each head one (I, O) matrix stands before one (O, E) matrix: O is between them, and is summed over. Both are
# stacks over H, and `@` multiplies stacks matrix by matrix.

# %% [markdown] tags=["hint"]
# Mix first: each head's scores (T, S) times the positions' features (S, I), the same features for all heads. That is
# (B, H, T, I). Then each head's result meets its own OV matrix.

# %% [markdown] tags=["hint"]
# With `np.einsum`, the letters of the mixing are BHTS and BSI; those of the second step have H in both inputs and in
# the result, so that no head meets another's matrix. The output is the sum over the axis of heads.
