# %% [markdown]
# # How large is every letter
#
# **The question.** The old Addons layer is written with equations such as `"...NI , HIO -> ...NHO"`. Reading them, a
# learner came to the conclusion that N, M and O are the same number. What do the letters stand for, and who decides
# how large each is?
#
# **The idea.** A letter names an axis. Its size is read off the shape of an operand, so an equation and two shapes say
# everything: the size of every letter, the shape of the result, and what is summed. Two letters may happen to have the
# same size in one call, as 64 positions and a head size of 64; they are two letters all the same, and in the next call
# they differ. A letter that is on the left of the arrow and not on its right is summed over; to be in both operands
# does not make it so. The dots stand for all the axes that have no letter: they are the first ones, there may be none,
# one or several, and they come out as they went in. Blanks mean nothing.
#
# **The shapes.** Each operand's letters belong to the *last* axes of its shape, in their order.
#
# **One line, worked.** `"...NI , HIO -> ...NHO"` with (32, 10, 512) and (8, 512, 64): N is 10, I is 512, H is 8, O is
# 64; the dots are (32,), so the result has the shape (32, 10, 8, 64), and "I" is summed over.

# %%


def letter_sizes(equation, left_shape, right_shape):
    """What an equation of `einsum` says about two shapes.

    Args:
        equation: such as "...NI , HIO -> ...NHO": two operands, an arrow, a result. Every letter stands once in an
            operand. "..." may be at the beginning of an operand, and is then at the beginning of the result too; where
            both operands have it, it stands for the same axes.
        left_shape: of the first operand, a tuple of integers.
        right_shape: of the second operand, a tuple of integers.

    Returns:
        Three things: a dict from every letter to its size; the result's shape, a tuple of integers; and the
        letters that are summed over, as one string in alphabetical order ("" where there are none).
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
# Take the blanks out and cut the equation at the arrow, then the left side at the comma. What is left are three
# strings, two of which belong to shapes.

# %% [markdown] tags=["hint"]
# An operand with k letters and a shape of n numbers: the letters belong to the last k numbers, and the first n − k are
# what the dots stand for. Walk through letters and numbers side by side and note each pair in the dict.

# %% [markdown] tags=["hint"]
# The result's shape is the dots' numbers, followed by the noted size of each letter of the result, in the result's
# order. Summed over are the noted letters that the result does not have: a difference of two sets, sorted and joined.
