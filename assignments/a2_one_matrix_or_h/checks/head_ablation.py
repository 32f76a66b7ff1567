"""Checks of `head_ablation`, and what people mistake for the importance of a head."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COPY = "without = mixed.copy()"
ZERO = "without[:, :, head] = 0"
RISE = "rises.append(loss(without) - loss(mixed))"
RESULT = "return np.array(rises)"
LOSS = "return np.mean(np.square(output - target))"


def draw(rng):
    """Draw heads that matter to different degrees, and one that turns the output away from the target."""
    batch, rows, heads, size, width = sizes(rng, 5)
    mixed = rng.normal(size=(batch, rows, heads, size)) * rng.uniform(0.3, 3, size=(heads, 1))
    kernel = rng.normal(size=(heads, size, width)) * rng.uniform(0.3, 2, size=(heads, 1, 1))
    parts = np.einsum("BTHO,HOE->HBTE", mixed, kernel)
    target = parts.sum(axis=0) - 2 * parts[rng.integers(heads)] + rng.normal(size=(batch, rows, width))
    return {"mixed": mixed, "output_kernel": kernel, "target": target}


def draw_silent(rng):
    """Draw one head with large numbers and an output kernel of zeros."""
    found = draw(rng)
    found["mixed"][:, :, 0] *= 10
    found["output_kernel"][0] = 0
    return {**found, "target": found["target"] * 0.5}


def judge_silent(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    if not abs(float(result[0])) <= 1e-9:
        return "a head whose output kernel is zero has an importance other than 0, although nothing of it reaches the output."
    return None


EXERCISE = Exercise(
    title="How much does a head matter? Leave it out",
    question="Does a softmax over the outputs measure how much a head matters? (seed 001, exercise 2)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check(
            "invariants", "a head that does not reach the output has importance 0", 2, draw_silent, judge=judge_silent
        ),
    ),
    wrong=(
        Wrong(
            "softmax-over-outputs",
            "You took a softmax over the outputs of the heads. It says which numbers are large, not which heads are "
            "needed. Leave each head out and compare the losses.",
            {
                RESULT: "powers = np.exp(mixed - mixed.max(axis=2, keepdims=True))\n"
                "    return np.mean(powers / powers.sum(axis=2, keepdims=True), axis=(0, 1, 3))"
            },
            "seed 001",
        ),
        Wrong(
            "size-of-output",
            "You took the size of a head's output for its importance. The output kernel may turn a large output into "
            "nothing. Leave each head out and compare the losses.",
            {RESULT: "return np.sqrt(np.mean(np.square(mixed), axis=(0, 1, 3)))"},
            "seed 001",
        ),
        Wrong(
            "heads-left-out-together",
            "You left the heads out one after the other and never put them back. Leave out each head alone.",
            {
                "rises = []": "rises, without = [], mixed.copy()",
                "        " + COPY + "\n": "",
            },
        ),
        Wrong(
            "input-changed",
            "You set heads to zero in the array that you were given. Its owner now finds zeros in it, and so does the "
            "next loss. Work on a copy.",
            {COPY: "without = mixed"},
        ),
        Wrong(
            "input-changed-in-turn",
            "You set heads to zero in the array that you were given, and they stay zero. Leave out each head alone, "
            "in a copy.",
            {
                "rises = []": "rises, whole = [], loss(mixed)",
                COPY: "without = mixed",
                RISE: RISE.replace("loss(mixed)", "whole"),
            },
        ),
        Wrong(
            "sign-exchanged",
            "You took the difference the wrong way round: a head that is needed gets a negative importance.",
            {RISE: "rises.append(loss(mixed) - loss(without))"},
        ),
        Wrong(
            "loss-not-compared",
            "You returned the loss without each head. Subtract the loss with all heads.",
            {RISE: "rises.append(loss(without))"},
        ),
        Wrong(
            "only-that-head",
            "You left out all heads but one. That says how well a head does alone. Leave out one head and keep the "
            "others.",
            {COPY: "without = np.zeros_like(mixed)", ZERO: "without[:, :, head] = mixed[:, :, head]"},
        ),
        Wrong(
            "feature-left-out",
            "You left out one feature of all heads instead of one head. The head axis is the third.",
            {ZERO: "without[..., head % mixed.shape[3]] = 0"},
        ),
        Wrong(
            "position-left-out",
            "You left out one position of all heads instead of one head. The head axis is the third.",
            {ZERO: "without[:, head % mixed.shape[1]] = 0"},
        ),
        Wrong(
            "loss-summed",
            "You summed the squared differences. The loss is their mean over all elements.",
            {LOSS: LOSS.replace("np.mean", "np.sum")},
        ),
        Wrong(
            "head-averaged-out",
            "You replaced the head by its average over the positions. Replace it by zero.",
            {ZERO: "without[:, :, head] = mixed[:, :, head].mean(axis=1, keepdims=True)"},
        ),
        Wrong(
            "rise-without-sign",
            "You return how much the loss changes, without its sign. If the loss falls without a head, its importance "
            "is negative.",
            {RISE: "rises.append(abs(loss(without) - loss(mixed)))"},
        ),
        Wrong(
            "negative-is-zero",
            "You return 0 for a head without which the loss falls. Its importance is negative.",
            {RISE: "rises.append(max(loss(without) - loss(mixed), 0.0))"},
        ),
        Wrong(
            "loss-of-absolutes",
            "Your loss is the mean of the absolute differences. It is the mean of their squares.",
            {LOSS: "return np.mean(np.abs(output - target))"},
        ),
        Wrong(
            "loss-rooted",
            "You took the root of the mean square. The loss is the mean of the squares itself.",
            {LOSS: "return np.sqrt(np.mean(np.square(output - target)))"},
        ),
        Wrong(
            "loss-divided",
            "You divided the two losses. The importance is how much the loss rises: their difference.",
            {RISE: RISE.replace(" - ", " / ")},
        ),
        Wrong(
            "outputs-averaged",
            "You averaged the heads in the output. It is their sum.",
            {LOSS: LOSS.replace("output - target", "output / mixed.shape[2] - target")},
        ),
    ),
)
