# %% [markdown]
# # Attend
#
# **The question.** In the article's pictures, the mask is added, the result is scaled, and a softmax is applied. Which
# numbers are added? What does the softmax go over, and what comes out? Write the step that every Transformer rests on.
#
# **The idea.** There are four steps, the same for every item and head.
#
# - *Compare*: query · key, for each pair of positions.
# - *Scale*: divide by √O, so that the logits do not grow with the size of the head.
# - *Hide*: where the mask is False, the logit becomes -∞. This comes after the scaling, so that nothing shrinks the
#   penalty.
# - *Weigh*: a softmax over the keys makes each row sum to one, with exactly 0 where it is hidden. These scores weigh
#   the values.
#
# Before the exponential, subtract the largest logit of each row. This changes no score, and the exponential cannot
# overflow.
#
# **The shapes.** `query` is (B, H, T, O), `key` and `value` are (B, H, S, O), and `mask` is (B, T, S), the same for all
# heads. Logits and scores are (B, H, T, S). The output is (B, H, T, O). T, S, H and O all differ.
#
# **Worked example.** Take O = 4, and one query and three keys with the products 2, 6 and 100. The third key is hidden.
# Scaled, the logits are 1, 3 and hidden. The scores are e¹ / (e¹ + e³) = 0.119, 0.881 and 0. With the values 10, 20 and
# 30, the output is 0.119 · 10 + 0.881 · 20 = 18.81.

# %%
import numpy as np


def scaled_dot_product_attention(query, key, value, mask):
    """Return softmax(Q · K^T / √O, hidden where the mask is False) · V, for every head.

    Args:
        query: Query, (B, H, T, O).
        key: Key, (B, H, S, O).
        value: Value, (B, H, S, O).
        mask: Boolean mask, (B, T, S), True where t may attend to s. Every row has at least one True.

    Returns:
        The output, (B, H, T, O), and the scores, (B, H, T, S), right also for logits of hundreds of thousands.
    """
    ### BEGIN SOLUTION
    logits = query @ np.swapaxes(key, -1, -2)
    scaled = logits / np.sqrt(query.shape[-1])
    masked = np.where(mask[:, None], scaled, -np.inf)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return scores @ value, scores
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `@` multiplies the last two axes and keeps those before them, so you need no loop over batch and heads. Exchange the
# last two axes of the key first.

# %% [markdown] tags=["hint"]
# The mask has no axis for the heads. Give it one of size 1, between B and T. `np.where` takes the mask, the values
# where it is True, and the values where it is False. The exponential of -∞ is 0.

# %% [markdown] tags=["hint"]
# The softmax goes over the last axis, the keys. Subtract the maximum of each row with `keepdims=True`, take the
# exponential, and divide by the sum of each row. For the output, use `@` once more: scores times values.
