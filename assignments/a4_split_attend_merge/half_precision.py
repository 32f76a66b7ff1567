# %% [markdown]
# # Half precision
#
# **The question.** The model is fine in float32. In float16 it gives NaN, or something that is merely bad. What is
# different?
#
# **The idea.** float16 has two limits. Its largest number is 65,504: a product of query and key passes it easily,
# becomes ∞, and ∞ - ∞ is NaN; -1e9 is -∞ in it from the start, so that `(1 - mask) * -1e9` has 0 · ∞, NaN again. And it
# has 11 significant bits: between 512 and 1024 its numbers are 0.5 apart, so logits of that size are rounded by up to
# 0.25, and a score by a factor of e^0.25 = 1.28. No NaN shows that.
#
# The usual cure: inputs and output stay float16, which saves the memory, and what is between is computed in float32:
# cast query and key *before* they are multiplied, scale, mask, softmax, values, and cast the output at the very end.
# Casting the product is too late: it is ∞ already. (Where the product must be float16, scale the query before it: the
# largest number is then √O times farther away. The rounding stays.)
#
# **The shapes.** `query` (B, H, T, O), `key` and `value` (B, H, S, O), all float16; `mask` boolean (B, T, S). The
# output is (B, H, T, O), float16. A row with nothing to attend to gives zeros.
#
# **One line, worked.** O = 64, all elements of query and key 40: the product is 64 · 1600 = 102,400, which is ∞ in
# float16. Scaled it is 12,800; that float16 could hold.

# %%
import numpy as np


def half_precision(query, key, value, mask):
    """Attention for float16 that is computed in float32.

    Args:
        query: float16 (B, H, T, O).
        key: float16 (B, H, S, O).
        value: float16 (B, H, S, O).
        mask: boolean (B, T, S), True where t may attend to s; a row may be all False.

    Returns:
        The output, float16 (B, H, T, O): that of attention scaled by 1/√O, up to the rounding of float16 at the end.
        Zeros for a row with nothing to attend to.
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
# Go through your steps and say of each in which dtype it is computed. NumPy gives float16 when both operands are
# float16. Which is the first step whose result may be larger than 65,504?

# %% [markdown] tags=["hint"]
# Cast all three inputs with `.astype` as the first thing; what follows is then the attention that you know. Let -∞ come
# from `np.where`, not from a product with a mask.

# %% [markdown] tags=["hint"]
# Rows with nothing to attend to need two guards: take off 0 where the row's largest is -∞, and divide by 1 where the
# sum is 0. The very last thing is a cast back to float16.
