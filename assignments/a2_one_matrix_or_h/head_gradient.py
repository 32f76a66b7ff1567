# %% [markdown]
# # How much does a head matter? Ask its gradient
#
# **The question.** If you leave out each head in turn, you have to compute the loss once more for every head. With 12
# layers of 12 heads, that is 144. Can a single backward pass tell you roughly the same thing?
#
# **The idea.** Put a factor ξ before the output of each head, with ξ = 1. Leaving the head out means taking its ξ to 0.
# The derivative of the loss with respect to ξ, at 1, says how the loss begins to change on the way there. By the chain
# rule, this derivative is the sum of the head's output times the gradient of the loss with respect to that output.
# Michel et al. (2019, section 4.1) take the absolute value of this sum for every example, because a head that helps one
# sentence and harms another matters to both. Then they take the mean over the examples.
#
# It makes no difference whether you take the head's output before the output kernel or after it: the sum of output
# times gradient is the same.
#
# **The shapes.** The mixed values of the heads are (B, T, H, O), the output kernel is (H, O, E), and output and target
# are (B, T, E). Each example has its own loss. The importance is (H,).
#
# **Worked example.** Take one position, E = 1, and two heads that contribute 3 and 1 to the output 4. The target is 5.
# The loss is (4 − 5)², and its gradient with respect to the output is 2·(4 − 5) = −2. The sums are 3·(−2) = −6 and
# 1·(−2) = −2, so the importance is [6, 2].

# %%
import numpy as np


def head_gradient(mixed, output_kernel, target):
    """Return how strongly a factor before each head changes the loss of an example.

    The output is the product of `mixed` with the output kernel, summed over the heads. The loss of an example is the
    mean over its T·E elements of (output − target)².

    For each example and head, multiply the head's output by the gradient of the example's loss with respect to it, and
    sum over positions and features. The importance of a head is the mean over the batch of the absolute values of these
    sums.

    Args:
        mixed: Mixed values of each head, (B, T, H, O).
        output_kernel: Output kernel, (H, O, E).
        target: Target of the output, (B, T, E).

    Returns:
        The importance of each head, (H,).
    """
    ### BEGIN SOLUTION
    output = np.einsum("BTHO,HOE->BTE", mixed, output_kernel)
    of_output = 2 * (output - target) / target[0].size
    of_mixed = np.einsum("BTE,HOE->BTHO", of_output, output_kernel)
    sums = np.einsum("BTHO,BTHO->BH", mixed, of_mixed)
    return np.mean(np.abs(sums), axis=0)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Begin with the gradient with respect to the output. The loss is a mean of squares over the T·E elements of one
# example. Its gradient has the shape of the output.

# %% [markdown] tags=["hint"]
# Go back through the output kernel: this sums over E and brings in the heads and the head size. The result has the
# shape of `mixed`.

# %% [markdown] tags=["hint"]
# Multiply it by `mixed` and sum over T and O. That leaves (B, H). Only now take the absolute value, and then the mean
# over the batch. In a different order you get a different number.
