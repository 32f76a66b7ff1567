# %% [markdown]
# # The heads move into the batch
#
# **The question.** A few lines let all heads run in parallel, and readers find them hard to follow because the shape
# changes three times. What does `transpose_qkv` do? And why does it need a reshape, a transpose and another reshape, if
# a single reshape gives the same shape?
#
# **The idea.** After the product with the large matrix, the heads stand side by side in the last axis. The function
# that computes attention knows nothing of heads; it takes a batch. So the layer makes each head an item of the batch: B
# sentences with H heads become B·H small sentences.
#
# A reshape only puts new brackets around the numbers, in the order they have. If you reshape directly to (B·H, P, O),
# the numbers of one position end up in several positions: the H·O numbers of position 0 fill the first H rows of the
# result, although only O of them belong to head 0. Instead, cut the last axis in two, *move* the head axis in front
# of the positions, then join batch and heads.
#
# **The shapes.** The input is (B, P, H·O), with P positions. The result is (B·H, P, O): first the H heads of item 0,
# then those of item 1.
#
# **Worked example.** With B = 1, P = 2, H = 2 and O = 1, `[[[1, 2], [3, 4]]]` becomes `[[[1], [3]], [[2], [4]]]`. Head
# 0 has the first feature of both positions.

# %%
import numpy as np


def transpose_qkv(x, num_heads):
    """Turn the heads of a projection into items of the batch.

    Args:
        x: Queries, keys or values after their projection, (B, P, H·O). The features of head 0 come first.
        num_heads: Number of heads (H).

    Returns:
        The heads, (B·H, P, O). Head h of item b is at b·H + h.
    """
    ### BEGIN SOLUTION
    batch, positions, width = x.shape
    size = width // num_heads
    split = x.reshape(batch, positions, num_heads, size)
    return np.swapaxes(split, 1, 2).reshape(batch * num_heads, positions, size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# You need three steps. After the first there are four axes: batch, positions, heads, head size. After the last there
# are three again.

# %% [markdown] tags=["hint"]
# A reshape can join only axes that stand side by side. Before the last step the order must be batch, heads, positions,
# head size. So the middle step exchanges two axes.

# %% [markdown] tags=["hint"]
# Reshape to (B, P, H, O). Exchange axes 1 and 2, with `np.swapaxes` or `np.transpose`. Reshape to (B·H, P, O). You may
# write −1 for one of the sizes.
