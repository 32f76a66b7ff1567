# %% [markdown]
# # What the division by √d_k is for
#
# **The question.** The article shows two pictures of scores, without and with the division by √d_k, and says that without it
# gradients become extremely small. The second picture is a little greyer. How much is that in figures?
#
# **The idea.** A softmax whose logits lie far apart gives nearly everything to the largest one: it is saturated. Three numbers
# show it, for each row of scores p:
#
# - the largest probability: 1/S where all are equal, 1 where one has it all;
# - the entropy -Σ p ln p: ln S where all are equal, 0 where one has it all (0 · ln 0 counts as 0);
# - the size of the gradient: the derivative of p with respect to what the softmax is given is the matrix
#   diag(p) - p p^T, (S, S); its Frobenius norm, the root of the sum of all its squared elements, goes to 0 as one p goes to 1.
#
# Query and key with independent elements of variance 1 have logits of variance d_k. Six keys, means over 2000 draws:
#
# | d_k | divided | largest | entropy | gradient |
# | --- | --- | --- | --- | --- |
# | 2 | no | 0.46 | 1.35 | 0.37 |
# | 2 | yes | 0.39 | 1.51 | 0.38 |
# | 512 | no | 0.96 | 0.09 | 0.05 |
# | 512 | yes | 0.42 | 1.47 | 0.39 |
#
# With the article's d_k = 2 there is next to nothing to see; with 512 the gradient is a seventh of what it could be.
#
# **The shapes.** The logits are (…, T, S): T query positions, S key positions, any axes before, such as (B, H).
#
# **One line, worked.** The logits 0 and 4 with d_k = 4. Undivided p = (0.018, 0.982): largest 0.982, entropy 0.090, gradient
# 0.035. Divided by 2 p = (0.119, 0.881): 0.881, 0.365, 0.210.

# %%
import numpy as np


def saturation(logits, size):
    """How far a softmax is saturated without the division by √d_k, and with it.

    Args:
        logits: query · key, not divided by anything, (…, T, S); they may be thousands.
        size: d_k, the features of a head.

    Returns:
        Three arrays, each (2, …, T), where index 0 is without the division and index 1 with it: of every row the largest
        probability, the entropy (natural logarithm), and the Frobenius norm of the softmax's derivative with respect to
        its own argument (without what the division adds to the chain rule). All of them finite.
    """
    ### BEGIN SOLUTION
    argument = np.stack([logits, logits / np.sqrt(size)])
    powers = np.exp(argument - argument.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    largest = scores.max(axis=-1)
    entropy = -np.sum(scores * np.log(np.where(scores > 0, scores, 1.0)), axis=-1)
    own = scores[..., :, None] * np.eye(scores.shape[-1])
    jacobian = own - scores[..., :, None] * scores[..., None, :]
    gradient = np.sqrt(np.sum(jacobian**2, axis=(-2, -1)))
    return largest, entropy, gradient
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Compute the scores twice, once of the logits as they are and once divided, and stack both on a new first axis: everything
# that follows treats them alike.

# %% [markdown] tags=["hint"]
# Take the row's largest logit off before the exponential: e^1000 is infinite, e^0 is not. And where a score has become
# exactly 0, its logarithm is -∞: replace it before you take the logarithm.

# %% [markdown] tags=["hint"]
# The derivative's matrix has p_i (1 - p_i) on its diagonal and -p_i p_j elsewhere. Two new axes on p give all products at
# once; `np.eye` puts p on a diagonal. Then square, sum over both of its axes, take the root.
