# %% [markdown]
# # Program 6: a softmax in logarithms
#
# **The question.** "My decoder does not cheat: I checked that no position sees a later one." Yet the output of the very
# first position changes when the last token is changed.
#
# **The idea.** Look at the extreme rows. The first query has hardly anything to attend to, the last one nearly
# everything: where a comparison is off by one, these two show it first.
#
# **The shapes.** Query, key and value are (B, H, T, O): B sentences, H heads, T positions, O features a head. What is
# hidden is (T, T), the same for all.
#
# **One line, worked.** A case that it gets right: where all positions have the value (5, 7), every output is (5, 7),
# whatever the scores: the rows sum to one.
#
# **Name it, mend it.** The program below runs and gives the right shape, and one thing in it is wrong. Mend it, and set
# `MISTAKE` to the id of what was wrong, one of these:
#
# - `causal-itself-only`: The causal mask is a diagonal: each position attends to itself alone.
# - `causal-missing`: There is no causal mask: the future is attended.
# - `causal-one-ahead`: The causal mask lets each position see the next one: s ≤ t + 1 in place of s ≤ t.
# - `causal-reversed`: The causal mask is reversed: the past is hidden, the future and the position itself are attended.
# - `causal-strict`: The causal mask hides the position itself: s < t in place of s ≤ t.
# - `causal-wrong-corner`: With T ≠ S the causal mask is aligned to the lower right corner in place of the upper left.
# - `causal-zeroes-logits`: The future's logits become 0 in place of -∞ (tril of the logits): they keep a share of
#   exp(0).
# - `mask-after-softmax`: The mask is applied after the softmax, and rows are not divided by their new sum: it is less
#   than one.
# - `scale-without-root`: The logits are divided by O in place of √O: the root is missing, or they are scaled twice.
# - `softmax-base-two`: The softmax takes powers of 2 in place of e.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "causal-strict"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_06(query, key, value):
    """Causal scaled dot-product attention of a sequence with itself.

    Args:
        query, key, value: (B, H, T, O).

    Returns:
        The output, (B, H, T, O): a position attends to itself and to all before it.
    """
    steps = np.arange(query.shape[2])
    ### BEGIN SOLUTION
    hidden = steps[:, None] < steps
    ### STARTER
    # hidden = steps[:, None] <= steps
    ### END SOLUTION
    logits = np.einsum("BHTO,BHSO->BHTS", query, key) / np.sqrt(query.shape[-1])
    logits = np.where(hidden, -1e9, logits)
    logarithms = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    return np.einsum("BHTS,BHSO->BHTO", np.exp(logarithms), value)


# %% [markdown] tags=["hint"]
# Print what is hidden for T = 3, as zeros and ones, and read it row by row: what does each position see?

# %% [markdown] tags=["hint"]
# In the first row everything is hidden, so that all logits are -10⁹ and all scores equal. What should the first
# position see?

# %% [markdown] tags=["hint"]
# The diagonal is where query and key stand at the same position. Whether it is hidden is decided by the
# comparison operator.
