"""What is checked of `transpose_qkv`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SPLIT = "x.reshape(batch, positions, num_heads, size)"
FOLD = "np.swapaxes(split, 1, 2).reshape(batch * num_heads, positions, size)"


def draw(rng):
    batch, positions, heads, size = sizes(rng, 4)
    return {"x": rng.normal(size=(batch, positions, heads * size)), "num_heads": heads}


def draw_one(rng):
    """One head: nothing is to be moved."""
    batch, positions, size = sizes(rng, 3)
    return {"x": rng.normal(size=(batch, positions, size)), "num_heads": 1}


def alone(answer, inputs):
    """With the features of one head of one item only."""
    x, heads = inputs["x"], inputs["num_heads"]
    size, item, head = x.shape[2] // heads, len(x) - 1, 1
    single = np.zeros_like(x)
    single[item, :, head * size : (head + 1) * size] = x[item, :, head * size : (head + 1) * size]
    return {"x": answer.transpose_qkv(x=single, num_heads=heads), "place": item * heads + head}


def apart(inputs, result, expected):
    used = np.any(np.asarray(result["x"]).reshape(len(result["x"]), -1) != 0, axis=1)
    if used.sum() != 1:
        return f"the features of one head of one item are spread over {int(used.sum())} items of the new batch."
    if int(np.argmax(used)) != int(expected["place"]):
        return "the features of one head of one item are together, and at the wrong place of the new batch."
    return None


EXERCISE = Exercise(
    title="The heads move into the batch",
    question="What does transpose_qkv do, and why not with one reshape? (seed 001, a textbook's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("invariants", "the features of one head stay together", 2, draw, alone, apart),
        Check("edge", "one head", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "The heads are split by a reshape without a transpose: a head gets neighbouring positions' numbers.",
            {FOLD: "split.reshape(batch * num_heads, positions, size)"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-size-first",
            "The features are split as (O, H): a head gets every H-th feature.",
            {
                SPLIT: "x.reshape(batch, positions, size, num_heads)",
                FOLD: "split.transpose(0, 3, 1, 2).reshape(batch * num_heads, positions, size)",
            },
        ),
        Wrong(
            "heads-before-batch",
            "The heads come before the batch: item b's head h is at h·B + b, and a mask that is repeated per item no "
            "longer fits.",
            {FOLD: "split.transpose(2, 0, 1, 3).reshape(batch * num_heads, positions, size)"},
            "lsdefine/attention-is-all-you-need-keras#36",
        ),
        Wrong(
            "positions-in-batch",
            "The positions are put together with the batch in place of the heads: then the heads attend to each other.",
            {FOLD: "split.reshape(batch * positions, num_heads, size)"},
        ),
        Wrong(
            "heads-not-in-batch",
            "Batch and heads are still two axes: the last reshape is missing.",
            {FOLD: "np.swapaxes(split, 1, 2)"},
        ),
        Wrong(
            "heads-in-the-third-place",
            "The array is only cut, (B, P, H, O): the heads must come before the positions, and into the batch.",
            {FOLD: "split"},
        ),
        Wrong(
            "positions-last",
            "The positions come last, (B·H, O, P): each row must be a position.",
            {FOLD: "split.transpose(0, 2, 3, 1).reshape(batch * num_heads, size, positions)"},
        ),
        Wrong(
            "last-axes-exchanged",
            "The last reshape writes (B·H, O, P): the numbers are in their order, and the brackets wrong.",
            {FOLD: "np.swapaxes(split, 1, 2).reshape(batch * num_heads, size, positions)"},
        ),
        Wrong(
            "input-split-in-the-batch",
            "The features are cut, and the pieces laid one after the other along the positions: (B, H·P, O). Each head "
            "must be an item of its own.",
            {FOLD: "np.swapaxes(split, 1, 2).reshape(batch, num_heads * positions, size)"},
        ),
    ),
)
