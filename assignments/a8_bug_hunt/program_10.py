# %% [markdown]
# # Program 10: a list of heads
#
# **The question.** "I compared every head with the reference: all are equal. Then I put them together, and nothing is
# equal any more. It agrees only when I generate the first word, with one position."
#
# **The idea.** The heads of a position should stand side by side in that position's row. Follow one number from its
# head into the joined array. Does it arrive in the row of its own position?
#
# **The shapes.** The query is (B, T, I), and key and value are (B, S, I). The kernels of query, key and value are
# lists of H matrices (I, O), given as arrays (H, I, O). The output kernel is (H·O, E): B sentences, T and S
# positions, H heads, I and E features, O features per head.
#
# **Worked example.** The program gets this case right: T = 1. Two heads with the results 1, 2 and 3, 4 give the row
# 1, 2, 3, 4.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `heads-all-last`: Every head computes what the last head computes: a loop variable is read after the loop.
# - `heads-reshaped`: The heads are split by a reshape without a transpose, which mixes positions and features.
# - `merge-averaged`: The heads are averaged instead of concatenated.
# - `merge-batch-exchanged`: Batch and heads are exchanged when the heads are merged: (B·H) is read as (H·B).
# - `merge-bias-first`: The output bias is added before the output kernel instead of after it.
# - `merge-heads-reversed`: The heads are concatenated in the opposite order.
# - `merge-kernel-size-first`: The output kernel is flattened as (O, H) instead of (H, O).
# - `merge-not-transposed`: The heads are merged without transposing back: a query gets pieces of other queries.
# - `merge-size-first`: The heads are interleaved: merged as (O, H) instead of (H, O).
# - `mix-scores-transposed`: The scores are transposed before they mix the values, so every value goes to the wrong
#   query.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "merge-not-transposed"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_10(query, key, value, query_kernels, key_kernels, value_kernels, output_kernel):
    """Multi-head attention without biases and mask, one head after the other.

    Args:
        query: (B, T, I).
        key, value: (B, S, I).
        query_kernels, key_kernels, value_kernels: (H, I, O).
        output_kernel: (H·O, E), with head 0's rows first.

    Returns:
        The output, (B, T, E).
    """
    results = []
    for W_Q, W_K, W_V in zip(query_kernels, key_kernels, value_kernels, strict=True):
        Q, K, V = query @ W_Q, key @ W_K, value @ W_V
        logits = Q @ K.transpose(0, 2, 1) / np.sqrt(W_K.shape[1])
        powers = np.exp(logits - logits.max(axis=2, keepdims=True))
        results.append(powers / powers.sum(axis=2, keepdims=True) @ V)
    ### BEGIN SOLUTION
    joined = np.concatenate(results, axis=-1)
    ### STARTER
    # joined = np.stack(results, axis=1).reshape(*query.shape[:2], -1)
    ### END SOLUTION
    return joined @ output_kernel


# %% [markdown] tags=["hint"]
# Let every head return its own position everywhere (fill each row with its number), and look at the rows of the
# joined array. Does each hold a single number?

# %% [markdown] tags=["hint"]
# Stacked on axis 1, the heads stand before the positions: (B, H, T, O). A reshape cuts such an array in its own
# order, so that a row gets several positions of one head.

# %% [markdown] tags=["hint"]
# The results are (B, T, O) each, in a list. One NumPy function puts a list of arrays side by side along an axis that
# they already have.
