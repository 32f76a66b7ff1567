"""What is checked of `head_ablation`, and what is taken for a head's importance."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COPY = "without = mixed.copy()"
ZERO = "without[:, :, head] = 0"
RISE = "rises.append(loss(without) - loss(mixed))"
RESULT = "return np.array(rises)"
LOSS = "return np.mean(np.square(output - target))"


def draw(rng):
    """Heads that matter to a different degree; outputs near the target."""
    batch, rows, heads, size, width = sizes(rng, 5)
    mixed = rng.normal(size=(batch, rows, heads, size)) * rng.uniform(0.3, 3, size=(heads, 1))
    kernel = rng.normal(size=(heads, size, width)) * rng.uniform(0.3, 2, size=(heads, 1, 1))
    target = np.einsum("BTHO,HOE->BTE", mixed, kernel) + rng.normal(size=(batch, rows, width))
    return {"mixed": mixed, "output_kernel": kernel, "target": target}


def draw_silent(rng):
    """One head has large numbers, and an output kernel of zeros."""
    found = draw(rng)
    found["mixed"][:, :, 0] *= 10
    found["output_kernel"][0] = 0
    return {**found, "target": found["target"] * 0.5}


def silent(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    if not abs(float(result[0])) <= 1e-9:
        return "a head whose output kernel is zero is given an importance: nothing of it reaches the output."
    return None


EXERCISE = Exercise(
    title="How much does a head matter: without it",
    question="Does a softmax over the outputs measure how much a head matters? (seed 001, exercise 2)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check("invariants", "a head that does not reach the output has the importance 0", 2, draw_silent, judge=silent),
    ),
    wrong=(
        Wrong(
            "softmax-over-outputs",
            "A softmax is taken over the heads' outputs: it says which numbers are large, not which are needed.",
            {
                RESULT: "powers = np.exp(mixed - mixed.max(axis=2, keepdims=True))\n"
                "    return np.mean(powers / powers.sum(axis=2, keepdims=True), axis=(0, 1, 3))"
            },
            "seed 001",
        ),
        Wrong(
            "size-of-output",
            "The size of a head's output is taken for its importance: the output kernel may turn it into nothing.",
            {RESULT: "return np.sqrt(np.mean(np.square(mixed), axis=(0, 1, 3)))"},
            "seed 001",
        ),
        Wrong(
            "heads-left-out-together",
            "The heads are left out one after the other, and stay out: each is to be left out alone.",
            {
                "rises = []": "rises, without = [], mixed.copy()",
                "        " + COPY + "\n": "",
            },
        ),
        Wrong(
            "input-changed",
            "Heads are set to zero in the array that was given: its owner finds zeros in it, and so does the "
            "next loss.",
            {COPY: "without = mixed"},
        ),
        Wrong(
            "input-changed-in-turn",
            "Heads are set to zero in the array that was given, and stay so: each is to be left out alone, in a copy.",
            {
                "rises = []": "rises, whole = [], loss(mixed)",
                COPY: "without = mixed",
                RISE: RISE.replace("loss(mixed)", "whole"),
            },
        ),
        Wrong(
            "sign-exchanged",
            "The difference is the wrong way round: a head that is needed gets a negative importance.",
            {RISE: "rises.append(loss(mixed) - loss(without))"},
        ),
        Wrong(
            "loss-not-compared",
            "The loss without a head is returned, and not by how much it is larger than that with all heads.",
            {RISE: "rises.append(loss(without))"},
        ),
        Wrong(
            "only-that-head",
            "All heads but one are left out: that says how well a head does alone.",
            {COPY: "without = np.zeros_like(mixed)", ZERO: "without[:, :, head] = mixed[:, :, head]"},
        ),
        Wrong(
            "feature-left-out",
            "A feature of all heads is left out in place of a head: the head axis is the third.",
            {ZERO: "without[..., head % mixed.shape[3]] = 0"},
        ),
        Wrong(
            "loss-summed",
            "The loss is a sum: asked for is the mean over all elements.",
            {LOSS: LOSS.replace("np.mean", "np.sum")},
        ),
        Wrong(
            "head-averaged-out",
            "The head is replaced by its average over the positions: asked for is zero in its place.",
            {ZERO: "without[:, :, head] = mixed[:, :, head].mean(axis=1, keepdims=True)"},
        ),
    ),
)
