# %% [markdown]
# # Program 6: a softmax in logarithms
#
# **The question.** "My decoder does not cheat: I checked that no position sees a later one." Yet the output at the
# very first position changes when the last token changes.
#
# **The idea.** Look at the extreme rows. The first query has hardly anything to attend to, and the last one nearly
# everything. If a comparison is off by one, these two rows show it first.
#
# **The shapes.** Query, key and value are (B, H, T, O): B sentences, H heads, T positions, O features per head. The
# array of hidden positions is (T, T), the same for all.
#
# **Worked example.** The program gets this case right: all positions have the value (5, 7). Then every output is
# (5, 7) whatever the scores are, because the rows sum to one.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `causal-itself-only`: The causal mask is a diagonal: each position attends to itself alone.
# - `causal-missing`: There is no causal mask: positions attend to the future.
# - `causal-one-ahead`: The causal mask lets each position see the next one: s ≤ t + 1 instead of s ≤ t.
# - `causal-reversed`: The causal mask is reversed: it hides the past, and positions attend to themselves and to the
#   future.
# - `causal-strict`: The causal mask hides each position from itself: s < t instead of s ≤ t.
# - `causal-wrong-corner`: If T ≠ S, the causal mask is aligned to the lower right corner instead of the upper left.
# - `causal-zeroes-logits`: The future's logits become 0 instead of -∞ (tril of the logits), so they keep a share of
#   exp(0).
# - `mask-after-softmax`: The mask is applied after the softmax, and the rows are not divided by their new sum, which
#   is less than one.
# - `scale-without-root`: The logits are divided by O instead of √O: the root is missing, or the scale is applied
#   twice.
# - `softmax-base-two`: The softmax takes powers of 2 instead of e.

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
# Print the hidden positions for T = 3 as zeros and ones, and read them row by row. What does each position see?

# %% [markdown] tags=["hint"]
# In the first row everything is hidden, so all logits are -10⁹ and all scores are equal. What should the first
# position see?

# %% [markdown] tags=["hint"]
# On the diagonal, query and key stand at the same position. The comparison operator decides whether it is hidden.
