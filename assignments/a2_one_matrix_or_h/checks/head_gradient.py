"""What is checked of `head_gradient`: against the solution, and against differences of the loss."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SUMS = 'sums = np.einsum("BTHO,BTHO->BH", mixed, of_mixed)'
RESULT = "return np.mean(np.abs(sums), axis=0)"
OUTPUT = "of_output = 2 * (output - target) / target[0].size"


def draw(rng):
    """The first example's output is too large and all others' too small, so that the heads' sums differ in sign."""
    batch, rows, heads, size, width = sizes(rng, 5)
    mixed = rng.normal(size=(batch, rows, heads, size)) * rng.uniform(0.3, 3, size=(heads, 1))
    kernel = rng.normal(size=(heads, size, width))
    share = np.append(0.8, rng.uniform(1.5, 2.5, size=batch - 1))[:, None, None]
    target = share * np.einsum("BTHO,HOE->BTE", mixed, kernel) + 0.3 * rng.normal(size=(batch, rows, width))
    return {"mixed": mixed, "output_kernel": kernel, "target": target}


def draw_right(rng):
    """The output is the target already: nothing would make the loss smaller."""
    found = draw(rng)
    return {**found, "target": np.einsum("BTHO,HOE->BTE", found["mixed"], found["output_kernel"])}


def losses(inputs, factors):
    output = np.einsum("BTHO,H,HOE->BTE", inputs["mixed"], factors, inputs["output_kernel"])
    return np.mean(np.square(output - inputs["target"]), axis=(1, 2))


def differences(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    heads, step = len(expected), 1e-4
    for head in range(heads):
        one = np.eye(heads)[head] * step
        change = np.abs(losses(inputs, 1 + one) - losses(inputs, 1 - one)).mean() / (2 * step)
        if not abs(change - result[head]) <= 1e-5 * np.abs(expected).max():
            return f"a small change of the factor before head {head} changes the losses by something else than this."
    return None


def zero(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return (
        None
        if np.abs(result).max() < 1e-9
        else "the output is the target, every gradient is 0, and the importance is not."
    )


EXERCISE = Exercise(
    title="How much does a head matter: by its gradient",
    question="How does one measure a head, if not by a softmax over the outputs? (seed 001, exercise 2; Michel et "
    "al. 2019, section 4.1)",
    difficulty=3,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("gradient", "it says how a factor before a head changes the losses", 2, draw, judge=differences),
        Check("edge", "where the output is the target, no head matters", 1, draw_right, judge=zero),
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
            "absolute-of-every-element",
            "The absolute value is taken of every element, before the sum: what one position takes away "
            "another may give "
            "back, and only the sum is the derivative.",
            {SUMS: 'sums = np.einsum("BTHO->BH", np.abs(mixed * of_mixed))'},
        ),
        Wrong(
            "absolute-after-the-mean",
            "The absolute value is taken after the mean over the batch: examples that a head helps and harms cancel.",
            {RESULT: "return np.abs(np.mean(sums, axis=0))"},
        ),
        Wrong(
            "absolute-missing",
            "The sums are averaged with their signs: examples that a head helps and harms cancel.",
            {RESULT: "return np.mean(sums, axis=0)"},
        ),
        Wrong(
            "gradient-alone",
            "The gradient is summed without the head's output as a factor: that says how sensitive the loss "
            "is, and not "
            "how much this head uses it.",
            {SUMS: 'sums = np.einsum("BTHO->BH", of_mixed)'},
        ),
        Wrong(
            "output-alone",
            "The head's output is summed without the gradient: the loss is not in it at all.",
            {SUMS: 'sums = np.einsum("BTHO->BH", mixed)'},
        ),
        Wrong(
            "loss-of-the-whole-batch",
            "The loss is averaged over the whole batch: each example has its own loss, or the numbers get smaller with "
            "every example more.",
            {OUTPUT: OUTPUT.replace("target[0].size", "target.size")},
        ),
        Wrong(
            "loss-summed",
            "The loss is a sum: asked for is the mean over the elements of an example.",
            {OUTPUT: OUTPUT.replace(" / target[0].size", "")},
        ),
        Wrong(
            "factor-two-missing",
            "The derivative of a square is taken for the difference itself: a factor is missing.",
            {OUTPUT: OUTPUT.replace("2 * ", "")},
        ),
        Wrong(
            "normalised-over-heads",
            "The importance is divided by its sum over the heads: shares are not what is asked for.",
            {RESULT: "found = np.mean(np.abs(sums), axis=0)\n    return found / np.maximum(found.sum(), 1e-30)"},
        ),
    ),
)
