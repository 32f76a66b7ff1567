# %% [markdown]
# # Program 8: three kernels in one array
#
# **The question.** "I mask the padding, and I see in the picture that its rows are grey and even." But the same
# sentence gives a different output for each length to which it is padded.
#
# **The idea.** Nobody may look *at* a padded position. Whether the padded position looks at others does not matter,
# because nobody uses its result. Which of the two position axes belongs to those who are looked at? To test it,
# change a padded token: the output at real positions must not change.
#
# **The shapes.** The inputs are (B, T, I), and the mask is (B, T). The kernels of query, key and value, in this
# order, are one array (3, H, I, O): B sentences, T positions, H heads, I features, O features per head. The logits
# are (B, H, T, S) with S = T.
#
# **Worked example.** The program gets this case right: a mask without any False hides nothing, along whichever
# axis.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `kernels-key-value-swapped`: The kernels of key and value are swapped.
# - `mask-of-first-item`: The first item's mask is used for the whole batch.
# - `merge-not-transposed`: The heads are merged without transposing back: a query gets pieces of other queries.
# - `padding-at-other-end`: The padding is taken to be at the other end of the sequence.
# - `padding-ignored`: The keys' padding mask is ignored: queries attend to padding.
# - `padding-inverted`: The padding mask is inverted: queries attend to padding, and to nothing else.
# - `padding-on-queries`: The keys' padding mask is laid over the queries: rows are hidden instead of columns.
# - `padding-zeroes-key`: The key is set to 0 at padding, and padding keeps its share of the softmax.
# - `padding-zeroes-value`: The value is set to 0 at padding, and padding keeps its share of the softmax.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "padding-on-queries"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_08(inputs, kernels, mask):
    """Self-attention of padded sentences, without an output projection.

    Args:
        inputs: (B, T, I).
        kernels: The kernels of query, key and value, (3, H, I, O).
        mask: boolean (B, T), True at real tokens, False at padding; every sentence has a real token.

    Returns:
        The heads side by side, (B, T, H·O). No position attends to padding; padded positions attend to the real ones.
    """
    Q, K, V = np.einsum("BTI,RHIO->RBHTO", inputs, kernels)
    logits = np.einsum("BHTO,BHSO->BHTS", Q, K) * Q.shape[-1] ** -0.5
    ### BEGIN SOLUTION
    logits = np.where(mask[:, None, None, :], logits, -1e9)
    ### STARTER
    # logits = np.where(mask[:, None, :, None], logits, -1e9)
    ### END SOLUTION
    powers = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    mixed = np.einsum("BHTS,BHSO->BTHO", powers / np.sum(powers, axis=-1, keepdims=True), V)
    return np.reshape(mixed, (*inputs.shape[:2], -1))


# %% [markdown] tags=["hint"]
# Change a padded token's features, and see which outputs change. Then look for the line that should have prevented
# it.

# %% [markdown] tags=["hint"]
# Write down the letters of the logits, and below them those of the mask with its new axes. Below which letter does
# the mask's position axis stand, and below which should it stand?

# %% [markdown] tags=["hint"]
# The mask's positions must lie along the last axis of the logits, which belongs to the keys. The two new axes before
# it are for heads and queries.
