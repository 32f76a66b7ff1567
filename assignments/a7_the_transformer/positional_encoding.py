# %% [markdown]
# # The positional encoding
#
# **The question.** Attention does not know the order of its keys: shuffle keys and values alike, and the output is the
# same. So what is added to the embeddings so that a word at position 2 differs from the same word at position 7?
#
# **The idea.** A fixed table with a row for every position. Its even features are the sines of the angles of the
# exercise before, its odd features the cosines, side by side: sine, cosine, sine, cosine. (Some implementations put
# all sines first and all cosines after them; that is another table, and weights trained with one do not fit the
# other.)
#
# **The shapes.** The table is (1, P, d): the 1 is for the batch, so that it can be added to embeddings (B, P, d) as
# it is. d may be odd; then the last feature is a sine without a cosine.
#
# **One line, worked.** Position 0 has only angles 0: its row is sin 0, cos 0, sin 0, cos 0, that is 0, 1, 0, 1.
# Position 1 with d = 4 has the angles 1, 1, 0.01, 0.01, and the row 0.841, 0.540, 0.010, 1.000.

# %%
import numpy as np
from get_angles import get_angles  # yours, of the exercise before


def positional_encoding(positions, d):
    """Sines at even features, cosines at odd ones, of the angles of `get_angles`.

    Args:
        positions: P, how many positions there are, counted from 0; an integer.
        d: how many features, an integer, odd or even.

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
# `get_angles` wants the positions 0 … P - 1 as a column and the features 0 … d - 1 as a row. It gives (P, d).

# %% [markdown] tags=["hint"]
# A slice with a step takes every second column: `[:, 0::2]` the even ones, `[:, 1::2]` the odd ones. You can assign
# to such a slice of an array.

# %% [markdown] tags=["hint"]
# Make an array (P, d). Put the sines of the angles' even columns into its even columns, the cosines of the odd
# columns into its odd ones. In the end put an axis of size 1 in front.
