# %% [markdown]
# # (in, out) or (out, in)?
#
# **The question.** The article says that X is multiplied by Wq, and prints an 8 by 8 matrix. With as many features in
# as out, both `x @ w` and `x @ w.T` run, and both have the right shape. Which of the two made the printed Q? You meet
# this question whenever you load someone else's weights.
#
# **The idea.** Try both, and look at what is left. With the right orientation, the product explains everything that
# depends on the token. The residual Q - product is then the bias, the same row for every token, plus a little rounding.
# With the wrong orientation, the residual varies from token to token about as much as Q itself. The *size* of the
# residual says little, because the bias may be large. Its *spread* around its own mean over the tokens says it all. In
# the article the spread is 1.97 for (in, out) and 0.025 for (out, in): torch stores the transpose. Keras stores (in,
# out).
#
# **The shapes.** Inputs and output are (B, T, I), and the weight is (I, I): B sentences, T positions, I features.
#
# **Worked example.** Take I = 2 and a weight with the rows (0, 1) and (2, 0). Two tokens, (1, 0) and (0, 1), come out
# as (5, 7) and (6, 5). Read as (in, out), the weight gives the products (0, 1) and (2, 0). The residuals are (5, 6) and
# (4, 5), which spread by 0.5 around their mean (4.5, 5.5). Read as (out, in), it gives (0, 2) and (1, 0). Both
# residuals are (5, 5), a spread of 0.

# %%
import numpy as np


def which_orientation(inputs, weight, output):
    """Tell how a square weight is stored, from the output of a layer with a bias.

    Args:
        inputs: Inputs of the layer, (B, T, I).
        weight: Weight of the layer, (I, I).
        output: Inputs times the weight, or times its transpose, plus an unknown bias, (B, T, I).

    Returns:
        The orientation that leaves the smaller spread, "in, out" or "out, in"; and the two spreads, an array (2,),
        first for the weight as (in, out), then as (out, in). A spread is the root of the mean, over all B·T·I elements,
        of the squared differences between the residual and its mean over all tokens (B and T).
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
# Do the same thing twice, once with the weight and once with its transpose: what part of the output does the product
# leave?

# %% [markdown] tags=["hint"]
# A bias is the same for all tokens. So subtract the mean of what is left over sentences and positions, one for each
# feature. Whatever still differs from token to token is the spread.

# %% [markdown] tags=["hint"]
# Square everything that remains, take one mean over all elements, then the root. The smaller number belongs to the
# orientation that explains the output. Return its name first, then both numbers in one array.
