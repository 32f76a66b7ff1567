# %% [markdown]
# # What `.contiguous()` is for
#
# **The question.** The article's code merges the heads with `A.permute(0, 2, 1, 3).contiguous()`, and then `A.view(…)`.
# Why is there a `.contiguous()` between them? Without it, torch refuses the view. NumPy never asks for one. Look at the
# numbers in memory and see what is different.
#
# **The idea.** An array is one row of numbers in memory, plus a shape and its *strides*: how many numbers to skip for
# one step along each axis. A (2, 3) array that has just been computed has the strides (3, 1): three numbers to the next
# row, one to the next column. Such an array, whose last axis moves by 1 and each axis before it by as much as all later
# ones hold, is *contiguous*.
#
# A transpose moves nothing. It exchanges the shape's entries and, with them, the strides. The result shares its memory
# with the original, but it is not contiguous any more. Two neighbouring axes can be joined without moving anything only
# if a step along the first skips exactly all of the second: stride of the first = size of the second · stride of the
# second. After the transpose, heads and features do not satisfy this. So the numbers have to be copied into their new
# order, and that is what `.contiguous()` does. `view` never copies: it raises an error. `reshape`, in NumPy and in torch,
# copies if it has to, and does not tell you.
#
# **The shapes.** The mixed values are (B, H, T, O); moved, they are (B, T, H, O); merged, (B, T, H·O). B sentences, H
# heads, T positions, O features in each head. NumPy counts strides in bytes. Here they are counted in numbers.
#
# **Worked example.** The article's A is (3, 4, 6, 2), with the strides (48, 12, 2, 1). Moved, it is (3, 6, 4, 2) with
# the strides (48, 2, 12, 1). To join the last two axes without a copy, 12 would have to be 2 · 1. A copy has the strides
# (48, 8, 2, 1). Now 2 = 2 · 1, so joining them is a view, (3, 6, 8), with the strides (48, 8, 1).

# %%
import numpy as np


def contiguous_merge(mixed):
    """Merge the heads in three steps, and say what each step does to the memory.

    Args:
        mixed: Mixed values, (B, H, T, O). They may have any strides, also negative ones and 0. No axis has the
            size 1.

    Returns:
        A dict:
        "mixed", "moved", "copied" and "merged": for each of the four arrays a tuple of its strides, in numbers. `moved`
        is `mixed` with heads and positions exchanged; `copied` is `moved` laid out contiguously, and is `moved` itself
        if that is contiguous already; `merged` is `copied` as (B, T, H·O);
        "joins": whether the last two axes of `moved` can be joined without a copy, by the rule above, a boolean;
        "shares": whether `moved`, `copied` and `merged` each share their memory with `mixed`, a tuple of three booleans;
        "result": the array `merged` itself.
    """
    ### BEGIN SOLUTION
    moved = np.swapaxes(mixed, 1, 2)
    copied = np.ascontiguousarray(moved)
    merged = copied.reshape(*copied.shape[:2], -1)
    arrays = {"mixed": mixed, "moved": moved, "copied": copied, "merged": merged}
    strides = {name: tuple(stride // array.itemsize for stride in array.strides) for name, array in arrays.items()}
    return {
        **strides,
        "joins": strides["moved"][2] == moved.shape[3] * strides["moved"][3],
        "shares": tuple(np.shares_memory(mixed, array) for array in (moved, copied, merged)),
        "result": merged,
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Make the three arrays first, each from the one before it. NumPy has a function for each step: `np.swapaxes`,
# `np.ascontiguousarray` and `reshape`. `np.copy` is not the second one: it keeps the order that it finds in memory.

# %% [markdown] tags=["hint"]
# `array.strides` is in bytes, and `array.itemsize` says how many bytes one number takes: 8 for float64, 4 for float32.
# `np.shares_memory(one, other)` compares the memory of two arrays.

# %% [markdown] tags=["hint"]
# The rule is about the strides of `moved`: that of axis 2, that of axis 3, and the size of axis 3. The inputs may
# already lie in memory in such a way that `moved` is contiguous. Then the rule holds and nothing is copied, so do not
# return fixed answers.
