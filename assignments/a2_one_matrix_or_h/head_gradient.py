# %% [markdown]
# # How much does a head matter: by its gradient
#
# **The question.** Leaving out each head takes one more loss for each. With 12 layers of 12 heads that is 144. Is
# there a number that says about the same, from one backward pass?
#
# **The idea.** Put a factor before each head's output, ξ = 1 for every head. To leave the head out is to take its ξ to
# 0; the derivative of the loss with respect to ξ at 1 says how the loss begins to change on that way. By the chain
# rule it is the sum of the head's output times the loss's gradient with respect to that output. Michel et al. (2019,
# section 4.1) take the absolute value of this sum for every example, since a head that helps one sentence and harms
# another matters to both, and then the mean over the examples.
#
# It makes no difference where the head's output is taken, before the output kernel or after it: the sum of output
# times gradient is the same.
#
# **The shapes.** What the heads have mixed is (B, T, H, O), the output kernel (H, O, E), output and target (B, T, E).
# Each example has its own loss, and the importance is (H,).
#
# **One line, worked.** One position, E = 1, two heads that contribute 3 and 1 to the output 4; target 5. The loss is
# (4 − 5)², its gradient with respect to the output 2·(4 − 5) = −2. The sums are 3·(−2) = −6 and 1·(−2) = −2: the
# importance is [6, 2].

# %%
import numpy as np


def head_gradient(mixed, output_kernel, target):
    """How much the loss of an example depends on a factor before each head.

    The output is what the output kernel makes of `mixed`, with the heads summed. The loss of an example is the mean
    over its T·E elements of (output − target)².

    Args:
        mixed: what each head's scores have mixed, (B, T, H, O).
        output_kernel: (H, O, E).
        target: (B, T, E).

    Returns:
        (H,): of the sum, over positions and features, of a head's output times the gradient of the example's loss with
        respect to it, the absolute value for each example; of these, the mean over the batch.
    """
    ### BEGIN SOLUTION
    output = np.einsum("BTHO,HOE->BTE", mixed, output_kernel)
    of_output = 2 * (output - target) / target[0].size
    of_mixed = np.einsum("BTE,HOE->BTHO", of_output, output_kernel)
    sums = np.einsum("BTHO,BTHO->BH", mixed, of_mixed)
    return np.mean(np.abs(sums), axis=0)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# First the gradient with respect to the output: that of a mean of squares, where the mean is over the T·E elements of
# one example. It has the output's shape.

# %% [markdown] tags=["hint"]
# Back through the output kernel: E is summed over, and head and head size appear. What comes has the shape of `mixed`.

# %% [markdown] tags=["hint"]
# Multiply it with `mixed` and sum over T and O: that leaves (B, H). Only now comes the absolute value, and after it
# the mean over the batch. In another order it is another number.
