"""Checks of `merge_heads`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

TRANSPOSE = "heads = np.transpose(array, (0, 2, 1, 3))"
RETURN = "return heads.reshape(batch, positions, num_heads * size)"


def draw(rng):
    """Draw pairwise different sizes: T ≠ H, and O ≠ H."""
    batch, heads, positions, size = sizes(rng, 4)
    return {"array": rng.normal(size=(batch, heads, positions, size))}


def judge_positions(inputs, result, expected):
    """Check that each position of the result depends on that position alone."""
    result, array = np.asarray(result), inputs["array"]
    if result.shape != expected.shape:
        return f"the shape is {result.shape}, expected {expected.shape}."
    for position in range(array.shape[2]):
        own = np.sort(array[:, :, position].reshape(len(array), -1), axis=-1)
        if not np.allclose(np.sort(result[:, position], axis=-1), own):
            return f"position {position} of the result does not hold the heads' results at position {position}."
    return None


EXERCISE = Exercise(
    title="Merge",
    question="Is merging the heads a reshape, and what do you merge? (seed 003, the merge as a reshape)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "a position keeps its own results", 2, draw, judge=judge_positions),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "merge-not-transposed",
            "You merged the heads without moving them behind the positions, so a query gets pieces of other queries. "
            "Exchange the two axes first.",
            {TRANSPOSE: "heads = array"},
            "jsbaan/transformer-from-scratch#6",
        ),
        Wrong(
            "merge-size-first",
            "You interleaved the heads: you merged as (O, H) instead of (H, O).",
            {TRANSPOSE: TRANSPOSE.replace("(0, 2, 1, 3)", "(0, 2, 3, 1)")},
        ),
        Wrong(
            "merge-heads-reversed",
            "You put the heads in the opposite order. Head 0 comes first.",
            {TRANSPOSE: TRANSPOSE.replace("array,", "array[:, ::-1],")},
        ),
        Wrong(
            "merge-averaged",
            "You averaged the heads instead of concatenating them.",
            {RETURN: "return array.mean(axis=1)"},
            "seed 003 speaks of a single score into which the heads are combined",
        ),
        Wrong(
            "merge-summed",
            "You summed the heads instead of concatenating them. Only the output projection, which comes later, sums "
            "over them.",
            {RETURN: "return array.sum(axis=1)"},
            "awf/functional-transformer#8",
        ),
        Wrong(
            "merge-largest",
            "You took the maximum over the heads instead of concatenating them.",
            {RETURN: "return array.max(axis=1)"},
            "broadinstitute/CellCap#40",
        ),
        Wrong(
            "merge-first-head-only",
            "You used the result of the first head for every head. Use each head's own.",
            {RETURN: "return np.tile(array[:, 0], num_heads)"},
        ),
        Wrong(
            "merge-along-positions",
            "You concatenated the heads along the positions, (B, H·T, O). Each position needs the features of all "
            "heads.",
            {RETURN: "return np.concatenate(list(np.swapaxes(array, 0, 1)), axis=1)"},
        ),
        Wrong(
            "merge-still-split",
            "You did not join the last two axes. The output projection expects H·O features.",
            {RETURN: "return heads"},
        ),
    ),
)
