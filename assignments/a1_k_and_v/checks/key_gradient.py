"""What is checked of `key_gradient`: its values, differences of the loss, and where it must vanish."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

AVERAGE = "average = np.sum(scores * of_scores, axis=-1, keepdims=True)"
LOGITS = "of_logits = scores * (of_scores - average)"
KEY = 'of_key = np.einsum("BHTS,BTHO->BSHO", of_logits, query) * scale'
LAST = 'return np.einsum("BSHO,BSI->HIO", of_key, enc_output)'


def some(rng, batch, rows, columns, features, heads, size):
    return {
        "enc_output": rng.normal(size=(batch, columns, features)),
        "query": rng.normal(size=(batch, rows, heads, size)),
        "value": rng.normal(size=(batch, columns, heads, size)),
        "key_kernel": rng.normal(size=(heads, features, size)) / 2,
        "upstream": rng.normal(size=(batch, rows, heads, size)),
    }


def draw(rng):
    return some(rng, *sizes(rng, 6))


def draw_alone(rng):
    """One source position: its score is 1 whatever its key is."""
    batch, rows, features, heads, size = sizes(rng, 5)
    return some(rng, batch, rows, 1, features, heads, size)


def draw_alike(rng):
    """All source positions have the same value: it does not matter which is attended to."""
    found = draw(rng)
    found["value"] = np.repeat(found["value"][:, :1], found["value"].shape[1], axis=1)
    return found


def loss(inputs, kernel):
    key = np.einsum("BSI,HIO->BSHO", inputs["enc_output"], kernel)
    logits = np.einsum("BTHO,BSHO->BHTS", inputs["query"], key) / np.sqrt(kernel.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return np.sum(np.einsum("BHTS,BSHO->BTHO", scores, inputs["value"]) * inputs["upstream"])


def differences(inputs, result, expected):
    kernel, step = inputs["key_kernel"], 1e-5
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = rng.normal(size=kernel.shape)
        change = (loss(inputs, kernel + step * direction) - loss(inputs, kernel - step * direction)) / (2 * step)
        if not abs(change - np.sum(direction * np.asarray(result))) <= 1e-5 * np.abs(expected).sum():
            return "a small step of the kernel changes the loss by something else than this gradient says."
    return None


def vanishes(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return (
        None if np.abs(result).max() < 1e-9 else "here the kernel has no effect on the loss, and the gradient is not 0."
    )


def moving(inputs, result, expected):
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    return None if np.abs(result).max() > 1e-6 else "the gradient is 0: the key kernel would never learn."


EXERCISE = Exercise(
    title="The key kernel learns",
    question="Is the matrix that makes K of `enc_output` trained, and by what? (seed 000, a course's forum)",
    difficulty=3,
    minutes=35,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check("gradient", "it says how a small step of the kernel changes the loss", 3, draw, judge=differences),
        Check("invariants", "it is not zero", 1, draw, judge=moving),
        Check("edge", "with one source position there is nothing to learn", 1, draw_alone, judge=vanishes),
        Check(
            "edge", "with equal values at all source positions there is nothing to learn", 2, draw_alike, judge=vanishes
        ),
    ),
    wrong=(
        Wrong(
            "key-has-no-gradient",
            "The gradient is zero, as if K were `enc_output` and nothing of the decoder were in it: the loss "
            "depends on "
            "the key kernel through the scores.",
            {LAST: "return np.zeros_like(key_kernel)"},
            "seed 000",
        ),
        Wrong(
            "softmax-of-one-element",
            "The softmax passes back the score times its gradient, without the row's average: a larger logit "
            "also makes "
            "all other scores of its row smaller.",
            {LOGITS: "of_logits = scores * of_scores"},
        ),
        Wrong(
            "softmax-as-sigmoid",
            "The derivative A·(1 − A) is that of a sigmoid: in a softmax every score depends on every logit of "
            "its row.",
            {LOGITS: "of_logits = scores * (1 - scores) * of_scores"},
        ),
        Wrong(
            "softmax-skipped",
            "The scores' gradient is taken for the logits': the softmax between them is left out.",
            {LOGITS: "of_logits = of_scores"},
        ),
        Wrong(
            "average-unweighted",
            "The average in the softmax's gradient is the plain mean of the row: it must be weighted by the scores.",
            {AVERAGE: "average = np.mean(of_scores, axis=-1, keepdims=True)"},
        ),
        Wrong(
            "average-divided-again",
            "The weighted sum is divided by the number of source positions: the scores sum to one, so that the sum is "
            "the average already.",
            {AVERAGE: AVERAGE.replace("np.sum", "np.mean")},
        ),
        Wrong(
            "average-over-queries",
            "The average in the softmax's gradient is taken over the query positions: a row is over source positions.",
            {"of_scores, axis=-1, keepdims": "of_scores, axis=-2, keepdims"},
        ),
        Wrong(
            "scale-missing",
            "The scale 1/√O is missing on the way back: the logits have it as a factor, and so has their gradient.",
            {KEY: KEY.replace(" * scale", "")},
        ),
        Wrong(
            "gradient-of-the-key",
            "The gradient of K is returned: one step is missing, from K to the kernel.",
            {LAST: "return of_key"},
        ),
        Wrong(
            "gradient-of-value-kernel",
            "This is the gradient of the value's kernel: through what is mixed, not through the scores.",
            {KEY: 'of_key = np.einsum("BHTS,BTHO->BSHO", scores, upstream)'},
        ),
        Wrong(
            "gradient-averaged",
            "The gradient is averaged over the batch: the loss is a sum, and so is its gradient.",
            {LAST: LAST + " / len(enc_output)"},
        ),
        Wrong(
            "kernel-transposed",
            "The gradient has the axes (H, O, I): it must have those of the kernel.",
            {LAST: LAST.replace("->HIO", "->HOI")},
        ),
    ),
)
