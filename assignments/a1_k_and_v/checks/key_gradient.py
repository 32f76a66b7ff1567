"""Checks of `key_gradient`: its values, finite differences of the loss, and cases where it must vanish."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

AVERAGE = "average = np.sum(scores * of_scores, axis=-1, keepdims=True)"
LOGITS = "of_logits = scores * (of_scores - average)"
KEY = 'of_key = np.einsum("BHTS,BTHO->BSHO", of_logits, query) * scale'
LAST = 'return np.einsum("BSHO,BSI->HIO", of_key, enc_output)'


def inputs_of(rng, batch, rows, columns, features, heads, size):
    return {
        "enc_output": rng.normal(size=(batch, columns, features)),
        "query": rng.normal(size=(batch, rows, heads, size)),
        "value": rng.normal(size=(batch, columns, heads, size)),
        "key_kernel": rng.normal(size=(heads, features, size)) / 2,
        "upstream": rng.normal(size=(batch, rows, heads, size)),
    }


def draw(rng):
    return inputs_of(rng, *sizes(rng, 6))


def draw_alone(rng):
    """Draw a single source position: its score is 1, whatever its key is."""
    batch, rows, features, heads, size = sizes(rng, 5)
    return inputs_of(rng, batch, rows, 1, features, heads, size)


def draw_alike(rng):
    """Draw the same value at all source positions, so that it does not matter which one is attended to."""
    found = draw(rng)
    found["value"] = np.repeat(found["value"][:, :1], found["value"].shape[1], axis=1)
    return found


def loss(inputs, kernel):
    key = np.einsum("BSI,HIO->BSHO", inputs["enc_output"], kernel)
    logits = np.einsum("BTHO,BSHO->BHTS", inputs["query"], key) / np.sqrt(kernel.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return np.sum(np.einsum("BHTS,BSHO->BTHO", scores, inputs["value"]) * inputs["upstream"])


def judge_differences(inputs, result, expected):
    kernel, step = inputs["key_kernel"], 1e-5
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = rng.normal(size=kernel.shape)
        change = (loss(inputs, kernel + step * direction) - loss(inputs, kernel - step * direction)) / (2 * step)
        if not abs(change - np.sum(direction * np.asarray(result))) <= 1e-5 * np.abs(expected).sum():
            return "a small step of the kernel does not change the loss as this gradient predicts."
    return None


def judge_zero(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return (
        None if np.abs(result).max() < 1e-7 else "here the kernel has no effect on the loss, but the gradient is not 0."
    )


def judge_nonzero(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return None if np.abs(result).max() > 1e-6 else "the gradient is 0: the key kernel would never learn."


EXERCISE = Exercise(
    title="The key kernel learns",
    question="Is the matrix that makes K from `enc_output` trained, and by what? (seed 000, a course forum)",
    difficulty=3,
    minutes=35,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check(
            "gradient", "it predicts how a small step of the kernel changes the loss", 3, draw, judge=judge_differences
        ),
        Check("invariants", "it is not zero", 1, draw, judge=judge_nonzero),
        Check("edge", "with one source position there is nothing to learn", 1, draw_alone, judge=judge_zero),
        Check(
            "edge",
            "with equal values at all source positions there is nothing to learn",
            2,
            draw_alike,
            judge=judge_zero,
        ),
    ),
    wrong=(
        Wrong(
            "key-has-no-gradient",
            "You returned zero, as if K were `enc_output` and contained nothing of the decoder. The loss depends on "
            "the key kernel through the scores.",
            {LAST: "return np.zeros_like(key_kernel)"},
            "seed 000",
        ),
        Wrong(
            "softmax-of-one-element",
            "You passed back the score times its gradient, without the row's average. A larger logit also makes all "
            "other scores of its row smaller: subtract the average first.",
            {LOGITS: "of_logits = scores * of_scores"},
        ),
        Wrong(
            "softmax-as-sigmoid",
            "You used A·(1 − A), the derivative of a sigmoid. In a softmax, every score depends on every logit of its "
            "row.",
            {LOGITS: "of_logits = scores * (1 - scores) * of_scores"},
        ),
        Wrong(
            "softmax-skipped",
            "You used the gradient of the scores as that of the logits. Go back through the softmax between them.",
            {LOGITS: "of_logits = of_scores"},
        ),
        Wrong(
            "average-unweighted",
            "You subtracted the plain mean of the row. Weight the average by the scores.",
            {AVERAGE: "average = np.mean(of_scores, axis=-1, keepdims=True)"},
        ),
        Wrong(
            "average-divided-again",
            "You divided the weighted sum by the number of source positions. The scores sum to one, so the weighted "
            "sum already is the average.",
            {AVERAGE: AVERAGE.replace("np.sum", "np.mean")},
        ),
        Wrong(
            "average-over-queries",
            "You took the average over the query positions. A row of scores goes over the source positions.",
            {"of_scores, axis=-1, keepdims": "of_scores, axis=-2, keepdims"},
        ),
        Wrong(
            "scale-missing",
            "You left out the scale 1/√O on the way back. It is a factor of the logits, so it is also a factor of the "
            "gradient.",
            {KEY: KEY.replace(" * scale", "")},
        ),
        Wrong(
            "logits-times-key",
            "You multiplied the gradient of the logits by the keys. The logits are query times key, so the gradient of the "
            "key has the query as its factor.",
            {KEY: 'of_key = np.einsum("BHTS,BSHO->BSHO", of_logits, key) * scale'},
        ),
        Wrong(
            "gradient-of-the-key",
            "You returned the gradient of K. One step is missing: from K to the kernel.",
            {LAST: "return of_key"},
        ),
        Wrong(
            "gradient-of-value-kernel",
            "You returned the gradient of the value kernel, which goes through the mix. The key kernel's gradient "
            "goes through the scores.",
            {KEY: 'of_key = np.einsum("BHTS,BTHO->BSHO", scores, upstream)'},
        ),
        Wrong(
            "gradient-averaged",
            "You averaged the gradient over the batch. The loss is a sum, and so is its gradient.",
            {LAST: LAST + " / len(enc_output)"},
        ),
        Wrong(
            "kernel-transposed",
            "Your gradient has the axes (H, O, I). It must have the axes of the kernel, (H, I, O).",
            {LAST: LAST.replace("->HIO", "->HOI")},
        ),
    ),
)
