# %% [markdown]
# # Merge
#
# **The question.** After attention, every head has its own result. The article merges them by reshaping until the head
# dimension is gone. In which order do you have to reshape, and is the outcome a concatenation?
#
# **The idea.** The merge is the split backwards. First the heads move behind the positions, so that the H results of a
# position lie side by side. Then a reshape joins the last two axes. A reshape alone would join the *positions* of a
# head: a query would get pieces of other queries. Done right, head 0 fills the first O columns of every position, and
# head 1 the next O. This is the same as concatenating the results of the heads along their features. What you merge are
# the results, not the scores.
#
# **The shapes.** (B, H, T, O) → (B, T, H, O) → (B, T, H · O).
#
# **Worked example.** With B = 1, H = 2, T = 3 and O = 1, `[[[[1], [3], [5]], [[2], [4], [6]]]]` becomes `[[[1, 2], [3,
# 4], [5, 6]]]`. The reshape alone would give `[[[1, 3], [5, 2], [4, 6]]]`.

# %%
import numpy as np


def merge_heads(array):
    """Lay the results of the heads side by side, for every position.

    Args:
        array: Results of the heads, (B, H, T, O).

    Returns:
        The merged results, (B, T, H·O), with the features of head 0 first.
    """
    ### BEGIN SOLUTION
    batch, num_heads, positions, size = array.shape
    heads = np.transpose(array, (0, 2, 1, 3))
    return heads.reshape(batch, positions, num_heads * size)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# A reshape joins neighbouring axes, and keeps the order of everything. Which two axes do you want to join, and are they
# neighbours?

# %% [markdown] tags=["hint"]
# Exchange the axes of heads and positions first. Then H and O are neighbours, with H as the outer one, so head 0 comes
# first.

# %% [markdown] tags=["hint"]
# The split and the merge transpose with the same order of axes, because exchanging two axes twice changes nothing.
# After it comes a reshape with three sizes.
