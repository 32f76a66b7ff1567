# %% [markdown]
# # Program 14: a whole encoder layer
#
# **The question.** "Both residual connections are there, I counted them." Stacked six times, the model trains. But
# the attention's result reaches the output only through the feed-forward network, and its gradient is small.
#
# **The idea.** A residual connection goes around one sublayer: it adds the sublayer's input to its output. For each
# of the two, name the array that goes in. Then see what the function returns if the feed-forward network gives zeros:
# it should be the normalized result of the attention part.
#
# **The shapes.** The inputs are (B, T, E). The attention's kernels are (E, E), the feed-forward network's are (E, F)
# and (F, E): B sentences, T positions, E and F features.
#
# **Worked example.** The program gets this case right: the value kernel is zeros, and each position's features have
# the mean 0 and the variance 1. Then the attention part gives back the inputs themselves (except for the epsilon),
# and it does not matter which of the two is added.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `feed-forward-activation-missing`: The feed-forward network has no activation: its two layers are one linear map.
# - `feed-forward-input-of-block`: The feed-forward network gets the block's input instead of the attention part's
#   result.
# - `norm-before`: The normalizations stand before the sublayers (pre-norm) instead of after the residual connections.
# - `norm-inside-residual`: Only the sublayer's output is normalized, before the residual connection: x +
#   norm(sublayer(x)).
# - `residual-feed-forward-from-attention`: The feed-forward network's residual connection adds the attention's bare
#   output.
# - `residual-feed-forward-from-input`: The feed-forward network's residual connection adds the block's input instead
#   of the attention part's result.
# - `residual-feed-forward-from-unnormed`: The feed-forward network's residual connection adds the sum before its
#   normalization.
# - `residual-missing-attention`: The residual connection around the self-attention is missing.
# - `residual-missing-feed-forward`: The residual connection around the feed-forward network is missing.
# - `residual-output-doubled`: Every residual connection adds the sublayer's output to itself: the input is lost.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "residual-feed-forward-from-input"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_14(inputs, query_kernel, key_kernel, value_kernel, inner_kernel, outer_kernel):
    """An encoder layer: self-attention with one head, and a feed-forward network, each with residual connection and norm.

    Args:
        inputs: (B, T, E).
        query_kernel, key_kernel, value_kernel: (E, E).
        inner_kernel: (E, F), followed by a relu.
        outer_kernel: (F, E).

    Returns:
        The output, (B, T, E). Normalizations stand after the additions (post-norm), without gain and bias,
        with the epsilon 1e-6 inside the root.
    """

    def norm(x):
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)

    logits = inputs @ query_kernel @ (inputs @ key_kernel).swapaxes(1, 2) / np.sqrt(inputs.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    attention = powers / powers.sum(axis=-1, keepdims=True) @ (inputs @ value_kernel)
    x = norm(inputs + attention)
    feed_forward = np.maximum(x @ inner_kernel, 0.0) @ outer_kernel
    ### BEGIN SOLUTION
    return norm(x + feed_forward)
    ### STARTER
    # return norm(inputs + feed_forward)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Set the outer kernel to zeros. What should come out? Does the output depend on the value kernel at all?

# %% [markdown] tags=["hint"]
# The second residual connection goes around the feed-forward network. What goes into that network?

# %% [markdown] tags=["hint"]
# Compare the array that the inner kernel multiplies with the array that the last line adds. They should be the same.
