# %% [markdown]
# # Program 15: tokens and positions
#
# **The question.** "The picture of my positional encoding looks like those in tutorials, only the stripes end half
# way: the right half of the features is the same for all positions."
#
# **The idea.** In the paper's formula, the features come in pairs: 2i is the sine's and 2i + 1 the cosine's, and both
# have the angle pos / 10000^(2i/d). The letter i counts pairs, not features. In code it is easily mistaken for the
# feature's number. Compare the angle of the last feature with the formula's.
#
# **The shapes.** The ids are (B, T), the table is (V, d), and the result is (B, T, d): B sentences, T positions, V
# tokens, d features (an even number).
#
# **Worked example.** The program gets this case right: feature 0 of position 3 gets sin 3 = 0.141 on top of the
# embedding. All features of position 0 are right as well: 0 at the sines, 1 at the cosines.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `embedding-unscaled`: The embedding is not multiplied by √d.
# - `positions-base-1000`: The base of the angles is 1,000 instead of 10,000.
# - `positions-exponent-doubled`: The exponent is 4i/d: 2i where i is even already, or d/2 instead of d.
# - `positions-exponent-doubled-per-feature`: The exponent is 2j/d for each feature j, although j already stands for
#   2i or 2i + 1.
# - `positions-exponent-from-one`: The pairs are counted from 1: the exponent is 2(i + 1)/d instead of 2i/d.
# - `positions-exponent-halved`: The exponent is i/d instead of 2i/d, or the base is 100 instead of 10,000.
# - `positions-exponent-per-feature`: The exponent is j/d for each feature j: sine and cosine of a pair have different
#   frequencies.
# - `positions-from-one`: The positions start at 1 instead of 0.
# - `positions-halves`: The sines fill the first half of the features and the cosines the second, instead of
#   alternating.
# - `positions-sine-cosine-swapped`: Cosines stand at even features and sines at odd ones.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "positions-exponent-doubled-per-feature"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_15(ids, table):
    """Token ids to vectors with sinusoidal positions.

    Args:
        ids: integers (B, T).
        table: the embedding, (V, d), d even.

    Returns:
        √d times the embedding, plus the positional encoding with sines at even features and cosines at odd ones; (B, T, d).
    """
    width = table.shape[1]
    position = np.arange(ids.shape[1])[:, np.newaxis]
    feature = np.arange(width)[np.newaxis, :]
    ### BEGIN SOLUTION
    angle = position / 10000 ** (2 * (feature // 2) / width)
    ### STARTER
    # angle = position / 10000 ** (2 * feature / width)
    ### END SOLUTION
    encoding = np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))
    return table[ids] * np.sqrt(width) + encoding


# %% [markdown] tags=["hint"]
# Print the exponents of 10000 for d = 6. According to the formula they are 0, 0, 1/3, 1/3, 2/3, 2/3. What are they in
# the program?

# %% [markdown] tags=["hint"]
# Sine and cosine of a pair must have the same angle, and no exponent may reach 1. In the program each feature has its
# own exponent, up to nearly 2.

# %% [markdown] tags=["hint"]
# The program numbers its features from 0 to d - 1. From such a number you need the 2i of its pair: the number itself
# if it is even, and one less if it is odd.
