# %% [markdown]
# # One large kernel is h small ones
#
# **The question.** The formulas have h matrices for the queries. The class has a single one, called W_q. Where are the
# others? Some readers conclude that the class has one huge head instead of several. Find the h matrices inside the one.
#
# **The idea.** The h small matrices stand side by side in the large one. Each column of a product depends on only one
# column of the matrix. So X times the large matrix gives the results of X times each small one, side by side: the same
# numbers, computed at once. The first O columns belong to head 0, the next O to head 1, and so on. These are h *heads*,
# not one large one, because of what comes after: each head takes a softmax of its own.
#
# **The shapes.** The flat kernel is (I, H·O). Once split, it is (H, I, O): for each head, a matrix from the I input
# features to its O.
#
# **Worked example.** With I = 1 and two heads of size O = 3, `[[1, 2, 3, 4, 5, 6]]` splits into `[[1, 2, 3]]` and `[[4,
# 5, 6]]`.

# %%
import numpy as np


def split_kernel(flat, num_heads):
    """Split one kernel into the kernels of all heads.

    Args:
        flat: Flat kernel, (I, H·O). The columns of head 0 come first, then those of head 1, and so on.
        num_heads: Number of heads (H).

    Returns:
        The kernels, (H, I, O).
    """
    ### BEGIN SOLUTION
    features, width = flat.shape
    return np.swapaxes(flat.reshape(features, num_heads, width // num_heads), 0, 1)
    ### END SOLUTION


def join_kernels(kernels):
    """Join the kernels of all heads into one: the inverse of `split_kernel`.

    Args:
        kernels: Kernels of all heads, (H, I, O).

    Returns:
        The flat kernel, (I, H·O).
    """
    ### BEGIN SOLUTION
    num_heads, rows, size = kernels.shape
    return np.swapaxes(kernels, 0, 1).reshape(rows, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# You cut only the columns; every row stays whole. So the first step leaves the axis I alone and makes two axes of the
# other one. That gives three axes, but not yet in the order that you need.

# %% [markdown] tags=["hint"]
# A reshape never moves a number. It reads the numbers in order and puts new brackets around them. The H·O columns, head
# by head, become (H, O). To move an axis to another place you need a transpose: `np.transpose`, `np.swapaxes` or
# `np.moveaxis`.

# %% [markdown] tags=["hint"]
# To split, reshape to (I, H, O), then exchange the first two axes. To join, undo these steps, the last one first.
