# %% [markdown]
# # Does a head see a section of the embedding?
#
# **The question.** The article says that every head works on its own section of the embedding: one section may hold a
# noun's gender, another its number. Does head 0 really see only the first features of the input? You can settle this
# with derivatives.
#
# **The idea.** The layer cuts the *projected* query into sections, after the linear layer. And a dense layer makes each
# output from all its inputs. So the question is one about derivatives: which input features change what the head gets?
# All these derivatives together are the *Jacobian*. For a linear layer, y = x W + b, the Jacobian is the same for every
# x: the derivative of output j with respect to input i is W[i, j]. With an ordinary kernel, every feature influences
# every head. If each head had its own section of the input, the kernel would be zero outside blocks. It would have far
# fewer parameters, and the model would be a different one.
#
# **The shapes.** The kernel is (I, H · O), as `Dense` holds it: a row for each input feature, with the columns of head
# 0 first. The Jacobian is (H, O, I): for every head, its O outputs × the I inputs.
#
# **Worked example.** Take I = 2, H = 2, O = 1 and the kernel `[[3, 0], [5, 7]]`. Head 0 is 3 · x₀ + 5 · x₁, so two
# features influence it. Head 1 is 7 · x₁, so one does. The Jacobian is `[[[3, 5]], [[0, 7]]]`.

# %%
import numpy as np


def jacobian_of_heads(kernel, num_heads):
    """Return how each head's part of a projection depends on the features of the input.

    Args:
        kernel: Kernel of a dense layer, (I, H·O). Its outputs are split into heads, head 0 first.
        num_heads: Number of heads (H).

    Returns:
        Two arrays: the Jacobian, (H, O, I), which holds the derivatives of each head's outputs with respect to the
        input features; and the number of input features that influence each head, integers (H,). A feature influences a
        head if at least one of the head's O derivatives with respect to that feature is not 0.
    """
    ### BEGIN SOLUTION
    features, width = kernel.shape
    heads = kernel.reshape(features, num_heads, width // num_heads)
    jacobian = np.transpose(heads, (1, 2, 0))
    influential = np.any(jacobian != 0, axis=1)
    return jacobian, influential.sum(axis=-1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The derivative of output j of a linear layer with respect to its input i is one element of the kernel. So there is
# nothing to compute, only to arrange. Cut the columns into heads, as the layer cuts the projected features.

# %% [markdown] tags=["hint"]
# Cut the second axis of the kernel into (H, O). Then bring the axes from the order I, H, O into the order H, O, I.

# %% [markdown] tags=["hint"]
# For the counts, ask of every element whether it differs from 0. A feature influences a head if that is true for *any*
# of the O outputs. Then count the features of each head. Do not add up derivatives: two of them can cancel.
