# %% [markdown]
# # Attend
#
# **The question.** In the article's pictures the mask is added, the result scaled, and a softmax applied. What are the
# numbers that are added, what is the softmax taken over, and what comes out?
#
# **The idea.** Four steps, the same for every item and head. *Compare*: query · key for each pair of positions.
# *Scale*: divide by √O, so that logits do not grow with the head's size. *Hide*: where the mask is False the logit
# becomes -∞, after the scaling, so that nothing shrinks what hides. *Weigh*: a softmax over the keys makes each row sum
# to one, with exactly 0 where it was hidden; these scores weigh the values. Before exp, the row's largest logit is
# taken off: that changes no score, and exp cannot overflow.
#
# **The shapes.** `query` (B, H, T, O), `key` and `value` (B, H, S, O), `mask` (B, T, S), the same for all heads. Logits
# and scores are (B, H, T, S), the output is (B, H, T, O). T, S, H and O all differ.
#
# **One line, worked.** O = 4, one query and three keys with products 2, 6 and 100, the third hidden. Scaled: 1, 3,
# hidden. Scores: e¹ / (e¹ + e³) = 0.119, 0.881, 0. With the values 10, 20, 30 the output is 0.119 · 10 + 0.881 · 20 =
# 18.81.

# %%
import numpy as np


def scaled_dot_product_attention(query, key, value, mask):
    """softmax(Q · K^T / √O, hidden where the mask says so) · V, for every head.

    Args:
        query: (B, H, T, O).
        key: (B, H, S, O).
        value: (B, H, S, O).
        mask: boolean (B, T, S), True where t may attend to s; every row has at least one True.

    Returns:
        The output, (B, H, T, O), and the scores, (B, H, T, S).
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
# `@` multiplies the last two axes and keeps those before them. So batch and heads need no loop: the key's last two axes
# must change places first.

# %% [markdown] tags=["hint"]
# The mask has no axis for the heads: give it one, of size one, between B and T. `np.where` takes the mask, what stands
# where it is True, and what stands where it is False; exp of -∞ is 0.

# %% [markdown] tags=["hint"]
# The softmax goes over the last axis, the keys. Take off each row's maximum with `keepdims=True`, take exp, divide by
# each row's sum. The output is one more `@`, scores times values.
