"""Checks of `transpose_output`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

APART = "x.reshape(batch, num_heads, positions, size)"
JOIN = "np.swapaxes(apart, 1, 2).reshape(batch, positions, num_heads * size)"


def draw(rng):
    batch, positions, heads, size = sizes(rng, 4)
    return {"x": rng.normal(size=(batch * heads, positions, size)), "num_heads": heads}


def draw_one(rng):
    """Draw one sentence with one position: its heads stand side by side."""
    heads, size = sizes(rng, 2)
    return {"x": rng.normal(size=(heads, 1, size)), "num_heads": heads}


def one_position(answer, inputs):
    """Transpose an input in which only one position of the last item is not zero, in all heads."""
    x, heads = inputs["x"], inputs["num_heads"]
    single = np.zeros_like(x)
    single[-heads:, 1] = x[-heads:, 1]
    return answer.transpose_output(x=single, num_heads=heads)


def judge_one_position(inputs, result, expected):
    used = np.argwhere(np.any(np.asarray(result) != 0, axis=-1))
    if len(used) != 1:
        return f"the features of one position are spread over {len(used)} positions."
    if tuple(used[0]) != tuple(np.argwhere(np.abs(expected).max(axis=-1) > 0)[0]):
        return "the features of one position stay together, but at another position or item."
    return None


EXERCISE = Exercise(
    title="And back: the heads side by side",
    question="What does transpose_output do? (seed 001, a textbook forum)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("invariants", "a position stays one position", 2, draw, one_position, judge_one_position),
        Check("edge", "one sentence with one position", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "merge-not-transposed",
            "You merged the heads without moving them behind the positions, so a position gets pieces of other "
            "positions. Exchange the two axes before the last reshape.",
            {JOIN: "apart.reshape(batch, positions, num_heads * size)"},
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4",
        ),
        Wrong(
            "merge-size-first",
            "You interleaved the heads, (O, H). The features of one head must stand side by side.",
            {JOIN: "apart.transpose(0, 2, 3, 1).reshape(batch, positions, num_heads * size)"},
        ),
        Wrong(
            "merge-batch-exchanged",
            "You exchanged batch and heads: you read (B·H) as (H·B), which mixes the sentences.",
            {APART: "np.swapaxes(x.reshape(num_heads, batch, positions, size), 0, 1)"},
            "gazelle93/Transformer-Various-Positional-Encoding#1",
        ),
        Wrong(
            "merge-averaged",
            "You averaged the heads. Put them side by side.",
            {JOIN: "apart.mean(axis=1)"},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-summed",
            "You summed the heads. Put them side by side.",
            {JOIN: "apart.sum(axis=1)"},
            "awf/functional-transformer#8",
        ),
        Wrong(
            "merge-heads-reversed",
            "You put the heads in the opposite order. The features of head 0 come first.",
            {JOIN: JOIN.replace("apart,", "apart[:, ::-1],")},
        ),
        Wrong(
            "merge-positions-first",
            "You put the positions before the batch, (P, B, H·O). The result is (B, P, H·O).",
            {JOIN: "apart.transpose(2, 0, 1, 3).reshape(positions, batch, num_heads * size)"},
        ),
        Wrong(
            "merge-not-joined",
            "You left heads and head size as two axes. The last reshape is missing.",
            {JOIN: "np.swapaxes(apart, 1, 2)"},
        ),
        Wrong(
            "merge-split-again",
            "You only separated batch and heads, (B, H, P, O). Two steps are missing: move the heads, then join them.",
            {JOIN: "apart"},
        ),
    ),
)
