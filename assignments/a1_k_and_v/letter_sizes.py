# %% [markdown]
# # How large is each letter?
#
# **The question.** The old Addons layer is written with equations such as `"...NI , HIO -> ...NHO"`. A learner who read
# them concluded that N, M and O are the same number. Are they? Find out what the letters stand for and what decides the
# size of each.
#
# **The idea.** A letter names an axis. You read its size off the shape of an operand. So an equation and two shapes
# tell you everything: the size of every letter, the shape of the result, and what is summed.
#
# - Two letters may happen to have the same size in one call, such as 64 positions and a head size of 64. They are still
#   two letters, and in the next call their sizes may differ.
# - A letter that stands to the left of the arrow but not to its right is summed over. Being in both operands is not
#   enough.
# - The dots stand for all axes that have no letter. These come first in the shape. There may be none, one or several,
#   and they leave the equation as they entered it.
# - Spaces mean nothing.
#
# **The shapes.** The letters of an operand belong to the *last* axes of its shape, in the same order.
#
# **Worked example.** Take `"...NI , HIO -> ...NHO"` with (32, 10, 512) and (8, 512, 64). N is 10, I is 512, H is 8 and
# O is 64. The dots are (32,), so the result has the shape (32, 10, 8, 64). "I" is summed over.

# %%


def letter_sizes(equation, left_shape, right_shape):
    """Return what an equation of `einsum` tells you about two shapes.

    Args:
        equation: Equation such as "...NI , HIO -> ...NHO": two operands, an arrow, a result. A letter appears at most
            once in each operand. An operand may begin with "...", and then the result does too. If both operands have
            the dots, they stand for the same axes.
        left_shape: Shape of the first operand, a tuple of integers.
        right_shape: Shape of the second operand, a tuple of integers.

    Returns:
        Three things: a dict from every letter to its size; the shape of the result, a tuple of integers; and the
        letters that are summed over, as one string in alphabetical order ("" if there are none).
    """
    ### BEGIN SOLUTION
    operands, result = equation.replace(" ", "").split("->")
    found, batch = {}, ()
    for letters, shape in zip(operands.split(","), (left_shape, right_shape), strict=True):
        named = letters.removeprefix("...")
        first = len(shape) - len(named)
        if letters != named:
            batch = tuple(shape[:first])
        found.update(zip(named, shape[first:], strict=True))
    kept = result.removeprefix("...")
    result_shape = batch + tuple(found[letter] for letter in kept)
    summed = "".join(sorted(set(found) - set(kept)))
    return found, result_shape, summed
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Remove the spaces. Cut the equation at the arrow, then cut its left side at the comma. You now have three strings. Two
# of them belong to shapes.

# %% [markdown] tags=["hint"]
# Suppose an operand has k letters and its shape has n numbers. The letters belong to the last k numbers, and the dots
# stand for the first n − k. Walk along letters and numbers side by side, and put each pair into the dict.

# %% [markdown] tags=["hint"]
# The shape of the result is the numbers of the dots, followed by the size of each letter of the result, in the order of
# the result. The letters that are summed over are those in your dict that are not in the result: take the difference of
# two sets, sort it, and join it.
