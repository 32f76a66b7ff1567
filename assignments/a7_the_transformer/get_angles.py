# %% [markdown]
# # The angles of the positional encoding
#
# **The question.** The formula says sin(pos / 10000^(2i/d)) and cos(pos / 10000^(2i/d)). A feature is called k in the
# code and i in the formula. Which is which, and why does the code divide k by two?
#
# **The idea.** The features come in pairs: feature 0 is a sine and feature 1 a cosine *of the same angle*, then come
# 2 and 3, and so on. i counts the pairs, and k counts the features. Both features of pair i, k = 2i and k = 2i + 1,
# have i = k // 2. A pair's angle grows with the position, at a speed of 1 / 10000^(2i/d): pair 0 turns fastest, and
# the last one hardly at all. Together they tell positions apart as the hands of a clock tell the time.
#
# **The shapes.** `positions` is a column (P, 1) and `k` a row (1, K), so that dividing one by a function of the other
# gives a table (P, K) without a loop. `d` is the number of features of the embedding; `k` may hold only some of them.
#
# **Worked example.** Position 5, d = 4, feature k = 3: its pair is i = 3 // 2 = 1, the power is 10000^(2·1/4) =
# 100, and the angle is 5/100 = 0.05. Feature 2 is in the same pair and gets 0.05 too.

# %%
import numpy as np


def get_angles(positions, k, d):
    """Return the angles position / 10000^(2i/d), where i = k // 2 is the pair of feature k.

    Args:
        positions: Column of positions (P, 1), which count from 0.
        k: Row of features (1, K), which count from 0.
        d: Number of features of the embedding, an integer.

    Returns:
        (P, K), floats.
    """
    ### BEGIN SOLUTION
    pair = k // 2
    power = np.power(10000.0, 2 * pair / d)
    return positions / power
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# First turn every feature into its pair, so that 0, 1, 2, 3, 4 become 0, 0, 1, 1, 2. Python has an operator for that.

# %% [markdown] tags=["hint"]
# The exponent is a fraction between 0 and 1: twice the pair, divided by d. Do not round it: whole-number division is
# for the pair alone.

# %% [markdown] tags=["hint"]
# Take three steps: the pair of each feature; 10000 to the power of twice the pair divided by d, a row (1, K); and the
# column of positions divided by this row.
