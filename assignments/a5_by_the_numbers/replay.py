# %% [markdown]
# # Replay the split and the merge
#
# **The question.** The article prints the same 144 numbers three times: as (3, 6, 8), as (3, 6, 4, 2) and as
# (3, 4, 6, 2). Between the last two lies a transpose. Why not go there in one step, since `view` could make (3, 4, 6, 2) of
# (3, 6, 8) at once? And why does the merge need the transpose again?
#
# **The idea.** A reshape never moves a number: it reads the array in its order, row after row, and cuts it elsewhere. A
# token's 8 features can be cut into 4 heads of 2 that way, because they lie side by side: head h has the features h·O to
# h·O + O - 1. To have all tokens of one head together, numbers must move, and only a transpose moves them. The one-step
# reshape gives the right shape with the wrong numbers: its head 0 holds the first token and half of the second. The merge is
# the same thing backwards, in the opposite order: first move, then cut.
#
# **The shapes.** (B, T, H·O) → (B, T, H, O) → (B, H, T, O), and back (B, H, T, O) → (B, T, H, O) → (B, T, H·O). B sentences, T
# positions, H heads, O features a head.
#
# **One line, worked.** The first two tokens of the article's Q begin with -3.13, 2.71, -2.07, 3.54 and with
# 1.70, 1.63, -2.90, -2.90. Head 0 is to start with (-3.13, 2.71), (1.70, 1.63): the same two features of both tokens. The
# one-step reshape starts with (-3.13, 2.71), (-2.07, 3.54): two heads of the same token.

# %%
import numpy as np


def replay(query, mixed, heads):
    """The split of one array, in its two steps, and the merge of another.

    Args:
        query: before the split, (B, T, H·O).
        mixed: what the heads have made, (B, H, T, O).
        heads: their number, H.

    Returns:
        Three arrays: the query cut into heads, (B, T, H, O); the same with the heads moved to the front, (B, H, T, O); and
        `mixed` merged, (B, T, H·O), with head 0's features first.
    """
    ### BEGIN SOLUTION
    batch, positions, width = query.shape
    cut = query.reshape(batch, positions, heads, width // heads)
    split = np.swapaxes(cut, 1, 2)
    merged = np.swapaxes(mixed, 1, 2).reshape(batch, positions, width)
    return cut, split, merged
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Two things happen on the way: an axis is cut in two, and two axes change places. One is done with `reshape`, the other with
# `transpose` or `swapaxes`. Which comes first on the way out, and which on the way back?

# %% [markdown] tags=["hint"]
# In the cut the last axis becomes two, and the head axis is the first of these: the features of a head lie side by side. How
# many features a head has follows from the width and the number of heads.

# %% [markdown] tags=["hint"]
# For the merge exchange axes 1 and 2 of `mixed`: now heads and features of one token lie side by side, and a reshape to
# three axes joins them.
