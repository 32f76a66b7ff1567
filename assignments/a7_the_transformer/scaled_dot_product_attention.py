# %% [markdown]
# # Scaled dot-product attention
#
# **The question.** Attention is softmax(q kᵀ / √d_k) v. Over which axis does the softmax run, which d is under the
# root, and does the mask come before the softmax or after it?
#
# **The idea.** Compare every query with every key: their product is a logit. Divide the logits by the root of the
# number of features *of a key*, so that they do not grow with it. Replace hidden logits by -∞ *before* the softmax:
# then a hidden key gets exactly nothing, and the others still sum to 1. The softmax runs over the keys, because each
# query has one share to give away. The shares mix the values.
#
# A query from which everything is hidden (in a sentence of padding) has nothing to share out. Its weights are all 0
# here, and so is its output. (-1e9 instead of -∞ would give it the average of everything that is hidden. -1e9 *added*
# does the same in float32, where a logit disappears beside 10⁹. In float64, as here, the weights come out as if
# nothing were hidden.)
#
# **The shapes.** q is (B, T, O), k is (B, S, O), and v is (B, S, V) with any number of features. The logits and
# weights are (B, T, S). `mask` is boolean and broadcasts to (B, T, S), as the masks of the two previous exercises do.
# True means *attend*.
#
# **Worked example.** One query [2, 0, 0, 0] and the keys [1, 0, 0, 0] and [0, 1, 0, 0]: the logits are 2 and 0,
# divided by √4 they are 1 and 0, and the weights are e/(e + 1) = 0.731 and 0.269. With the second key hidden they are
# 1 and 0.

# %%
import numpy as np


def scaled_dot_product_attention(q, k, v, mask=None):
    """Return softmax(q kᵀ / √O) v, with weights of exactly 0 where the mask is False.

    Args:
        q: Queries (B, T, O).
        k: Keys (B, S, O).
        v: Values (B, S, V).
        mask: Boolean (B, T, S), with sizes of 1 where it is the same for all, or (T, S); True where a query may attend.
            `None` hides nothing.

    Returns:
        The output (B, T, V) and the weights (B, T, S), right also for logits of hundreds of thousands. The weights of a
        query with nothing to attend to are 0.
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
# Take five steps: products of all queries with all keys; scale; mask; softmax; mix. `@` multiplies the last two axes
# of stacks of matrices, so exchange these two axes of the keys first. NumPy has no softmax: it is exp, divided by its
# sum over the keys, with `keepdims=True`.

# %% [markdown] tags=["hint"]
# Subtract the row's largest logit before exp, or logits of 1000 overflow; the weights stay the same. `np.where` with
# -np.inf hides. In a row where everything is hidden, the largest logit is -∞, and -∞ minus -∞ is NaN: subtract 0
# there.

# %% [markdown] tags=["hint"]
# exp(-∞) is 0, so a row where everything is hidden has the sum 0, and 0/0 is NaN: divide by 1 where the sum is 0.
# Return the product of weights and values, then the weights, in a tuple. Do not write into the arguments.
