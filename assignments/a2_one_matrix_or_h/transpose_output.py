# %% [markdown]
# # And back: the heads side by side
#
# **The question.** There is a `transpose_qkv` and a `transpose_output`. Somebody wondered whether the transformer is
# named after them. It is not. But what does the second function do? And which numbers go wrong, without any error, if
# you leave out one of its steps?
#
# **The idea.** It undoes the first function step by step, in the opposite order: separate batch and heads, move the
# heads behind the positions, and join heads and head size. A single reshape from (B·H, P, O) to (B, P, H·O) gives the
# right shape but the wrong numbers. Its first row is made of the first H positions of one head, instead of the same
# position of all H heads. The last matrix would then mix positions.
#
# **The shapes.** The input is (B·H, P, O), with head h of item b at b·H + h. The result is (B, P, H·O), with the
# features of head 0 first.
#
# **Worked example.** With B = 1, H = 2, P = 2 and O = 1, `[[[1], [3]], [[2], [4]]]` becomes `[[[1, 2], [3, 4]]]`.

# %%
import numpy as np


def transpose_output(x, num_heads):
    """Take the heads out of the batch and put them side by side.

    Args:
        x: Mixed values of each head, (B·H, P, O). Head h of item b is at b·H + h.
        num_heads: Number of heads (H).

    Returns:
        The joined heads, (B, P, H·O), with the features of head 0 first.
    """
    ### BEGIN SOLUTION
    folded, positions, size = x.shape
    batch = folded // num_heads
    apart = x.reshape(batch, num_heads, positions, size)
    return np.swapaxes(apart, 1, 2).reshape(batch, positions, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# B is not an argument, but you can read it off the shape: the first axis has B·H items. The batch is the outer one of
# the two.

# %% [markdown] tags=["hint"]
# After the first step there are four axes, in the order batch, heads, positions, head size. For the last step, heads
# and head size must stand side by side, at the end.

# %% [markdown] tags=["hint"]
# Reshape to (B, H, P, O), exchange axes 1 and 2, and reshape to (B, P, H·O). Compare with the worked example: the first
# row of the result holds 1 and 2, from two different heads.
