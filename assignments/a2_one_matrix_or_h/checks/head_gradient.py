"""Checks of `head_gradient`, against the solution and against finite differences of the loss."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SUMS = 'sums = np.einsum("BTHO,BTHO->BH", mixed, of_mixed)'
RESULT = "return np.mean(np.abs(sums), axis=0)"
OUTPUT = "of_output = 2 * (output - target) / target[0].size"


def draw(rng):
    """Draw heads whose sums differ in sign: the first example's output is too large, and all others' are too small."""
    batch, rows, heads, size, width = sizes(rng, 5)
    mixed = rng.normal(size=(batch, rows, heads, size)) * rng.uniform(0.3, 3, size=(heads, 1))
    kernel = rng.normal(size=(heads, size, width))
    share = np.append(0.8, rng.uniform(1.5, 2.5, size=batch - 1))[:, None, None]
    target = share * np.einsum("BTHO,HOE->BTE", mixed, kernel) + 0.3 * rng.normal(size=(batch, rows, width))
    return {"mixed": mixed, "output_kernel": kernel, "target": target}


def draw_right(rng):
    """Draw a target that equals the output, so that nothing would make the loss smaller."""
    found = draw(rng)
    return {**found, "target": np.einsum("BTHO,HOE->BTE", found["mixed"], found["output_kernel"])}


def losses(inputs, factors):
    output = np.einsum("BTHO,H,HOE->BTE", inputs["mixed"], factors, inputs["output_kernel"])
    return np.mean(np.square(output - inputs["target"]), axis=(1, 2))


def judge_differences(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    heads, step = len(expected), 1e-4
    for head in range(heads):
        one = np.eye(heads)[head] * step
        change = np.abs(losses(inputs, 1 + one) - losses(inputs, 1 - one)).mean() / (2 * step)
        if not abs(change - result[head]) <= 1e-5 * np.abs(expected).max():
            return f"a small change of the factor before head {head} does not change the losses by as much as you returned."
    return None


def judge_zero(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return (
        None
        if np.abs(result).max() < 1e-9
        else "the output is the target and every gradient is 0, but the importance is not."
    )


EXERCISE = Exercise(
    title="How much does a head matter? Ask its gradient",
    question="How can you measure a head, if not with a softmax over the outputs? (seed 001, exercise 2; Michel et "
    "al. 2019, section 4.1)",
    difficulty=3,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check(
            "gradient", "it predicts how a factor before a head changes the losses", 2, draw, judge=judge_differences
        ),
        Check("edge", "if the output is the target, no head matters", 1, draw_right, judge=judge_zero),
    ),
    wrong=(
        Wrong(
            "softmax-over-outputs",
            "You took a softmax over the outputs of the heads. It says which numbers are large, not which heads are "
            "needed. Multiply each head's output by its gradient.",
            {
                RESULT: "powers = np.exp(mixed - mixed.max(axis=2, keepdims=True))\n"
                "    return np.mean(powers / powers.sum(axis=2, keepdims=True), axis=(0, 1, 3))"
            },
            "seed 001",
        ),
        Wrong(
            "ablation-instead",
            "You returned how much the loss changes without the head. That is ablation. A gradient tells of a small "
            "change, and the loss is not a straight line.",
            {
                RESULT: 'apart = np.einsum("BTHO,HOE->HBTE", mixed, output_kernel)\n'
                "    without = np.mean((output - apart - target) ** 2, axis=(2, 3))\n"
                "    return np.mean(np.abs(without - np.mean((output - target) ** 2, axis=(1, 2))), axis=1)"
            },
        ),
        Wrong(
            "each-head-alone",
            "You compared the output of each head alone with the target. The loss is that of all heads together, and "
            "so is its gradient.",
            {
                RESULT: 'apart = np.einsum("BTHO,HOE->HBTE", mixed, output_kernel)\n'
                "    sums = 2 * np.mean(apart * (apart - target), axis=(2, 3))\n"
                "    return np.mean(np.abs(sums), axis=1)"
            },
        ),
        Wrong(
            "absolute-of-every-position",
            "You took the absolute value before the sum over the positions. What one position takes away, another may "
            "give back, and only the sum is the derivative. Sum first.",
            {SUMS: 'sums = np.einsum("BTH->BH", np.abs(np.einsum("BTHO,BTHO->BTH", mixed, of_mixed)))'},
        ),
        Wrong(
            "absolute-of-every-element",
            "You took the absolute value of every element, before the sum. What one position takes away, another may "
            "give back, and only the sum is the derivative. Sum first.",
            {SUMS: 'sums = np.einsum("BTHO->BH", np.abs(mixed * of_mixed))'},
        ),
        Wrong(
            "absolute-after-the-mean",
            "You took the absolute value after the mean over the batch. Then an example that a head helps and one "
            "that it harms cancel out.",
            {RESULT: "return np.abs(np.mean(sums, axis=0))"},
        ),
        Wrong(
            "absolute-missing",
            "You averaged the sums with their signs. Then an example that a head helps and one that it harms cancel "
            "out. Take the absolute values first.",
            {RESULT: "return np.mean(sums, axis=0)"},
        ),
        Wrong(
            "gradient-alone",
            "You summed the gradient without the head's output as a factor. That says how sensitive the loss is, not "
            "how much it depends on this head.",
            {SUMS: 'sums = np.einsum("BTHO->BH", of_mixed)'},
        ),
        Wrong(
            "output-alone",
            "You summed the head's output without the gradient. Then the loss plays no part in it.",
            {SUMS: 'sums = np.einsum("BTHO->BH", mixed)'},
        ),
        Wrong(
            "loss-of-the-whole-batch",
            "You averaged the loss over the whole batch, so the numbers shrink with every additional example. Each "
            "example has its own loss.",
            {OUTPUT: OUTPUT.replace("target[0].size", "target.size")},
        ),
        Wrong(
            "loss-summed",
            "You summed the squared differences. The loss is their mean over the elements of an example.",
            {OUTPUT: OUTPUT.replace(" / target[0].size", "")},
        ),
        Wrong(
            "factor-two-missing",
            "You lost a factor: the derivative of a square is not just the difference.",
            {OUTPUT: OUTPUT.replace("2 * ", "")},
        ),
        Wrong(
            "normalised-over-heads",
            "You divided the importance by its sum over the heads. Return the importance itself, not a share.",
            {RESULT: "found = np.mean(np.abs(sums), axis=0)\n    return found / np.maximum(found.sum(), 1e-30)"},
        ),
    ),
)
