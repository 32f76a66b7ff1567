# %% [markdown]
# # Split
#
# **The question.** The projected query is one wide matrix. "Reshape it to (batch, heads, positions, size)", say many
# articles. Why do you need a transpose as well, if the reshape alone gives the right shape?
#
# **The idea.** A reshape keeps the elements in the order in which they lie in memory. It only draws the borders anew.
# The H · O features of one position lie side by side, so a reshape can cut *them* into H pieces of O: (B, T, H, O).
# Only then do you exchange the axes of heads and positions, which does move elements. If you reshape directly to (B, H,
# T, O), you cut in other places: the "first head" then holds all features of the first few positions. The shape is
# right, and a layer built this way even trains. But each head attends only within a few neighbouring positions.
#
# **The shapes.** (B, T, H · O) → (B, T, H, O) → (B, H, T, O). Head 0 gets the first O features, head 1 the next O. In
# the checks T and H always differ, because many mistakes do not show if they are equal. In the smallest case that shows
# you a mistake, they may be equal.
#
# **Worked example.** With B = 1, T = 3, H = 2 and O = 1, `[[[1, 2], [3, 4], [5, 6]]]` becomes `[[[[1], [3], [5]], [[2],
# [4], [6]]]]`. The reshape alone would give `[[[[1], [2], [3]], [[4], [5], [6]]]]`.

# %%
import numpy as np


def split_heads(array, num_heads):
    """Cut the features of every position into heads, and move the heads in front of the positions.

    Args:
        array: Projected array, (B, T, H·O), with the features of head 0 first.
        num_heads: Number of heads (H).

    Returns:
        The heads, (B, H, T, O).
    """
    ### BEGIN SOLUTION
    batch, positions, width = array.shape
    heads = array.reshape(batch, positions, num_heads, width // num_heads)
    return np.transpose(heads, (0, 2, 1, 3))
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# You need two steps: a reshape that cuts the last axis and nothing else, then an exchange of two axes.

# %% [markdown] tags=["hint"]
# The reshape leaves B and T as they are, and makes two axes of H · O. The first O features belong to head 0. Which of H
# and O is then the outer one?

# %% [markdown] tags=["hint"]
# O is the width divided by H, as an integer. After the reshape the axes are B, T, H, O, with the numbers 0, 1, 2, 3.
# `np.transpose` takes the old numbers in their new order.
