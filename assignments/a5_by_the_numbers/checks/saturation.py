"""Checks of `saturation`, and how such numbers go wrong."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ARGUMENT = "argument = np.stack([logits, logits / np.sqrt(size)])"
POWERS = "powers = np.exp(argument - argument.max(axis=-1, keepdims=True))"
SCORES = "scores = powers / powers.sum(axis=-1, keepdims=True)"
ENTROPY = "entropy = -np.sum(scores * np.log(np.where(scores > 0, scores, 1.0)), axis=-1)"
JACOBIAN = "jacobian = own - scores[..., :, None] * scores[..., None, :]"
GRADIENT = "gradient = np.sqrt(np.sum(jacobian**2, axis=(-2, -1)))"


def draw(rng):
    """Draw products of queries and keys, as attention makes them."""
    batch, heads, rows, columns, size = sizes(rng, 5)
    columns = max(columns, 2)  # even in a smallest case: a single key leaves nothing to choose
    query, key = (rng.normal(size=(batch, heads, positions, size)) for positions in (rows, columns))
    return {"logits": np.einsum("BHTO,BHSO->BHTS", query, key), "size": size}


def draw_axes(rng):
    """Draw logits with no axis before T and S, or with one or three, from heads as large as the paper's."""
    shapes = [sizes(rng, 2, least=3), sizes(rng, 3, least=3), sizes(rng, 5, least=3)]
    return {"logits": [rng.normal(scale=8, size=shape) for shape in shapes], "size": 64}


def each_array(answer, inputs):
    return [answer.saturation(logits, inputs["size"]) for logits in inputs["logits"]]


def draw_thousands(rng):
    """Draw logits whose exponentials overflow, and scores that become exactly 0.

    One row has equal logits: entropies and gradients are compared with the largest one, which must not be tiny.
    """
    inputs = draw(rng)
    logits = inputs["logits"] * 3000
    logits[..., -1, :] = 3000
    return {**inputs, "logits": logits}


def draw_equal(rng):
    """Draw equal logits for all keys."""
    inputs = draw(rng)
    return {**inputs, "logits": np.zeros_like(inputs["logits"]) + rng.normal()}


def judge_equal(inputs, result, expected):
    keys = inputs["logits"].shape[-1]
    largest, entropy, gradient = (np.asarray(each) for each in result)
    if not np.allclose(largest, 1 / keys):
        return "with equal logits, the largest probability is not 1/S."
    if not np.allclose(entropy, np.log(keys)):
        return "with equal logits, the entropy is not the largest that S keys can have."
    return (
        None
        if np.allclose(gradient, np.sqrt(keys - 1) / keys)
        else "with equal logits, the norm of the gradient is wrong."
    )


EXERCISE = Exercise(
    title="What is the division by √d_k for?",
    question="How much does the division by √d_k change, in numbers? (seed 004, two grey pictures)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("values", "logits with any number of axes before T and S", 1, draw_axes, each_array),
        Check("invariants", "equal logits give the extreme values", 1, draw_equal, judge=judge_equal),
        Check("edge", "logits of thousands give finite numbers", 1, draw_thousands),
    ),
    wrong=(
        Wrong(
            "softmax-overflow",
            "Your exponentials overflow: with logits of thousands they are infinite, and ∞/∞ is NaN. Subtract the "
            "largest logit of each row first.",
            {POWERS: "powers = np.exp(argument)"},
            "pytorch/executorch#18407, NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "entropy-of-zero",
            "If a score is exactly 0, its logarithm is -∞, and 0 · -∞ is NaN. Make it count as 0.",
            {ENTROPY: "entropy = -np.sum(scores * np.log(scores), axis=-1)"},
        ),
        Wrong(
            "entropy-in-bits",
            "You computed the entropy in bits, which is larger by a factor of 1 / ln 2. Use the natural logarithm.",
            {ENTROPY: ENTROPY.replace("np.log(", "np.log2(")},
        ),
        Wrong(
            "entropy-averaged",
            "You averaged the entropy over the keys. Sum it: the scores already are its weights.",
            {ENTROPY: ENTROPY.replace("np.sum", "np.mean")},
        ),
        Wrong(
            "scale-without-root",
            "You divided the logits by d_k instead of its root. The softmax is flatter than it should be.",
            {ARGUMENT: ARGUMENT.replace("np.sqrt(size)", "size")},
        ),
        Wrong(
            "scale-of-keys",
            "You divided the logits by the root of the number of keys. The products sum over the features of a head: "
            "use the root of d_k.",
            {ARGUMENT: ARGUMENT.replace("np.sqrt(size)", "np.sqrt(logits.shape[-1])")},
        ),
        Wrong(
            "order-exchanged",
            "You exchanged the two cases. Index 0 is without the division.",
            {ARGUMENT: "argument = np.stack([logits / np.sqrt(size), logits])"},
        ),
        Wrong(
            "scaled-after-softmax",
            "You divided the scores instead of the logits, so their rows no longer sum to one.",
            {
                ARGUMENT: "argument = np.stack([logits, logits])",
                SCORES: SCORES + "\n    scores = np.stack([scores[0], scores[1] / np.sqrt(size)])",
            },
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries. The scores of each row must sum to one over the keys.",
            {
                POWERS: POWERS.replace("axis=-1", "axis=-2"),
                SCORES: SCORES.replace("axis=-1", "axis=-2"),
            },
        ),
        Wrong(
            "gradient-of-sigmoid",
            "You counted only the diagonal, p (1 - p). Every logit moves the other probabilities as well.",
            {JACOBIAN: "jacobian = own * (1 - scores[..., None, :])"},
        ),
        Wrong(
            "jacobian-of-scores-alone",
            "Your Jacobian holds only the scores on its diagonal. Raising one logit also takes weight from all "
            "positions, itself included: subtract the products of the scores.",
            {JACOBIAN: "jacobian = own"},
        ),
        Wrong(
            "gradient-without-root",
            "You summed the squares but did not take the root. That is the square of the norm.",
            {GRADIENT: "gradient = np.sum(jacobian**2, axis=(-2, -1))"},
        ),
        Wrong(
            "gradient-with-chain-rule",
            "You took the derivative with respect to the undivided logits. With the division, that adds a factor "
            "1/√d_k: leave it out.",
            {GRADIENT: GRADIENT + "\n    gradient = np.stack([gradient[0], gradient[1] / np.sqrt(size)])"},
        ),
        Wrong(
            "largest-logit",
            "You returned the largest logit. The largest probability is that of the softmax.",
            {"largest = scores.max(axis=-1)": "largest = argument.max(axis=-1)"},
        ),
        Wrong(
            "largest-place",
            "You returned where the largest probability is. Return the probability: `max`, not `argmax`.",
            {"largest = scores.max(axis=-1)": "largest = scores.argmax(axis=-1)"},
        ),
        Wrong(
            "gradient-spectral-norm",
            "You took the largest singular value of the derivative. The Frobenius norm is the root of the sum of all squares.",
            {GRADIENT: "gradient = np.linalg.norm(jacobian, 2, axis=(-2, -1))"},
        ),
    ),
)
