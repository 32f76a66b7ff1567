# %% [markdown]
# # How much does a head matter: without it
#
# **The question.** Another exercise asks how to measure which heads matter. A reader proposes a softmax over what the
# heads put out. Does it say how important each is?
#
# **The idea.** No. It compares numbers that nothing makes comparable: what a head puts out is multiplied by its own
# part of the output kernel, which may turn large numbers into nothing or small ones into much, and a large number is
# not a useful one. What can be measured is what goes wrong without the head. Set its output to zero, leave all others
# as they are, and compute the loss again: the head's importance is by how much the loss rises. It may be negative:
# then the model does better without.
#
# **The shapes.** What the heads have mixed is (B, T, H, O), the output kernel (H, O, E), output and target (B, T, E).
# The loss is the mean of the squared differences, a number; the importance (H,).
#
# **One line, worked.** One position, E = 1, two heads that contribute 3 and 1 to the output 4; target 5. The loss is
# 1. Without the first head it is (1 − 5)² = 16, without the second (3 − 5)² = 4: the importance is [15, 3].

# %%
import numpy as np


def head_ablation(mixed, output_kernel, target):
    """By how much the loss rises without each head.

    The output is what the output kernel makes of `mixed`, with the heads summed; the loss is the mean over all elements
    of (output − target)².

    Args:
        mixed: what each head's scores have mixed, (B, T, H, O).
        output_kernel: (H, O, E).
        target: (B, T, E).

    Returns:
        (H,): for each head the loss with that head's part of `mixed` set to zero, less the loss with all heads.
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
# Write the loss as a function of what the heads have mixed, and call it once for all heads and once without each.

# %% [markdown] tags=["hint"]
# To leave a head out, set one index of the head axis to zero, in a copy: the array that you were given must stay as it
# is, and the next head must be left out alone.

# %% [markdown] tags=["hint"]
# For each head: copy, set the third axis's entry to 0, compute the loss, subtract the loss with all heads. Collect H
# numbers in an array.
