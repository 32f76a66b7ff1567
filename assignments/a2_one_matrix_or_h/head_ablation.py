# %% [markdown]
# # How much does a head matter? Leave it out
#
# **The question.** Another exercise asks how to measure which heads matter. A reader proposes a softmax over the
# outputs of the heads. Does that say how important each head is? Write a measure that does.
#
# **The idea.** A softmax does not tell you. It compares numbers that are not comparable. The output of each head is
# multiplied by its own part of the output kernel, which may turn large numbers into nothing, or small ones into much.
# And a large number need not be a useful one. What you can measure is the damage when the head is missing. This is an
# *ablation*. Set the head's output to zero, leave all other heads as they are, and compute the loss again. The
# importance of the head is the rise of the loss. It may be negative: then the model does better without the head.
#
# **The shapes.** The mixed values of the heads are (B, T, H, O), the output kernel is (H, O, E), and output and target
# are (B, T, E). The loss is one number, the mean of the squared differences. The importance is (H,).
#
# **Worked example.** Take one position, E = 1, and two heads that contribute 3 and 1 to the output 4. The target is 5,
# so the loss is 1. Without the first head the loss is (1 − 5)² = 16; without the second it is (3 − 5)² = 4. The
# importance is [15, 3].

# %%
import numpy as np


def head_ablation(mixed, output_kernel, target):
    """Return the rise of the loss without each head.

    The output is the product of `mixed` with the output kernel, summed over the heads. The loss is the mean over all
    elements of (output − target)².

    Args:
        mixed: Mixed values of each head, (B, T, H, O).
        output_kernel: Output kernel, (H, O, E).
        target: Target of the output, (B, T, E).

    Returns:
        The importance of each head, (H,): the loss with that head's part of `mixed` set to zero, minus the loss with
        all heads.
    """

    ### BEGIN SOLUTION
    def loss(heads):
        output = np.einsum("BTHO,HOE->BTE", heads, output_kernel)
        return np.mean(np.square(output - target))

    rises = []
    for head in range(mixed.shape[2]):
        without = mixed.copy()
        without[:, :, head] = 0
        rises.append(loss(without) - loss(mixed))
    return np.array(rises)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write the loss as a function of the mixed values. Call it once with all heads, and once without each head.

# %% [markdown] tags=["hint"]
# To leave a head out, set one index of the head axis to zero, in a copy. The array that you were given must stay as it
# is, and each head must be left out alone.

# %% [markdown] tags=["hint"]
# For each head: copy the array, set that entry of the third axis to 0, compute the loss, and subtract the loss with all
# heads. Collect the H numbers in an array.
