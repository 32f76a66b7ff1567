"""Checks of `transpose_qkv`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SPLIT = "x.reshape(batch, positions, num_heads, size)"
FOLD = "np.swapaxes(split, 1, 2).reshape(batch * num_heads, positions, size)"


def draw(rng):
    batch, positions, heads, size = sizes(rng, 4)
    return {"x": rng.normal(size=(batch, positions, heads * size)), "num_heads": heads}


def draw_one(rng):
    """Draw a single head: nothing needs to move."""
    batch, positions, size = sizes(rng, 3)
    return {"x": rng.normal(size=(batch, positions, size)), "num_heads": 1}


def one_head(answer, inputs):
    """Transpose an input in which all features are zero except those of one head of one item."""
    x, heads = inputs["x"], inputs["num_heads"]
    size, item, head = x.shape[2] // heads, len(x) - 1, 1
    single = np.zeros_like(x)
    single[item, :, head * size : (head + 1) * size] = x[item, :, head * size : (head + 1) * size]
    return {"x": answer.transpose_qkv(x=single, num_heads=heads), "place": item * heads + head}


def judge_one_head(inputs, result, expected):
    if len(result["x"]) != len(expected["x"]):
        return f"the new batch has {len(result['x'])} items, expected {len(expected['x'])}: one for each head of each item."
    used = np.any(np.asarray(result["x"]).reshape(len(result["x"]), -1) != 0, axis=1)
    if used.sum() != 1:
        return f"the features of one head of one item are spread over {int(used.sum())} items of the new batch."
    if int(np.argmax(used)) != int(expected["place"]):
        return "the features of one head of one item stay together, but at the wrong place of the new batch."
    return None


EXERCISE = Exercise(
    title="The heads move into the batch",
    question="What does transpose_qkv do, and why is one reshape not enough? (seed 001, a textbook forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("invariants", "the features of one head stay together", 2, draw, one_head, judge_one_head),
        Check("edge", "one head", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "You split the heads with a reshape but no transpose, so a head gets the numbers of neighbouring "
            "positions. Move the head axis in front of the positions before the last reshape.",
            {FOLD: "split.reshape(batch * num_heads, positions, size)"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-size-first",
            "You split the features as (O, H), so a head gets every H-th feature. A head is O neighbouring features: "
            "split as (H, O).",
            {
                SPLIT: "x.reshape(batch, positions, size, num_heads)",
                FOLD: "split.transpose(0, 3, 1, 2).reshape(batch * num_heads, positions, size)",
            },
        ),
        Wrong(
            "heads-before-batch",
            "You put the heads before the batch: head h of item b is at h·B + b. A mask that is repeated for each "
            "item no longer fits. Put head h of item b at b·H + h.",
            {FOLD: "split.transpose(2, 0, 1, 3).reshape(batch * num_heads, positions, size)"},
            "lsdefine/attention-is-all-you-need-keras#36",
        ),
        Wrong(
            "positions-in-batch",
            "You joined the batch with the positions instead of the heads. Then the heads would attend to each other.",
            {FOLD: "split.reshape(batch * positions, num_heads, size)"},
        ),
        Wrong(
            "heads-not-in-batch",
            "You left batch and heads as two axes. The last reshape is missing.",
            {FOLD: "np.swapaxes(split, 1, 2)"},
        ),
        Wrong(
            "heads-in-the-third-place",
            "You only cut the array, into (B, P, H, O). The heads must still move in front of the positions, and into "
            "the batch.",
            {FOLD: "split"},
        ),
        Wrong(
            "positions-last",
            "You put the positions last, (B·H, O, P). Each row must be a position.",
            {FOLD: "split.transpose(0, 2, 3, 1).reshape(batch * num_heads, size, positions)"},
        ),
        Wrong(
            "last-axes-exchanged",
            "You wrote (B·H, O, P) in the last reshape. The numbers are in the right order, but the brackets are "
            "wrong.",
            {FOLD: "np.swapaxes(split, 1, 2).reshape(batch * num_heads, size, positions)"},
        ),
        Wrong(
            "input-split-in-the-batch",
            "You cut the features and laid the pieces one after the other along the positions, (B, H·P, O). Each head "
            "must be an item of its own.",
            {FOLD: "np.swapaxes(split, 1, 2).reshape(batch, num_heads * positions, size)"},
        ),
    ),
)
