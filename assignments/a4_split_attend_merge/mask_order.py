# %% [markdown]
# # Mask first, or scale first?
#
# **The question.** The article adds the mask to Q · K^T and then divides by √O. The paper's figure scales first and
# masks afterwards. Is that the same? Measure what happens in each order.
#
# **The idea.** With -∞ it is the same, because -∞ / √O = -∞. With a finite number p it is not: (logit - p) / √O
# subtracts only p / √O, while logit / √O - p subtracts all of p. With p = 1e9 nobody sees the difference. But much code
# uses p = 10,000, because float16 can hold it. With O = 64, the division leaves only 1,250 of it. If the logits are
# larger than that, hidden positions get scores again. This is called a *leak*: the sum of a row's scores over the
# positions that should be hidden. Here you measure the leak in both orders.
#
# **The shapes.** `logits` is Q · K^T, not yet scaled, (B, H, T, S). `mask` is boolean, (B, T, S), and True where t may
# attend to s. It is the same for all heads. A leak is (B, H, T). Every row may attend to at least one position.
#
# **Worked example.** Take O = 4, p = 4 and logits `[0, 0]`, the second of which is hidden. Mask first: (0, -4) / 2 =
# (0, -2). The softmax is (0.881, 0.119), and the leak is 0.119. Scale first: (0, -4). The softmax is (0.982, 0.018),
# and the leak is 0.018.

# %%
import numpy as np


def mask_order(logits, mask, size, penalty):
    """Return how much of the scores leaks to hidden positions, in both orders.

    Args:
        logits: Logits before scaling, Q · K^T, (B, H, T, S).
        mask: Boolean mask, (B, T, S), True where t may attend to s.
        size: Head size (O). The logits are divided by its root.
        penalty: Positive number that is subtracted from the logits where the mask is False.

    Returns:
        Two arrays (B, H, T): for every row, the sum of the scores over its hidden positions. The first subtracts the
        penalty before the scaling, the second after it.
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
# Write the two orders as two formulas with the logits, p and √O. They differ in what you divide.

# %% [markdown] tags=["hint"]
# Give the mask an axis of size 1 for the heads, between B and T. True means “may attend”, so the penalty belongs where
# it is *not* True.

# %% [markdown] tags=["hint"]
# Compute the scores twice. Use a softmax over the last axis that first subtracts each row's largest logit. To get the
# leak, multiply the scores by the inverted mask, which counts as 1 and 0, and sum over the last axis.
