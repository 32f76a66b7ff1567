# %% [markdown]
# # Program 7: a causal mask that is not square
#
# **The question.** In self-attention two implementations agree to the last digit. Called with five queries and seven
# keys, one of them sees two positions further than the other. Both claim to be causal.
#
# **The idea.** Causal means that a query sees no key at a later position, so we need to know the position of every
# query and every key. Here both sequences begin at position 0, and query t sees the keys s ≤ t, as with Keras'
# `use_causal_mask`. (Other code puts the last query beside the last key. That is right if the queries continue a
# sequence whose keys are cached, but that is a different case.)
#
# **The shapes.** The query is (B, H, T, O), and key and value are (B, H, S, O): B sentences, H heads, T and S
# positions, O features per head. T may be smaller or larger than S.
#
# **Worked example.** The program gets this case right: T = S = 3. The queries see one, two and three keys.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `causal-inverted`: The causal mask is inverted: positions attend to the future alone.
# - `causal-itself-only`: The causal mask is a diagonal: each position attends to itself alone.
# - `causal-missing`: There is no causal mask: positions attend to the future.
# - `causal-one-ahead`: The causal mask lets each position see the next one: s ≤ t + 1 instead of s ≤ t.
# - `causal-reversed`: The causal mask is reversed: it hides the past, and positions attend to themselves and to the
#   future.
# - `causal-strict`: The causal mask hides each position from itself: s < t instead of s ≤ t.
# - `causal-wrong-corner`: If T ≠ S, the causal mask is aligned to the lower right corner instead of the upper left.
# - `logits-key-query`: The logits are key · query instead of query · key: either the logits are transposed, or query
#   and key are swapped.
# - `scale-keys`: The logits are divided by √S, the root of the number of keys, instead of √O.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "causal-wrong-corner"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_07(query, key, value):
    """Causal scaled dot-product attention; queries and keys both start at position 0.

    Args:
        query: (B, H, T, O).
        key, value: (B, H, S, O).

    Returns:
        The output, (B, H, T, O): query t attends to the keys s ≤ t that exist.
    """
    rows, columns = query.shape[2], key.shape[2]
    ### BEGIN SOLUTION
    triangle = np.tri(rows, columns, dtype=bool)
    ### STARTER
    # triangle = np.tri(rows, columns, columns - rows, dtype=bool)
    ### END SOLUTION
    logits = np.matmul(query, np.swapaxes(key, 2, 3)) / np.sqrt(query.shape[3])
    logits[..., ~triangle] = -1e9
    logits -= np.max(logits, axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    return np.matmul(logits / np.sum(logits, axis=-1, keepdims=True), value)


# %% [markdown] tags=["hint"]
# Print the triangle for T = S, for T = 2 and S = 4, and for T = 4 and S = 2. How many keys does query 0 see in each?

# %% [markdown] tags=["hint"]
# Query 0 stands at position 0 and should see one key, whatever T and S are. In the program the number depends on
# both.

# %% [markdown] tags=["hint"]
# Look up in the NumPy manual what the third argument of `np.tri` shifts, and what its default is.
