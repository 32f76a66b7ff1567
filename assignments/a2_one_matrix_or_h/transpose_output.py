# %% [markdown]
# # And back: the heads side by side
#
# **The question.** There is a `transpose_qkv` and a `transpose_output`, and somebody wondered whether the transformer
# has its name from them. It has not; but what does the second one do, and which numbers go wrong, without any error,
# if a step of it is left out?
#
# **The idea.** It undoes the first, step by step, in the opposite order: take batch and heads apart, move the heads
# behind the positions, and put heads and head size together. A reshape of (B·H, P, O) to (B, P, H·O) has the right
# shape at once, and wrong numbers: the first row would be made of the first H positions of one head, in place of the
# same position of all H heads. What the last matrix then mixes are positions.
#
# **The shapes.** In: (B·H, P, O), item b's head h at b·H + h. Out: (B, P, H·O), head 0's features first.
#
# **One line, worked.** B = 1, H = 2, P = 2, O = 1: `[[[1], [3]], [[2], [4]]]` becomes `[[[1, 2], [3, 4]]]`.

# %%
import numpy as np


def transpose_output(x, num_heads):
    """The heads out of the batch, side by side.

    Args:
        x: what each head's scores have mixed, (B·H, P, O); item b's head h is at b·H + h.
        num_heads: H.

    Returns:
        (B, P, H·O), head 0's features first.
    """
    ### BEGIN SOLUTION
    folded, positions, size = x.shape
    batch = folded // num_heads
    apart = x.reshape(batch, num_heads, positions, size)
    return np.swapaxes(apart, 1, 2).reshape(batch, positions, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# B is not given, but it is in the shape: the first axis has B·H items. The batch is the outer one of the two.

# %% [markdown] tags=["hint"]
# After the first step there are four axes, in the order batch, heads, positions, head size. For the last step heads
# and head size must stand side by side, at the end.

# %% [markdown] tags=["hint"]
# Reshape to (B, H, P, O), exchange axes 1 and 2, and reshape to (B, P, H·O). Compare with the worked line: the first
# row of the result holds 1 and 2, from two different heads.
