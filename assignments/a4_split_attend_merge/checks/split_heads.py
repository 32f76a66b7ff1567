"""What is checked of `split_heads`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RESHAPE = "array.reshape(batch, positions, num_heads, width // num_heads)"
RETURN = "return np.transpose(heads, (0, 2, 1, 3))"


def draw(rng):
    """Pairwise different sizes: T ≠ H, and O ≠ H."""
    batch, positions, heads, size = sizes(rng, 4)
    return {"array": rng.normal(size=(batch, positions, heads * size)), "num_heads": heads}


def one_position_at_a_time(inputs, result, expected):
    """What a position gets hangs on that position alone."""
    result, array = np.asarray(result), inputs["array"]
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, expected {expected.shape}."
    for position in range(array.shape[1]):
        got = np.sort(result[:, :, position].reshape(len(array), -1), axis=-1)
        if not np.allclose(got, np.sort(array[:, position], axis=-1)):
            return (
                f"position {position} of the result does not hold the features of position {position}, over all heads."
            )
    return None


EXERCISE = Exercise(
    title="Split",
    question="Why is a reshape not enough to split the heads? (seed 003: reshaped, then reshaped again by swapping)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "a position keeps its own features", 2, draw, judge=one_position_at_a_time),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "The heads are split by a reshape without a transpose: positions and features are mixed.",
            {RETURN: "return heads.reshape(batch, num_heads, positions, -1)"},
            "reczoo/FuxiCTR#30; seed 003 calls both steps a reshape",
        ),
        Wrong(
            "heads-size-first",
            "The features are cut as (O, H) in place of (H, O): a head gets every H-th feature.",
            {
                RESHAPE: "array.reshape(batch, positions, width // num_heads, num_heads)",
                RETURN: "return np.transpose(heads, (0, 3, 1, 2))",
            },
        ),
        Wrong(
            "heads-attend-to-heads",
            "The heads are not moved before the positions: the next product would compare the heads of one position "
            "with each other.",
            {RETURN: "return heads"},
        ),
        Wrong(
            "all-axes-reversed",
            "All axes are reversed: `.T` of an array with four axes does that. Only heads and positions change places.",
            {RETURN: "return heads.T"},
        ),
        Wrong(
            "size-before-positions",
            "The last two axes are exchanged: (B, H, O, T). That is what the key needs in the product, not the split.",
            {RETURN: "return np.transpose(heads, (0, 2, 3, 1))"},
        ),
        Wrong(
            "heads-first",
            "The heads are before the batch: (H, B, T, O).",
            {RETURN: "return np.transpose(heads, (2, 0, 1, 3))"},
            "np.stack(np.split(array, H, axis=-1))",
        ),
        Wrong(
            "heads-in-batch",
            "The heads are folded into the batch: (B·H, T, O). Some code goes on like that; here H has an axis of its "
            "own.",
            {RETURN: "return np.transpose(heads, (0, 2, 1, 3)).reshape(batch * num_heads, positions, -1)"},
            "seed 001: transpose_qkv",
        ),
        Wrong(
            "split-by-size",
            "There are as many heads as features in a head, and the other way round: H is the number that is given.",
            {
                RESHAPE: "array.reshape(batch, positions, width // num_heads, num_heads)",
            },
        ),
    ),
)
