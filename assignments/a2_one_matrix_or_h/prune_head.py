# %% [markdown]
# # Removing a head
#
# **The question.** One head turned out to matter little, so you want a smaller layer without it. Which numbers of the
# layer go, if the layer has one large matrix for each role instead of h small ones?
#
# **The idea.** A head is O neighbouring columns of each of the three projections, and the O *rows* of the output matrix
# that receive the results of these columns. Remove both. The layer is now smaller, and it gives exactly what the whole
# layer gives with that head's output set to zero. The other heads do not notice: their size O stays, and so does the
# scale 1/√O. (If a layer computes its head size as width / h, you have to tell it the new h.) The output stays E wide.
#
# **The shapes.** The query, key and value kernels are (I, H·O), each with its own I. The output kernel is (H·O, E).
# Afterwards they are (I, (H−1)·O) and ((H−1)·O, E).
#
# **Worked example.** Take H = 3 and O = 2, and remove head 1. Of the columns 0 to 5, you keep 0, 1, 4 and 5. Of the
# rows of the output kernel, you keep the same ones.

# %%
import numpy as np


def prune_head(query_kernel, key_kernel, value_kernel, output_kernel, num_heads, head):
    """Return the layer's kernels without one head.

    Args:
        query_kernel: Query kernel, (I, H·O), with the columns of head 0 first.
        key_kernel: Key kernel, (I, H·O).
        value_kernel: Value kernel, (I, H·O).
        output_kernel: Output kernel, (H·O, E), with the rows of head 0 first.
        num_heads: Number of heads (H), at least 2.
        head: Index of the head to remove, from 0.

    Returns:
        The four kernels in the same order: three (I, (H−1)·O) and one ((H−1)·O, E).
    """
    ### BEGIN SOLUTION
    size = len(output_kernel) // num_heads
    gone = np.arange(head * size, (head + 1) * size)
    inner = [np.delete(kernel, gone, axis=1) for kernel in (query_kernel, key_kernel, value_kernel)]
    return (*inner, np.delete(output_kernel, gone, axis=0))
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# How wide is a head? The matrices and H tell you. Then: at which column does head number `head` begin, and where does
# it end?

# %% [markdown] tags=["hint"]
# The same indices are columns of three matrices and rows of the fourth: the rows receive what the columns produce.

# %% [markdown] tags=["hint"]
# `np.delete` takes an array, the indices to leave out, and an axis. You can also use `np.concatenate` on the parts
# before and after the head. Use axis 1 for the three projections and axis 0 for the output kernel.
