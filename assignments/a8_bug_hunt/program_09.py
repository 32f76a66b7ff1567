# %% [markdown]
# # Program 9: kernels as matrices
#
# **The question.** "The shapes all fit, so the split must be right." The model is hardly better than one that does
# not know the order of the words, and with a single head it is much better than with four.
#
# **The idea.** A shape does not say which number stands where. A head takes part of the features of *every* position.
# Split an array in which each number says where it comes from, such as 10 · position + feature, and look at what the
# first head gets.
#
# **The shapes.** The query's input is (B, T, I), and the input of key and value is (B, S, I). The kernels of query,
# key and value are (I, H·O), and the output kernel is (H·O, E): B sentences, T and S positions, H heads, I and E
# features, O features per head.
#
# **Worked example.** The program gets this case right: one token, T = S = 1. There is one score, 1, and the output
# is the projected value times the output kernel.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `batch-as-one-sequence`: All items are laid end to end in one sequence: every position attends to the whole batch.
# - `heads-one-key-value`: All heads share the first head's key and value.
# - `heads-reshaped`: The heads are split by a reshape without a transpose, which mixes positions and features.
# - `heads-size-first`: The features are split as (O, H) instead of (H, O): a head gets every H-th feature.
# - `kernels-query-key-swapped`: The kernels of query and key are swapped.
# - `merge-heads-reversed`: The heads are concatenated in the opposite order.
# - `merge-kernel-transposed`: The output kernel is used as (out, in) instead of (in, out).
# - `merge-size-first`: The heads are interleaved: merged as (O, H) instead of (H, O).
# - `mix-scores-transposed`: The scores are transposed before they mix the values, so every value goes to the wrong
#   query.
# - `scale-all-heads`: The logits are divided by √(H·O), the width of all heads together, instead of √O.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "heads-reshaped"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_09(query, value, query_kernel, key_kernel, value_kernel, output_kernel, heads):
    """Multi-head attention without biases and mask; key and value come from the same input.

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
# Change the features of the last position alone, and look at which heads, and which of their rows, change after the
# split. It should be the last row of every head.

# %% [markdown] tags=["hint"]
# A reshape reads the numbers in their order and cuts them elsewhere. After the split, the first head holds the first
# positions whole, and the later ones not at all.

# %% [markdown] tags=["hint"]
# Cut only the last axis in two, which leaves positions before heads. Then let the two change places. The merge
# further down undoes exactly that.
