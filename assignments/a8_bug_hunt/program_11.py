# %% [markdown]
# # Program 11: one packed kernel
#
# **The question.** Trained from scratch, the model is as good as any. With the weights of a published model, it
# writes nonsense. "All shapes fit, and no weight is left over."
#
# **The idea.** With fresh weights, names are arbitrary: whichever third of a packed kernel is called key *becomes*
# the key's in training. With weights that were trained elsewhere, it must be the same third as there. So the order is
# part of the format: look it up instead of guessing.
#
# **The shapes.** The inputs are (B, T, I). The packed kernel is (I, 3·H·O): the query's columns first, then the
# key's, then the value's, each with head 0 first. The output kernel is (H·O, E): B sentences, T positions, I and E
# features, H heads, O features per head.
#
# **Worked example.** The program gets this case right: key and value have the same columns in the packed kernel.
# Then it does not matter which is which.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `heads-reshaped`: The heads are split by a reshape without a transpose, which mixes positions and features.
# - `heads-size-first`: The features are split as (O, H) instead of (H, O): a head gets every H-th feature.
# - `kernels-key-for-value`: The value is projected with the key's kernel.
# - `kernels-key-value-swapped`: The kernels of key and value are swapped.
# - `kernels-query-key-swapped`: The kernels of query and key are swapped.
# - `kernels-query-value-swapped`: The kernels of query and value are swapped.
# - `logits-query-query`: The logits are query · query instead of query · key.
# - `merge-heads-reversed`: The heads are concatenated in the opposite order.
# - `mix-scores-transposed`: The scores are transposed before they mix the values, so every value goes to the wrong
#   query.
# - `scale-all-heads`: The logits are divided by √(H·O), the width of all heads together, instead of √O.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "kernels-key-value-swapped"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_11(inputs, packed_kernel, output_kernel, heads):
    """Multi-head self-attention without biases and mask, with one kernel for query, key and value.

    Args:
        inputs: (B, T, I).
        packed_kernel: (I, 3·H·O): the columns of the query, of the key, of the value, each with head 0 first.
        output_kernel: (H·O, E).
        heads: their number, H.

    Returns:
        The output, (B, T, E).
    """
    packed = inputs @ packed_kernel
    parts = (part.reshape(*part.shape[:2], heads, -1) for part in np.split(packed, 3, axis=-1))
    ### BEGIN SOLUTION
    query, key, value = parts
    ### STARTER
    # query, value, key = parts
    ### END SOLUTION
    logits = np.einsum("BTHO,BSHO->BHTS", query, key) / np.sqrt(query.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    mixed = np.einsum("BHTS,BSHO->BTHO", scores, value)
    return mixed.reshape(*inputs.shape[:2], -1) @ output_kernel


# %% [markdown] tags=["hint"]
# Set the last third of the packed kernel to zero. If that third is the value's, the output must be zero. Is it?

# %% [markdown] tags=["hint"]
# Follow the three parts from the packed kernel to where they are used, and compare their order with the docstring's.

# %% [markdown] tags=["hint"]
# Unpacking assigns the parts to the names on the left of the `=` in their order.
