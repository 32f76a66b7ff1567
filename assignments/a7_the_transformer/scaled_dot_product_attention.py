# %% [markdown]
# # Scaled dot-product attention
#
# **The question.** Attention is softmax(q kᵀ / √d_k) v. Over which axis does the softmax go, which d is under the
# root, and where does the mask come in: before the softmax or after it?
#
# **The idea.** Every query is compared with every key: a product, called a logit. The logits are divided by the root
# of the number of features *of a key*, so that they do not grow with it. A hidden logit becomes -∞, *before* the
# softmax: then it gets exactly nothing, and the others still sum to 1. The softmax goes over the keys: each query has
# one share to give away. The shares mix the values.
#
# A query to which everything is hidden (a sentence of padding) has nothing to share out. Its weights are all 0 here,
# and so is its output. (-1e9 in the place of -∞ would give it the average of everything that is hidden. -1e9 *added*
# does the same in float32, where a logit is lost beside 10⁹; in float64, as here, the weights are as if nothing were
# hidden.)
#
# **The shapes.** q is (B, T, O), k is (B, S, O), v is (B, S, V): any number of features. The logits and weights are
# (B, T, S). `mask` is boolean and broadcasts to (B, T, S), as those of the two exercises before do: True means may be
# attended.
#
# **One line, worked.** One query [2, 0, 0, 0] and the keys [1, 0, 0, 0] and [0, 1, 0, 0]: the logits are 2 and 0,
# scaled by √4 they are 1 and 0, and the weights e/(e + 1) = 0.731 and 0.269. With the second key hidden they are 1
# and 0.

# %%
import numpy as np


def scaled_dot_product_attention(q, k, v, mask=None):
    """softmax(q kᵀ / √O) v, with weights of exactly 0 where the mask is False.

    Args:
        q: queries (B, T, O).
        k: keys (B, S, O).
        v: values (B, S, V).
        mask: boolean, broadcasts to (B, T, S), True where a query may attend; `None` hides nothing.

    Returns:
        The output (B, T, V), and the weights (B, T, S). Weights of a query that may attend to nothing are 0.
    """
    ### BEGIN SOLUTION
    logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])
    allowed = np.ones(logits.shape, bool) if mask is None else np.broadcast_to(mask, logits.shape)
    logits = np.where(allowed, logits, -np.inf)
    largest = np.max(logits, axis=-1, keepdims=True)
    powers = np.exp(logits - np.where(np.isfinite(largest), largest, 0.0))
    total = np.sum(powers, axis=-1, keepdims=True)
    weights = powers / np.where(total == 0.0, 1.0, total)
    return np.matmul(weights, v), weights
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Five steps: products of all queries with all keys; the scale; the mask; the softmax; the mix. `@` multiplies the
# last two axes of stacks of matrices; of the keys these must be exchanged first. NumPy has no softmax: it is exp,
# divided by its sum over the keys, with `keepdims=True`.

# %% [markdown] tags=["hint"]
# Take the row's largest logit off before exp, or logits of 1000 overflow; the weights stay the same. `np.where(mask,
# …,
# -np.inf)` hides. In a row where everything is hidden the largest logit is -∞, and -∞ minus -∞ is NaN: take 0 off there.

# %% [markdown] tags=["hint"]
# exp(-∞) is 0, so a row where everything is hidden has the sum 0, and 0/0 is NaN: divide by 1 where the sum is 0.
# Return the product of weights and values, then the weights, in a tuple. Do not write into the arguments.
