# %% [markdown]
# # Program 13: channels first
#
# **The question.** The author comes from images and keeps the features on axis 1, as convolutions do. "A sentence of
# one token comes out as the bias and nothing else, whichever token it is."
#
# **The idea.** A layer normalization looks at one position at a time: mean and variance are those of its features,
# and no other position takes part. "The last axis" is only the usual place of the features. To test it, change one
# position of the sum that is normalized: the result at the other positions must not change.
#
# **The shapes.** The inputs and the attention's output are (B, E, T): B sentences, E features, T positions. Gain and
# bias are (E,).
#
# **Worked example.** The program gets this case right: E = T = 2, and the sum of input and attention is ((1, 3),
# (3, 1)). Either way the mean is 2 and the deviation 1: ((-1, 1), (1, -1)).
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `norm-gain-bias-swapped`: The normalization's formula is wrong: gain and bias are swapped.
# - `norm-inside-residual`: Only the sublayer's output is normalized, before the residual connection: x +
#   norm(sublayer(x)).
# - `norm-over-batch`: The normalization runs over the batch instead of the features.
# - `norm-over-everything`: The normalization runs over the whole array.
# - `norm-over-time`: The normalization runs over the positions instead of the features.
# - `norm-over-time-and-features`: The normalization runs over positions and features together.
# - `norm-unbiased`: The standard deviation is the unbiased one with n - 1 (torch's default) instead of n.
# - `norm-without-root`: The normalization divides by the variance, not by its root.
# - `residual-missing-attention`: The residual connection around the self-attention is missing.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "norm-over-time"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_13(inputs, query_kernel, key_kernel, value_kernel, gain, bias):
    """Self-attention with one head, residual connection and layer normalization, with the features on axis 1.

    Args:
        inputs: (B, E, T).
        query_kernel, key_kernel, value_kernel: (E, E), as in `features @ kernel`.
        gain, bias: Gain and bias of the normalization, (E,).

    Returns:
        norm(inputs + attention), (B, E, T), where norm has the epsilon 1e-6, inside the root.
    """
    Q, K, V = (np.einsum("BET,EF->BFT", inputs, kernel) for kernel in (query_kernel, key_kernel, value_kernel))
    logits = np.einsum("BFT,BFS->BTS", Q, K) / np.sqrt(Q.shape[1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    total = inputs + np.einsum("BTS,BFS->BFT", scores, V)
    ### BEGIN SOLUTION
    centred = total - total.mean(axis=1, keepdims=True)
    variance = np.mean(centred**2, axis=1, keepdims=True)
    ### STARTER
    # centred = total - total.mean(axis=-1, keepdims=True)
    # variance = np.mean(centred**2, axis=-1, keepdims=True)
    ### END SOLUTION
    normal = centred / np.sqrt(variance + 1e-6)
    return gain[:, None] * normal + bias[:, None]


# %% [markdown] tags=["hint"]
# With a gain of ones and a bias of zeros, every position's features must have the mean 0. Over which axis is that
# true of what the program returns?

# %% [markdown] tags=["hint"]
# The letters are BET. The normalization must keep B and T apart and run over E.

# %% [markdown] tags=["hint"]
# Two lines name an axis: the mean's and the variance's. Both are wrong. The softmax also names the last axis, and it
# is right.
