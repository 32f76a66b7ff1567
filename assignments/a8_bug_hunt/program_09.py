# %% [markdown]
# # Program 9: kernels as matrices
#
# **The question.** "The shapes all fit, so the split must be right." The model is hardly better than one that does not
# know the order of the words, and with a single head it is much better than with four.
#
# **The idea.** A shape does not say which number stands where. A head is a part of the features of *every* position.
# Split an array in which each number says where it comes from, such as 10 · position + feature, and look at what the
# first head gets.
#
# **The shapes.** The query's input is (B, T, I), that of key and value (B, S, I). The kernels of query, key and value
# are (I, H·O), the output's is (H·O, E): B sentences, T and S positions, H heads, I and E features, O features a head.
#
# **One line, worked.** A case that it gets right: one token, T = S = 1. There is one score, 1, and the output is the
# value's projection times the output's kernel.
#
# **Name it, mend it.** The program below runs and gives the right shape, and one thing in it is wrong. Mend it, and set
# `MISTAKE` to the id of what was wrong, one of these:
#
# - `batch-as-one-sequence`: All items are laid into one sequence: everybody attends to the whole batch.
# - `heads-one-key-value`: All heads share the first head's key and value.
# - `heads-reshaped`: The heads are split by a reshape without a transpose: positions and features are mixed.
# - `heads-size-first`: The features are split as (O, H) in place of (H, O): a head gets every H-th feature.
# - `kernels-query-key-swapped`: The kernels of query and key are swapped.
# - `merge-heads-reversed`: The heads are concatenated in the opposite order.
# - `merge-kernel-transposed`: The output's kernel is used as (out, in) in place of (in, out).
# - `merge-size-first`: The heads are interleaved: merged as (O, H) in place of (H, O).
# - `mix-scores-transposed`: The scores are transposed before they mix the values: every value goes to the wrong query.
# - `scale-all-heads`: The logits are divided by √(H·O), the width of all heads together, in place of √O.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "heads-reshaped"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_09(query, value, query_kernel, key_kernel, value_kernel, output_kernel, heads):
    """Multi-head attention without biases and mask; key and value are made of the same input.

    Args:
        query: (B, T, I).
        value: (B, S, I).
        query_kernel, key_kernel, value_kernel: (I, H·O), with head 0's columns first.
        output_kernel: (H·O, E).
        heads: their number, H.

    Returns:
        The output, (B, T, E).
    """

    def split(array):
        batch, positions, width = array.shape
        ### BEGIN SOLUTION
        return array.reshape(batch, positions, heads, width // heads).swapaxes(1, 2)
        ### STARTER
        # return array.reshape(batch, heads, positions, width // heads)
        ### END SOLUTION

    Q, K, V = split(query @ query_kernel), split(value @ key_kernel), split(value @ value_kernel)
    logits = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    mixed = powers / powers.sum(axis=-1, keepdims=True) @ V
    joined = mixed.swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return joined @ output_kernel


# %% [markdown] tags=["hint"]
# Change the features of the last position alone, and look which heads, and which rows of them, change after the split.
# It should be the last row of every head.

# %% [markdown] tags=["hint"]
# A reshape reads the numbers in their order and cuts them elsewhere. After the split the first head holds the first
# positions whole, and the later ones not at all.

# %% [markdown] tags=["hint"]
# Cut only the last axis in two, which leaves positions before heads. Then let the two change places: that is what the
# merge further down undoes.
