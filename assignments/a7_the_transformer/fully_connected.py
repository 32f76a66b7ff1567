# %% [markdown]
# # The fully connected part
#
# **The question.** Between attentions there are "fully connected layers". Of what width, with which activation, and
# do positions see one another in them?
#
# **The idea.** Two dense layers: up to a larger width with a relu, and down again without one, so that what is added
# to the residual stream may be negative. They are applied to each position by itself: `Dense` multiplies the last
# axis and leaves all others alone, so no position sees another. Mixing positions is left to attention.
#
# **The shapes.** (B, T, D) → (B, T, F) → (B, T, D), where D is `embedding_dim` and F is `fully_connected_dim`, in the
# paper 512 and 2048. Weights, in this order: (D, F), (F,), (F, D), (D,).
#
# **One line, worked.** D = F = 1, x = 2, kernels -3 and 5, biases 1 and 4: the first layer gives 2·(-3) + 1 = -5,
# relu makes it 0, and the second gives 0·5 + 4 = 4.

# %%
import keras


def fully_connected(embedding_dim, fully_connected_dim):
    """Two dense layers, with a relu after the first.

    Args:
        embedding_dim: D, the features of input and output.
        fully_connected_dim: F, the features in between.

    Returns:
        A `keras.Sequential` of two `keras.layers.Dense`, which makes (B, T, D) of (B, T, D).
    """
    ### BEGIN SOLUTION
    first = keras.layers.Dense(fully_connected_dim, activation="relu")
    second = keras.layers.Dense(embedding_dim)
    return keras.Sequential([first, second])
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `keras.Sequential` takes a list of layers, which are called one after the other. A `Dense` is made with the number of
# features of its *output*.

# %% [markdown] tags=["hint"]
# The input has D features already, so the first layer is the one that makes F of them. Only it has an activation.

# %% [markdown] tags=["hint"]
# `activation="relu"` goes into the first `Dense`. The second has the width of the embedding and no activation; both have
# their biases, as `Dense` has them unless told otherwise.
