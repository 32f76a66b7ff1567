# %% [markdown]
# # Mask first, or scale first?
#
# **The question.** The article adds the mask to Q · K^T and divides by √O afterwards. The paper's figure scales first,
# and masks then. Is that the same?
#
# **The idea.** It is with -∞, since -∞ / √O = -∞. It is not with a finite number: (logit - p) / √O takes only p / √O
# off, where logit / √O - p takes all of p. With p = 1e9 nobody sees the difference. With p = 10,000, which stands in
# much code because float16 can hold it, an O of 64 leaves 1,250; and where logits are larger than that, hidden
# positions get scores again. What they get is called a *leak*: the sum of a row's scores over the positions that should
# be hidden. Here you measure the leak in both orders.
#
# **The shapes.** `logits` are Q · K^T, not scaled yet: (B, H, T, S). `mask` is boolean (B, T, S), True where t may
# attend to s; it is the same for all heads. A leak is (B, H, T). Every row may attend to at least one position.
#
# **One line, worked.** O = 4, p = 4, logits `[0, 0]`, the second hidden. Mask first: (0, -4) / 2 = (0, -2), softmax
# (0.881, 0.119), leak 0.119. Scale first: (0, -4), softmax (0.982, 0.018), leak 0.018.

# %%
import numpy as np


def mask_order(logits, mask, size, penalty):
    """How much of the scores leaks to hidden positions, in both orders.

    Args:
        logits: Q · K^T, (B, H, T, S), not scaled.
        mask: boolean (B, T, S), True where t may attend to s.
        size: O; the logits are divided by its root.
        penalty: what is taken off the logits where the mask is False: a positive number.

    Returns:
        Two arrays (B, H, T): for every row the sum of the scores over its hidden positions, first where the penalty is
        taken off before the scaling, then where it is taken off after it.
    """
    ### BEGIN SOLUTION
    hidden = ~mask[:, None]
    taken_off = penalty * hidden
    mask_first = softmax((logits - taken_off) / np.sqrt(size))
    scale_first = softmax(logits / np.sqrt(size) - taken_off)
    return np.sum(mask_first * hidden, axis=-1), np.sum(scale_first * hidden, axis=-1)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write the two orders as two formulas of logits, p and √O. They differ in what is inside the parentheses that are
# divided.

# %% [markdown] tags=["hint"]
# The mask needs an axis of one for the heads, between B and T. True means "may attend", so the penalty belongs where it
# is *not* True.

# %% [markdown] tags=["hint"]
# Compute the scores twice, with a softmax over the last axis that takes off each row's largest logit first. The leak is
# the sum over the last axis of the scores times the inverted mask, which counts as 1 and 0.
