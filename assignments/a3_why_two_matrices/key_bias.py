# %% [markdown]
# # The bias that does nothing
#
# **The question.** If the logits depend only on the product of the two projections, what do the biases of query and key
# do there? One of them turns out to do nothing at all. Find out which, and why.
#
# **The idea.** With biases, the logit of a head is (q + b^Q) · (k + b^K) / √O, where q and k are the projections
# without bias. Multiply this out. The key bias contributes (q + b^Q) · b^K / √O: one number for each query, the same
# for all keys. A softmax does not change if you add one number to a whole row. So the key bias changes the logits but
# never the scores. Its gradient is zero, up to rounding, and it stays near where it started. The query bias is
# different: its part b^Q · k differs from key to key.
#
# **The shapes.** `query` is (B, T, I), `key` is (B, S, I), the kernels are (H, I, O) and the biases (H, O). The change
# is (B, H, T), one number for each row. The scores are (B, H, T, S).
#
# **Worked example.** Take O = 1, q + b^Q = 2, keys k = (1, 3) and b^K = 5. The logits are (2, 6) without the key bias
# and (12, 16) with it. Each is 2 · 5 = 10 larger, and both softmaxes are (0.018, 0.982).

# %%
import numpy as np


def key_bias(query, key, query_kernel, query_bias, key_kernel, key_bias):
    """Return what the key bias changes in the logits, and the scores with and without it.

    Args:
        query: Query, (B, T, I).
        key: Key, (B, S, I).
        query_kernel, key_kernel: Kernels of query and key, (H, I, O).
        query_bias, key_bias: Biases of query and key, (H, O).

    Returns:
        Three arrays: the number that the key bias adds to every scaled logit of a row, (B, H, T); the scores with the
        key bias, (B, H, T, S); and the scores without it, (B, H, T, S). All three include the query bias.
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
# Multiply out (q + b^Q) · (k + b^K). Which of the four products contain b^K? Do these depend on the position of the
# key?

# %% [markdown] tags=["hint"]
# To add a bias (H, O) to a projection (B, H, T, O), give it an axis of size 1 for the positions. For the change you
# need the query, with its bias and its scale, and the key bias. You sum over O, and there is no S.

# %% [markdown] tags=["hint"]
# Compute the logits twice from the same queries, once with the key bias and once without. Scale once, by 1/√O. Write a
# softmax over the last axis that first subtracts each row's largest logit. To test yourself, subtract one set of
# logits from the other: for every key, the difference must equal your first result.
