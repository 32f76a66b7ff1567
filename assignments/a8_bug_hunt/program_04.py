# %% [markdown]
# # Program 4: one head of one sentence at a time
#
# **The question.** "I checked it: the scores of the padding are exactly zero. But the longer the padding, the smaller
# the output."
#
# **The idea.** A mask must make the hidden scores zero. But that is not all: what must be true of the scores that are
# left? Look at the sum of the numbers that multiply the values.
#
# **The shapes.** The query is (B, H, T, O), key and value are (B, H, S, O), and the mask is (B, T, S): B sentences, H
# heads, T and S positions, O features per head. The loop goes over all B·H pairs.
#
# **Worked example.** The program gets this case right: four keys, nothing hidden, and a query of zeros. Every score
# is 1/4, and the output is the mean of the four values.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `mask-added-ones`: The mask is added to the logits as 1 and 0: a hidden logit loses 1, not everything.
# - `mask-after-softmax`: The mask is applied after the softmax, and the rows are not divided by their new sum, which
#   is less than one.
# - `mask-inverted`: The mask is inverted: queries attend to what should be hidden.
# - `mask-items-as-heads`: The mask has no axis for the heads: if there are as many items as heads, head b gets item
#   b's mask.
# - `mask-missing`: No mask has any effect: every query attends to every key (or 1e-9 is added where -1e9 is meant).
# - `mask-of-first-item`: The first item's mask is used for the whole batch.
# - `mask-zeroes-logits`: Hidden logits become 0 instead of -∞ (multiplied by the mask, or filled with 1e-9), so they
#   keep a share.
# - `scale-after-softmax`: The scores are divided by √O after the softmax, and the logits before it are not: rows sum
#   to 1/√O.
# - `softmax-one-more`: One is added to the sum of the exponentials: rows sum to less than one.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "mask-after-softmax"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_04(query, key, value, mask):
    """Scaled dot-product attention with a mask, in a loop over sentences and heads.

    Args:
        query: (B, H, T, O).
        key, value: (B, H, S, O).
        mask: boolean (B, T, S), True where query t may attend to key s; every query may attend to some key.

    Returns:
        The output, (B, H, T, O).
    """
    output = np.empty(query.shape)
    for b, h in np.ndindex(query.shape[:2]):
        logits = query[b, h] @ key[b, h].T / np.sqrt(query.shape[-1])
        ### BEGIN SOLUTION
        logits = np.where(mask[b], logits, -np.inf)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
        output[b, h] = scores @ value[b, h]
        ### STARTER
        # powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        # scores = powers / powers.sum(axis=1, keepdims=True)
        # output[b, h] = np.where(mask[b], scores, 0.0) @ value[b, h]
        ### END SOLUTION
    return output


# %% [markdown] tags=["hint"]
# Give every key the same value, say 1. Whatever the scores are, the output must be 1 too. When is it, and when is it
# not?

# %% [markdown] tags=["hint"]
# A hidden key has taken part in the sum by which all exponentials are divided. Its share is missing afterwards.

# %% [markdown] tags=["hint"]
# A key must be hidden before the exponentials are summed. Which number has the exponential 0?
