# %% [markdown]
# # To remove a head
#
# **The question.** A head has turned out to matter little. Which numbers of the layer go, if the layer has one large
# matrix for each role and not h small ones?
#
# **The idea.** A head is O neighbouring columns of each of the three projections, and the O *rows* of the output
# matrix that receive what these columns lead to. Take out both, and the layer is smaller and gives exactly what the
# whole layer gives with that head's output set to zero. The other heads do not notice: their size O stays, and with it
# the scale 1/√O. (A layer that computes its head size as width / h must from then on be told the new h.) The output
# stays E wide.
#
# **The shapes.** Query, key and value kernel (I, H·O), each with an I of its own; output kernel (H·O, E). Afterwards
# (I, (H−1)·O) and ((H−1)·O, E).
#
# **One line, worked.** H = 3, O = 2, head 1 goes: of the columns 0 to 5 stay 0, 1, 4 and 5, and of the output kernel
# the same rows.

# %%
import numpy as np


def prune_head(query_kernel, key_kernel, value_kernel, output_kernel, num_heads, head):
    """The layer's kernels without one head.

    Args:
        query_kernel: (I, H·O), head 0's columns first.
        key_kernel: (I, H·O).
        value_kernel: (I, H·O).
        output_kernel: (H·O, E), head 0's rows first.
        num_heads: H, at least 2.
        head: which one goes, from 0.

    Returns:
        The four kernels, in this order: three (I, (H−1)·O) and one ((H−1)·O, E).
    """
    ### BEGIN SOLUTION
    size = len(output_kernel) // num_heads
    gone = np.arange(head * size, (head + 1) * size)
    inner = [np.delete(kernel, gone, axis=1) for kernel in (query_kernel, key_kernel, value_kernel)]
    return (*inner, np.delete(output_kernel, gone, axis=0))
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# How wide is a head? The matrices say it, with H. Then: at which column does head number `head` begin, and where does
# it end?

# %% [markdown] tags=["hint"]
# The same numbers are columns of three matrices and rows of the fourth: what the columns put out is what the rows
# receive.

# %% [markdown] tags=["hint"]
# `np.delete` takes an array, the indices to leave out, and an axis; `np.concatenate` of the parts before and after the
# head does as well. Axis 1 for the three projections, axis 0 for the output kernel.
