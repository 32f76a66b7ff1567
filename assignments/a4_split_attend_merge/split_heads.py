# %% [markdown]
# # Split
#
# **The question.** The projected query is one wide matrix. "Reshape it to (batch, heads, positions, size)" is read in
# many articles. Why is a transpose needed as well, when the reshape alone gives the right shape?
#
# **The idea.** A reshape keeps the elements in the order in which they lie in memory and only draws the borders anew.
# The H · O features of one position lie side by side, so a reshape can cut *them* into H pieces of O: (B, T, H, O).
# Only then the axes of heads and positions are exchanged, which does move elements. Reshaping to (B, H, T, O) at once
# cuts elsewhere: the "first head" then holds all features of the first few positions. The shape is right, and a layer
# so built even trains; but each head attends within a few neighbouring positions only.
#
# **The shapes.** (B, T, H · O) → (B, T, H, O) → (B, H, T, O). Head 0 gets the first O features, head 1 the next O. T
# and H are never the same in the checks, since many mistakes do not show where they are; in a smallest case, which
# shows you a mistake that was found, they may be.
#
# **One line, worked.** B = 1, T = 3, H = 2, O = 1: `[[[1, 2], [3, 4], [5, 6]]]` becomes
# `[[[[1], [3], [5]], [[2], [4], [6]]]]`. The reshape alone would give `[[[[1], [2], [3]], [[4], [5], [6]]]]`.

# %%
import numpy as np


def split_heads(array, num_heads):
    """Cuts the features of every position into heads, and moves the heads before the positions.

    Args:
        array: (B, T, H·O), the features of head 0 first.
        num_heads: H.

    Returns:
        (B, H, T, O).
    """
    ### BEGIN SOLUTION
    batch, positions, width = array.shape
    heads = array.reshape(batch, positions, num_heads, width // num_heads)
    return np.transpose(heads, (0, 2, 1, 3))
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Two steps: first a reshape that cuts the last axis and nothing else, then one that exchanges two axes.

# %% [markdown] tags=["hint"]
# The reshape leaves B and T as they are, and makes two axes of H · O: which of H and O is the outer one, if the first O
# features belong to head 0?

# %% [markdown] tags=["hint"]
# O is the width divided by H, as an integer. After the reshape the axes are B, T, H, O, numbers 0, 1, 2, 3;
# `np.transpose` takes the old numbers in their new order.
