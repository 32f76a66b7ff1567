"""What is checked of `merge_heads`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

TRANSPOSE = "heads = np.transpose(array, (0, 2, 1, 3))"
RETURN = "return heads.reshape(batch, positions, num_heads * size)"


def draw(rng):
    """Pairwise different sizes: T ≠ H, and O ≠ H."""
    batch, heads, positions, size = sizes(rng, 4)
    return {"array": rng.normal(size=(batch, heads, positions, size))}


def one_position_at_a_time(inputs, result, expected):
    """What a position gets hangs on that position alone."""
    result, array = np.asarray(result), inputs["array"]
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, expected {expected.shape}."
    for position in range(array.shape[2]):
        own = np.sort(array[:, :, position].reshape(len(array), -1), axis=-1)
        if not np.allclose(np.sort(result[:, position], axis=-1), own):
            return f"position {position} of the result does not hold what the heads have at position {position}."
    return None


EXERCISE = Exercise(
    title="Merge",
    question="Is merging the heads a reshape, and what is merged? (seed 003, the merge as a reshape)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "a position keeps its own results", 2, draw, judge=one_position_at_a_time),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "merge-not-transposed",
            "The heads are merged without transposing back: a query gets pieces of other queries.",
            {TRANSPOSE: "heads = array"},
            "jsbaan/transformer-from-scratch#6",
        ),
        Wrong(
            "merge-size-first",
            "The heads are interleaved: merged as (O, H) in place of (H, O).",
            {TRANSPOSE: TRANSPOSE.replace("(0, 2, 1, 3)", "(0, 2, 3, 1)")},
        ),
        Wrong(
            "merge-heads-reversed",
            "The heads are side by side in the opposite order: head 0 comes first.",
            {TRANSPOSE: TRANSPOSE.replace("array,", "array[:, ::-1],")},
        ),
        Wrong(
            "merge-averaged",
            "The heads are averaged in place of concatenated.",
            {RETURN: "return array.mean(axis=1)"},
            "seed 003 speaks of a single score into which the heads are combined",
        ),
        Wrong(
            "merge-summed",
            "The heads are summed in place of concatenated: only the output projection sums, after this.",
            {RETURN: "return array.sum(axis=1)"},
            "awf/functional-transformer#8",
        ),
        Wrong(
            "merge-largest",
            "The largest over the heads is taken in place of concatenating them.",
            {RETURN: "return array.max(axis=1)"},
            "broadinstitute/CellCap#40",
        ),
        Wrong(
            "merge-first-head-only",
            "Only the first head's result is used, in the place of every head's.",
            {RETURN: "return np.tile(array[:, 0], num_heads)"},
        ),
        Wrong(
            "merge-along-positions",
            "The heads are concatenated along the positions: (B, H·T, O). Each position should have all heads' "
            "features.",
            {RETURN: "return np.concatenate(list(np.swapaxes(array, 0, 1)), axis=1)"},
        ),
        Wrong(
            "merge-still-split",
            "The last two axes are not joined: the output projection expects H·O features.",
            {RETURN: "return heads"},
        ),
    ),
)
