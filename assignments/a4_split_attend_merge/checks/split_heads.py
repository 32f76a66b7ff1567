"""Checks of `split_heads`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RESHAPE = "array.reshape(batch, positions, num_heads, width // num_heads)"
RETURN = "return np.transpose(heads, (0, 2, 1, 3))"


def draw(rng):
    """Draw pairwise different sizes: T ≠ H, and O ≠ H."""
    batch, positions, heads, size = sizes(rng, 4)
    return {"array": rng.normal(size=(batch, positions, heads * size)), "num_heads": heads}


def judge_positions(inputs, result, expected):
    """Check that each position of the result depends on that position alone."""
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
        Check("invariants", "a position keeps its own features", 2, draw, judge=judge_positions),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "You split the heads with a reshape but no transpose, which mixes positions and features. Cut the last "
            "axis first, then exchange heads and positions.",
            {RETURN: "return heads.reshape(batch, num_heads, positions, -1)"},
            "reczoo/FuxiCTR#30; seed 003 calls both steps a reshape",
        ),
        Wrong(
            "heads-size-first",
            "You cut the features as (O, H), so a head gets every H-th feature. Cut them as (H, O).",
            {
                RESHAPE: "array.reshape(batch, positions, width // num_heads, num_heads)",
                RETURN: "return np.transpose(heads, (0, 3, 1, 2))",
            },
        ),
        Wrong(
            "heads-attend-to-heads",
            "You did not move the heads in front of the positions. The next product would compare the heads of one "
            "position with each other.",
            {RETURN: "return heads"},
        ),
        Wrong(
            "all-axes-reversed",
            "You reversed all axes, as `.T` does with four axes. Exchange only heads and positions.",
            {RETURN: "return heads.T"},
        ),
        Wrong(
            "size-before-positions",
            "You exchanged the last two axes as well, (B, H, O, T). The key needs that later, in the product; the "
            "split does not.",
            {RETURN: "return np.transpose(heads, (0, 2, 3, 1))"},
        ),
        Wrong(
            "heads-first",
            "You put the heads before the batch, (H, B, T, O). The batch stays first.",
            {RETURN: "return np.transpose(heads, (2, 0, 1, 3))"},
            "np.stack(np.split(array, H, axis=-1))",
        ),
        Wrong(
            "heads-in-batch",
            "You folded the heads into the batch, (B·H, T, O). Some code does that, but here H has an axis of its own.",
            {RETURN: "return np.transpose(heads, (0, 2, 1, 3)).reshape(batch * num_heads, positions, -1)"},
            "seed 001: transpose_qkv",
        ),
        Wrong(
            "split-by-size",
            "You exchanged the number of heads and the head size. `num_heads` is H, the number of pieces.",
            {
                RESHAPE: "array.reshape(batch, positions, width // num_heads, num_heads)",
            },
        ),
        Wrong(
            "features-repeated",
            "You gave every head all features. Each head gets a part of them, H·O / H = O features.",
            {RETURN: "return np.repeat(array[:, None], num_heads, axis=1)"},
            "seed 003, on sections of the embedding",
        ),
    ),
)
