# %% [markdown]
# # Does a head see a section of the embedding?
#
# **The question.** The article says that every head works on its own section of the embedding: one section may hold a
# noun's gender, another its number. Does head 0 see only the first features of the input?
#
# **The idea.** What is cut into sections is the *projected* query, after the linear layer. A dense layer makes each of
# its outputs of all its inputs. So whether a head sees a section is a question about derivatives: which input features
# change what the head gets? All these derivatives together are the *Jacobian*. Of a linear layer, y = x W + b, it is
# the same for every x: the derivative of output j with respect to input i is W[i, j]. With a usual kernel every
# feature influences every head. To each head its own section of the input: that would be a kernel with zeros outside
# blocks, far fewer parameters, and another model.
#
# **The shapes.** The kernel is (I, H · O), as `Dense` holds it: a row for each input feature, the columns of head 0
# first. The Jacobian is (H, O, I): for every head, its O outputs × the I inputs.
#
# **One line, worked.** I = 2, H = 2, O = 1, kernel `[[3, 0], [5, 7]]`: head 0 is 3 · x₀ + 5 · x₁, two features
# influence it; head 1 is 7 · x₁, one does. The Jacobian is `[[[3, 5]], [[0, 7]]]`.

# %%
import numpy as np


def jacobian_of_heads(kernel, num_heads):
    """How every head's part of a projection depends on the input's features.

    Args:
        kernel: of a dense layer, (I, H·O); its outputs are split into heads, head 0 first.
        num_heads: H.

    Returns:
        Two arrays: the Jacobian, (H, O, I), the derivative of each head's outputs with respect to the input's features;
        and for every head how many input features influence it, integers, (H,): a feature does if any of the head's O
        derivatives with respect to it is not 0.
    """
    ### BEGIN SOLUTION
    features, width = kernel.shape
    heads = kernel.reshape(features, num_heads, width // num_heads)
    jacobian = np.transpose(heads, (1, 2, 0))
    influential = np.any(jacobian != 0, axis=1)
    return jacobian, influential.sum(axis=-1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# The derivative of a linear layer's output j with respect to its input i is one element of its kernel. So nothing need
# be computed, only arranged: the columns are cut into heads, as the projected features are.

# %% [markdown] tags=["hint"]
# Cut the second axis of the kernel into (H, O), and bring the axes from I, H, O into the order H, O, I.

# %% [markdown] tags=["hint"]
# For the counts, ask of every element whether it differs from 0. A feature influences a head if that is true for *any*
# of the O outputs; then count the features of each head. Do not add derivatives up: two of them can cancel.
