# %% [markdown]
# # The positional encoding
#
# **The question.** Attention does not know the order of its keys: shuffle keys and values in the same way, and the
# output stays the same. What can we add to the embeddings so that a word at position 2 differs from the same word at
# position 7?
#
# **The idea.** We add a fixed table with one row for each position. Its even features are the sines of the angles
# from the previous exercise, and its odd features are the cosines, side by side: sine, cosine, sine, cosine. (Some
# implementations put all sines first and all cosines after them. That is another table, and weights trained with one
# do not fit the other.)
#
# **The shapes.** The table is (1, P, d). The 1 is for the batch, so that you can add the table to embeddings (B, P,
# d). d may be odd; then the last feature is a sine without a cosine.
#
# **Worked example.** All angles of position 0 are 0, so its row is sin 0, cos 0, sin 0, cos 0, that is 0, 1, 0, 1.
# With d = 4, position 1 has the angles 1, 1, 0.01, 0.01 and the row 0.841, 0.540, 0.010, 1.000.

# %%
import numpy as np
from get_angles import get_angles  # you wrote it in the previous exercise


def positional_encoding(positions, d):
    """Return the sines of the angles of `get_angles` at even features, and the cosines at odd ones.

    Args:
        positions: Number of positions (P), an integer; they count from 0.
        d: Number of features, an integer, odd or even.

    Returns:
        (1, P, d), floats.
    """
    ### BEGIN SOLUTION
    angles = get_angles(np.arange(positions)[:, None], np.arange(d)[None, :], d)
    encoding = np.zeros((positions, d))
    encoding[:, 0::2] = np.sin(angles[:, 0::2])
    encoding[:, 1::2] = np.cos(angles[:, 1::2])
    return encoding[None]
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `get_angles` takes the positions 0 … P - 1 as a column and the features 0 … d - 1 as a row. It returns (P, d).

# %% [markdown] tags=["hint"]
# A slice with a step takes every second column: `[:, 0::2]` takes the even ones, `[:, 1::2]` the odd ones. You can
# assign to such a slice of an array.

# %% [markdown] tags=["hint"]
# Make an array (P, d). Put the sines of the angles' even columns into its even columns, and the cosines of the odd
# columns into its odd ones. At the end, put an axis of size 1 in front.
