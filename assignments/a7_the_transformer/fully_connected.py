# %% [markdown]
# # The fully connected part
#
# **The question.** Between the attention layers there are "fully connected layers". How wide are they, which
# activation do they have, and do positions see each other in them?
#
# **The idea.** Two dense layers: one up to a larger width with a relu, and one down again without a relu, so that the
# result may be negative when it is added to the residual stream. They act on each position separately: `Dense`
# multiplies the last axis and leaves all others alone, so no position sees another. Only attention mixes positions.
#
# **The shapes.** (B, T, D) → (B, T, F) → (B, T, D), where D is `embedding_dim` and F is `fully_connected_dim`. In the
# paper they are 512 and 2048. The weights, in this order, are (D, F), (F,), (F, D), (D,).
#
# **Worked example.** D = F = 1, x = 2, kernels -3 and 5, biases 1 and 4. The first layer gives 2·(-3) + 1 = -5,
# relu turns it into 0, and the second layer gives 0·5 + 4 = 4.

# %%
import keras


def fully_connected(embedding_dim, fully_connected_dim):
    """Return two dense layers with a relu after the first.

    Args:
        embedding_dim: Number of features of input and output (D).
        fully_connected_dim: Number of features in between (F).

    Returns:
        A `keras.Sequential` of two `keras.layers.Dense`, which maps (B, T, D) to (B, T, D). All else is as in a `Dense`
        that gets no further arguments.
    """
    ### BEGIN SOLUTION
    first = keras.layers.Dense(fully_connected_dim, activation="relu")
    second = keras.layers.Dense(embedding_dim)
    return keras.Sequential([first, second])
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `keras.Sequential` takes a list of layers and calls one after the other. You make a `Dense` with the number of
# features of its *output*.

# %% [markdown] tags=["hint"]
# The input already has D features, so the first layer turns them into F. Only the first layer has an activation.

# %% [markdown] tags=["hint"]
# `activation="relu"` goes into the first `Dense`. The second has the width of the embedding and no activation. Both
# have biases, which is the default of `Dense`.
