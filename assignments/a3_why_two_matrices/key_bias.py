# %% [markdown]
# # The bias that does nothing
#
# **The question.** If only the product of the projections counts: what do the biases of query and key do in it?
#
# **The idea.** With biases a head's logit is (q + b^Q) · (k + b^K) / √O, where q and k are the projections without
# bias. Multiplied out, the key's bias appears as (q + b^Q) · b^K / √O: a number for each query, and the same for all
# keys. A softmax does not change if one number is added to a whole row. So the key's bias changes the logits and never
# the scores: it is trained with a gradient of zero, up to rounding, and stays near where it started. The query's bias
# is another matter: its part b^Q · k differs from key to key.
#
# **The shapes.** `query` (B, T, I), `key` (B, S, I), kernels (H, I, O), biases (H, O). The change of a row is (B, H,
# T), the scores are (B, H, T, S).
#
# **One line, worked.** O = 1: q + b^Q = 2, keys k = (1, 3), b^K = 5. Logits without it (2, 6), with it (12, 16): each
# is 2 · 5 = 10 more, and both softmaxes are (0.018, 0.982).

# %%
import numpy as np


def key_bias(query, key, query_kernel, query_bias, key_kernel, key_bias):
    """What the key's bias changes in the logits, and in the scores.

    Args:
        query: (B, T, I).
        key: (B, S, I).
        query_kernel, key_kernel: (H, I, O).
        query_bias, key_bias: (H, O).

    Returns:
        Three arrays: what the key's bias adds to every scaled logit of a row, (B, H, T); the scores with the key's
        bias; and the scores without it, each (B, H, T, S). The query's bias is there in all of them.
    """
    ### BEGIN SOLUTION
    scale = query_kernel.shape[-1] ** -0.5
    queries = scale * (np.einsum("BTI,HIO->BHTO", query, query_kernel) + query_bias[:, None, :])
    keys = np.einsum("BSI,HIO->BHSO", key, key_kernel)
    change = np.einsum("BHTO,HO->BHT", queries, key_bias)
    without = queries @ np.swapaxes(keys, -1, -2)
    with_bias = queries @ np.swapaxes(keys + key_bias[:, None, :], -1, -2)
    return change, softmax(with_bias), softmax(without)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Multiply (q + b^Q) · (k + b^K) out. Which of the four products have b^K in them? Do these depend on the key's
# position?

# %% [markdown] tags=["hint"]
# A bias (H, O) is added to a projection (B, H, T, O): give it an axis of one for the positions. The change needs the
# query with its bias and its scale, and the key's bias; O is summed over, and no S is in it.

# %% [markdown] tags=["hint"]
# Compute the logits twice, once with the key's bias and once without, each from the same queries. Scale once, by 1/√O,
# and write a softmax over the last axis that takes off each row's largest logit first. To test yourself: the difference
# of the logits must be your first result, along all keys.
