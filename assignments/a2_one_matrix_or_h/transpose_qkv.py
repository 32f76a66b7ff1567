# %% [markdown]
# # The heads move into the batch
#
# **The question.** The lines that let all heads run in parallel are found hard to follow, as the shape changes three
# times. What does `transpose_qkv` do, and why a reshape, a transpose and another reshape, where the shapes would fit
# with one?
#
# **The idea.** The product with the large matrix has the heads side by side in its last axis. The function that
# computes attention knows nothing of heads; it takes a batch. So each head is made an item of the batch: B sentences
# with H heads become B·H small sentences. A reshape only writes other brackets around the numbers in their order. Read
# in one go as (B·H, P, O), the numbers of one position would be spread over several: H·O numbers of position 0 would
# fill H positions of the first head. Therefore: cut the last axis in two, *move* the head axis in front of the
# positions, then put batch and heads together.
#
# **The shapes.** In: (B, P, H·O), P positions. Out: (B·H, P, O). Item 0's heads come first, H of them, then item 1's.
#
# **One line, worked.** B = 1, P = 2, H = 2, O = 1: `[[[1, 2], [3, 4]]]` becomes `[[[1], [3]], [[2], [4]]]`: head 0 has
# the first feature of both positions.

# %%
import numpy as np


def transpose_qkv(x, num_heads):
    """The heads of a projection as items of the batch.

    Args:
        x: queries, keys or values after their projection, (B, P, H·O); head 0's features come first.
        num_heads: H.

    Returns:
        (B·H, P, O): item b's head h is at b·H + h.
    """
    ### BEGIN SOLUTION
    batch, positions, width = x.shape
    size = width // num_heads
    split = x.reshape(batch, positions, num_heads, size)
    return np.swapaxes(split, 1, 2).reshape(batch * num_heads, positions, size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Three steps. After the first there are four axes: batch, positions, heads, head size. After the last there are three
# again.

# %% [markdown] tags=["hint"]
# Only axes that stand side by side can be put together by a reshape. Before the last step the order must be batch,
# heads, positions, head size; so the middle step exchanges two axes.

# %% [markdown] tags=["hint"]
# Reshape to (B, P, H, O); exchange axes 1 and 2, with `np.swapaxes` or `np.transpose`; reshape to (B·H, P, O).
# `np.reshape` would take −1 for one of the sizes.
