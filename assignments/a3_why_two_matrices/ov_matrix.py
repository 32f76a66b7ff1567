# %% [markdown]
# # The other pair of matrices
#
# **The question.** Query and key meet only as a product of two matrices. Is there another such pair in a head, with
# nothing between them? People who study what trained heads do look at both.
#
# **The idea.** Yes. A head mixes the rows of V W_i^V and multiplies the result by its own rows of W^O. Mixing works
# along the positions, and both matrices work along the features. So it makes no difference whether you mix before or
# after them: scores · (V W_i^V) · W_i^O = scores · V · (W_i^V W_i^O). The product W_i^V W_i^O is the head's *OV
# matrix*. It says what is carried from a position, while W_i^Q (W_i^K)^T says from which position.
#
# Also, concatenating the heads before W^O is the same as giving each head its rows of W^O and *summing*. So the output
# of the layer is a sum, with one summand from each head.
#
# **The shapes.** `value` is (B, S, I), `scores` is (B, H, T, S), W^V is (H, I, O) and W^O is (H, O, E). The OV matrices
# are (H, I, E), the summands of the heads (B, H, T, E), and the output (B, T, E). There are no biases here.
#
# **Worked example.** Take I = O = E = 1, one position and two heads. The value is 2, W^V is 3 and 5, W^O is 10 and 1,
# and all scores are 1. The OV matrices are 30 and 5, the summands 60 and 10, and the output 70.

# %%
import numpy as np


def ov_matrix(value, scores, value_kernel, output_kernel):
    """Return the OV matrix of every head, the summand of each head, and the output.

    Args:
        value: Value, (B, S, I).
        scores: Scores after the softmax, (B, H, T, S).
        value_kernel: W_i^V of every head, (H, I, O).
        output_kernel: W_i^O of every head, (H, O, E).

    Returns:
        Three arrays: the OV matrices, (H, I, E); the summand that each head adds to the output, (B, H, T, E); and the
        output of all heads together, (B, T, E).
    """
    ### BEGIN SOLUTION
    matrices = value_kernel @ output_kernel
    mixed = np.einsum("BHTS,BSI->BHTI", scores, value)
    summands = np.einsum("BHTI,HIE->BHTE", mixed, matrices)
    return matrices, summands, summands.sum(axis=1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# For each head, an (I, O) matrix stands before an (O, E) matrix. O is between them, and you sum over it. Both arrays
# are stacks over H, and `@` multiplies stacks matrix by matrix.

# %% [markdown] tags=["hint"]
# Mix first: each head's scores (T, S) times the features of the positions (S, I), which are the same for all heads.
# That gives (B, H, T, I). Then multiply each head's result by its own OV matrix.

# %% [markdown] tags=["hint"]
# With `np.einsum`, the letters of the mix are BHTS and BSI. In the second step, H is in both inputs and in the result,
# so that no head meets another head's matrix. The output is the sum over the head axis.
