# %% [markdown]
# # The angles of the positional encoding
#
# **The question.** The formula writes sin(pos / 10000^(2i/d)) and cos(pos / 10000^(2i/d)). A feature is called k in
# the code and i in the formula. Which is which, and why does the code divide k by two?
#
# **The idea.** The features come in pairs: feature 0 is a sine and feature 1 a cosine *of the same angle*, then 2 and
# 3, and so on. i counts the pairs, k counts the features: both features of pair i, k = 2i and k = 2i + 1, have i = k
# // 2. A pair's angle grows with the position, at a speed of 1 / 10000^(2i/d): pair 0 turns fastest, the last one
# hardly at all. Together they tell positions apart as the hands of a clock do.
#
# **The shapes.** `positions` is a column (P, 1) and `k` a row (1, K), so that dividing one by a function of the other
# gives a table (P, K) without a loop. `d` is a number, the features of the embedding; `k` need not be all of them.
#
# **One line, worked.** Position 5, d = 4, feature k = 3: its pair is i = 3 // 2 = 1, the power is 10000^(2·1/4) =
# 100, and the angle 5/100 = 0.05. Feature 2 is in the same pair and gets 0.05 too.

# %%
import numpy as np


def get_angles(positions, k, d):
    """The angles position / 10000^(2i/d), where i = k // 2 is the pair that feature k is in.

    Args:
        positions: column of positions, counted from 0, (P, 1).
        k: row of features, counted from 0, (1, K).
        d: how many features the embedding has, an integer.

    Returns:
        (P, K), floats.
    """
    ### BEGIN SOLUTION
    pair = k // 2
    power = np.power(10000.0, 2 * pair / d)
    return positions / power
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# First make of every feature its pair, so that 0, 1, 2, 3, 4 become 0, 0, 1, 1, 2. Python has an operator for that.

# %% [markdown] tags=["hint"]
# The exponent is a fraction between 0 and 1: twice the pair, over d. It must not be rounded: the whole-number
# division is for the pair alone.

# %% [markdown] tags=["hint"]
# Three steps: the pair of each feature; 10000 to the power of twice that over d, a row (1, K); the column of
# positions divided by this row.
