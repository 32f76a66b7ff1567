# %% [markdown]
# # What is the division by √d_k for?
#
# **The question.** The article shows two pictures of scores, without and with the division by √d_k. It says that
# without the division, gradients become extremely small. The second picture is a little greyer. How much is that in
# numbers?
#
# **The idea.** If the logits of a softmax lie far apart, it gives nearly everything to the largest one. The softmax is
# *saturated*. Three numbers show it, for each row of scores p:
#
# - the largest probability: 1/S if all are equal, 1 if one has it all;
# - the entropy -Σ p ln p: ln S if all are equal, 0 if one has it all (0 · ln 0 counts as 0);
# - the size of the gradient. The derivative of p with respect to the argument of the softmax is the matrix diag(p) - p
#   p^T, (S, S). Its Frobenius norm is the root of the sum of all its squared elements, and it goes to 0 as one p goes
#   to 1.
#
# If query and key have independent elements of variance 1, their logits have variance d_k. With six keys, the means
# over 2000 draws are:
#
# | d_k | divided | largest | entropy | gradient |
# | --- | --- | --- | --- | --- |
# | 2 | no | 0.46 | 1.35 | 0.37 |
# | 2 | yes | 0.39 | 1.51 | 0.38 |
# | 512 | no | 0.96 | 0.09 | 0.05 |
# | 512 | yes | 0.42 | 1.47 | 0.39 |
#
# With the article's d_k = 2 there is almost nothing to see. With 512, the gradient is an eighth of what it could be.
#
# **The shapes.** The logits are (…, T, S): T query positions, S key positions, and any axes before them, such as (B,
# H).
#
# **Worked example.** Take the logits 0 and 4 with d_k = 4. Undivided, p = (0.018, 0.982): largest 0.982, entropy 0.090,
# gradient 0.035. Divided by 2, p = (0.119, 0.881): largest 0.881, entropy 0.365, gradient 0.210.

# %%
import numpy as np


def saturation(logits, size):
    """Return how saturated a softmax is, without the division by √d_k and with it.

    Args:
        logits: Query · key, not divided by anything, (…, T, S). They may be thousands.
        size: Number of features of a head (d_k).

    Returns:
        Three arrays, each (2, …, T), where index 0 is without the division and index 1 with it. For every row they hold
        the largest probability, the entropy (natural logarithm), and the Frobenius norm of the softmax's derivative
        with respect to its own argument (without the factor that the division adds by the chain rule). All are finite.
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
# Compute the scores twice, once from the logits as they are and once from the divided ones. Stack both on a new first
# axis. Everything that follows treats them alike.

# %% [markdown] tags=["hint"]
# Subtract the largest logit of each row before the exponential: e^1000 is infinite, e^0 is not. And if a score is
# exactly 0, its logarithm is -∞, so replace it before you take the logarithm.

# %% [markdown] tags=["hint"]
# The matrix of the derivative has p_i (1 - p_i) on its diagonal and -p_i p_j elsewhere. With two new axes on p you get
# all products at once, and `np.eye` puts p on a diagonal. Then square, sum over both axes of the matrix, and take the
# root.
