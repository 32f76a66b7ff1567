# %% [markdown]
# # (in, out) or (out, in)?
#
# **The question.** The article says that X is multiplied by Wq, and prints an 8 by 8 matrix. With as many features in
# as out, both `x @ w` and `x @ w.T` run and have the right shape. Which of the two made the printed Q?
#
# **The idea.** Try both and look at what is left. With the right orientation everything that depends on the token is
# accounted for: the residual Q - product is the bias, the same row for every token, and a little rounding. With the
# wrong one it varies from token to token about as much as Q itself. Its *size* says little, for the bias may be large;
# its *spread* around its own mean over the tokens says all. In the article the spread is 1.97 for (in, out) and 0.025
# for (out, in): torch stores the transpose. Keras stores (in, out).
#
# **The shapes.** Inputs and output are (B, T, I), the weight (I, I): B sentences, T positions, I features.
#
# **One line, worked.** I = 2, the weight has the rows (0, 1) and (2, 0). Two tokens (1, 0) and (0, 1) come out as (5, 7) and
# (6, 5). Read as (in, out) the products are (0, 1) and (2, 0): (5, 6) and (4, 5) are left, around their mean
# (4.5, 5.5) they spread by 0.5. Read as (out, in) they are (0, 2) and (1, 0): (5, 5) is left twice, a spread of 0.

# %%
import numpy as np


def which_orientation(inputs, weight, output):
    """How a square weight is stored, told from what a layer with a bias made of its inputs.

    Args:
        inputs: (B, T, I).
        weight: (I, I).
        output: inputs times the weight, or times its transpose, plus a bias that is not known; (B, T, I).

    Returns:
        The orientation that leaves the smaller spread, "in, out" or "out, in"; and the two spreads, an array (2,):
        first with the weight taken as (in, out), second as (out, in). A spread is the root of the mean, over all B·T·I
        elements, of the squared differences between the residual and the residual's mean over all tokens (B and T).
    """
    ### BEGIN SOLUTION
    spreads = []
    for kernel in (weight, weight.T):
        residual = output - inputs @ kernel
        around = residual - residual.mean(axis=(0, 1))
        spreads.append(np.sqrt(np.mean(around**2)))
    layout = "in, out" if spreads[0] < spreads[1] else "out, in"
    return layout, np.array(spreads)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Do the same thing twice, once with the weight and once with its transpose: what does the product leave of the output?

# %% [markdown] tags=["hint"]
# A bias is the same for all tokens, so take it off: the mean of what is left, over sentences and positions, one for each
# feature. What still differs from token to token then is the spread.

# %% [markdown] tags=["hint"]
# Of what remains square everything, take one mean over all elements, and the root of that. A smaller number means that this
# orientation explains the output. Return the name first, then both numbers in one array.
