# %% [markdown]
# # Replay the split and the merge
#
# **The question.** The article prints the same 144 numbers three times: as (3, 6, 8), as (3, 6, 4, 2) and as (3, 4, 6,
# 2). There is a transpose between the last two. Why not do it in one step, since `view` can turn (3, 6, 8) into (3, 4,
# 6, 2) directly? And why does the merge need the transpose again?
#
# **The idea.** A reshape never moves a number. It reads the array in order, row after row, and cuts it in other places.
# You can cut a token's 8 features into 4 heads of 2 this way, because they lie side by side: head h has the features
# h·O to h·O + O - 1. To bring all tokens of one head together, numbers must move, and only a transpose moves them. The
# one-step reshape gives the right shape with the wrong numbers: its head 0 holds the first token and half of the
# second. The merge does the same backwards: first move, then join.
#
# **The shapes.** (B, T, H·O) → (B, T, H, O) → (B, H, T, O), and back (B, H, T, O) → (B, T, H, O) → (B, T, H·O). B
# sentences, T positions, H heads, O features in each head.
#
# **Worked example.** The first two tokens of the article's Q begin with -3.13, 2.71, -2.07, 3.54 and with 1.70, 1.63,
# -2.90, -2.90. Head 0 must start with (-3.13, 2.71), (1.70, 1.63): the same two features of both tokens. The one-step
# reshape starts with (-3.13, 2.71), (-2.07, 3.54): two heads of the same token.

# %%
import numpy as np


def replay(query, mixed, heads):
    """Return both steps of the split of one array, and the merge of another.

    Args:
        query: Query before the split, (B, T, H·O).
        mixed: Mixed values of the heads, (B, H, T, O).
        heads: Number of heads (H).

    Returns:
        Three arrays: the query cut into heads, (B, T, H, O); the same with the heads moved to the front, (B, H, T, O);
        and `mixed` merged, (B, T, H·O), with the features of head 0 first.
    """
    ### BEGIN SOLUTION
    batch, positions, width = query.shape
    cut = query.reshape(batch, positions, heads, width // heads)
    split = np.swapaxes(cut, 1, 2)
    merged = np.swapaxes(mixed, 1, 2).reshape(batch, positions, width)
    return cut, split, merged
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Two things happen on the way: an axis is cut in two, and two axes change places. `reshape` does the first, `transpose`
# or `swapaxes` the second. Which comes first on the way there, and which on the way back?

# %% [markdown] tags=["hint"]
# In the cut, the last axis becomes two. The head axis is the first of these, because the features of a head lie side by
# side. The width and the number of heads tell you how many features a head has.

# %% [markdown] tags=["hint"]
# For the merge, exchange axes 1 and 2 of `mixed`. Now the heads and features of one token lie side by side, and a
# reshape to three axes joins them.
