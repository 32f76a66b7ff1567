# %% [markdown]
# # Half precision
#
# **The question.** The model is fine in float32. In float16 it gives NaN, or results that are merely bad. What is
# different? Half precision saves half of the memory, so people want it to work. Make it work.
#
# **The idea.** float16 has two limits. The first is its largest number, 65,504. A product of query and key easily
# exceeds it and becomes ∞, and ∞ - ∞ is NaN. Moreover, -1e9 is already -∞ in float16. So `(1 - mask) * -1e9` is
# 0 · -∞ wherever the mask is 1, which is NaN again. The second limit is its 11 significant bits. Between 512 and 1024
# its numbers are 0.5 apart. So logits of that size are rounded by up to 0.25, and e to the power of a logit changes by
# a factor of up to e^0.25 = 1.28. No NaN tells you.
#
# The usual cure is to keep inputs and output in float16, which saves the memory, and to compute everything between in
# float32. Cast query and key *before* you multiply them. Then scale, mask, take the softmax, mix the values, and cast
# the output at the very end. Casting the product is too late: it is ∞ already. (If the product must be computed in
# float16, scale the query first: the results are then √O times smaller, so they overflow later. The rounding problem
# remains.)
#
# **The shapes.** `query` is (B, H, T, O), `key` and `value` are (B, H, S, O), all float16. `mask` is boolean, (B, T,
# S). The output is (B, H, T, O), float16. A row with nothing to attend to gives zeros.
#
# **Worked example.** Take O = 64, with all elements of query and key equal to 40. The product is 64 · 1600 = 102,400,
# which is ∞ in float16. Scaled it is 12,800, which float16 can hold.

# %%
import numpy as np


def half_precision(query, key, value, mask):
    """Return attention for float16 inputs, computed in float32.

    Args:
        query: Query, float16 (B, H, T, O).
        key: Key, float16 (B, H, S, O).
        value: Value, float16 (B, H, S, O).
        mask: Boolean mask, (B, T, S), True where t may attend to s. A row may be all False.

    Returns:
        The output of attention scaled by 1/√O, float16 (B, H, T, O), exact up to the final rounding to float16. It is
        zero for a row with nothing to attend to.
    """
    ### BEGIN SOLUTION
    query, key, value = (array.astype(np.float32) for array in (query, key, value))
    logits = (query / query.shape[-1] ** 0.5) @ np.swapaxes(key, -1, -2)
    masked = np.where(mask[:, None], logits, -np.inf)
    largest = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - np.where(np.isfinite(largest), largest, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    scores = powers / np.where(total == 0, 1.0, total)
    return (scores @ value).astype(np.float16)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Go through your steps and say in which dtype each is computed. NumPy gives float16 if both operands are float16. Which
# is the first step whose result may exceed 65,504?

# %% [markdown] tags=["hint"]
# Begin by casting all three inputs with `.astype`. What follows is the attention that you know. Get -∞ from `np.where`,
# not from a product with a mask.

# %% [markdown] tags=["hint"]
# Rows with nothing to attend to need two guards: subtract 0 if the largest logit of the row is -∞, and divide by 1 if
# the sum is 0. The very last step is a cast back to float16.
