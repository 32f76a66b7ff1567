# %% [markdown]
# # Take the trained weights
#
# **The question.** The trained weights are in the built-in layer, in its own shapes. How do they get into yours, and how
# do you know that each number is where it belongs?
#
# **The idea.** The built-in layer's `get_weights()` returns eight arrays, in this order: kernel and bias of the query,
# of the *key*, of the value, and of the output. (The order of the weights is query, key, value. That of the call is
# query, value, key.) Its first three kernels have the input features first, (I, H, O), and yours have the heads first,
# (H, I, O). So two axes have to change places, which is a transpose. A reshape would give the same shape with the
# numbers in the wrong places, and nothing would raise an error. The output kernel is (H, O, I) in both.
#
# The only proof is to compare numbers: call both layers with the same arrays and look at every element.
#
# **The shapes.** The built-in's kernels are (I, H, O), (J, H, O), (J, H, O) and (H, O, I); yours are (H, I, O), (H, J,
# O), (H, J, O) and (H, O, I). The biases have the same shapes in both.
#
# **Worked example.** Take I = 2, H = 2 and O = 1. The built-in's kernel [[[1], [2]], [[3], [4]]] says that feature 0 goes
# to head 0 times 1 and to head 1 times 2. In yours, head 0 comes first, with [[1], [3]], and then head 1, with [[2],
# [4]]. The reshape would give head 0 [[1], [2]].

# %%
import numpy as np


def take_weights(builtin, own):
    """Set the weights of your layer to those of a built-in layer.

    Args:
        builtin: A built `keras.layers.MultiHeadAttention`, with biases.
        own: Your `OwnAttention`, built for the same shapes. Its weights are set in place.

    Returns:
        `own`.
    """
    ### BEGIN SOLUTION
    roles = ("query", "key", "value", "output")
    arrays = builtin.get_weights()
    for role, kernel, bias in zip(roles, arrays[0::2], arrays[1::2], strict=True):
        if role != "output":
            kernel = np.swapaxes(kernel, 0, 1)  # (I, H, O) -> (H, I, O)
        getattr(own, f"{role}_kernel").assign(kernel)
        getattr(own, f"{role}_bias").assign(bias)
    return own
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Print the shapes of `builtin.get_weights()` and write the name of a role next to each. Kernels and biases alternate.

# %% [markdown] tags=["hint"]
# Three of the four kernels need two axes exchanged, and one does not. `weight.assign(array)` sets a weight, and raises an
# error if the shape does not fit.

# %% [markdown] tags=["hint"]
# Unpack the eight arrays into eight names in the order of the text. Transpose with `np.swapaxes(kernel, 0, 1)`. Then
# assign each to the attribute of `own` with the same role.
