"""What is checked of `saturation`, and how such figures go wrong."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ARGUMENT = "argument = np.stack([logits, logits / np.sqrt(size)])"
POWERS = "powers = np.exp(argument - argument.max(axis=-1, keepdims=True))"
SCORES = "scores = powers / powers.sum(axis=-1, keepdims=True)"
ENTROPY = "entropy = -np.sum(scores * np.log(np.where(scores > 0, scores, 1.0)), axis=-1)"
JACOBIAN = "jacobian = own - scores[..., :, None] * scores[..., None, :]"
GRADIENT = "gradient = np.sqrt(np.sum(jacobian**2, axis=(-2, -1)))"


def draw(rng):
    """Products of queries and keys, as an attention makes them."""
    batch, heads, rows, columns, size = sizes(rng, 5)
    columns = max(columns, 2)  # in a smallest case too: a single key leaves nothing to choose
    query, key = (rng.normal(size=(batch, heads, positions, size)) for positions in (rows, columns))
    return {"logits": np.einsum("BHTO,BHSO->BHTS", query, key), "size": size}


def no_batch(rng):
    """One matrix of logits, from heads as large as the paper's."""
    rows, columns = sizes(rng, 2, least=3)
    return {"logits": rng.normal(scale=8, size=(rows, columns)), "size": 64}


def thousands(rng):
    """Logits that no exponential survives, and scores that become exactly 0.

    One row has equal logits: entropies and gradients are compared with the largest, which must not be next to nothing.
    """
    inputs = draw(rng)
    logits = inputs["logits"] * 3000
    logits[..., -1, :] = 3000
    return {**inputs, "logits": logits}


def equal(rng):
    """Every key alike."""
    inputs = draw(rng)
    return {**inputs, "logits": np.zeros_like(inputs["logits"]) + rng.normal()}


def judge_equal(inputs, result, expected):
    keys = inputs["logits"].shape[-1]
    largest, entropy, gradient = (np.asarray(each) for each in result)
    if not np.allclose(largest, 1 / keys):
        return "with equal logits the largest probability is not 1/S."
    if not np.allclose(entropy, np.log(keys)):
        return "with equal logits the entropy is not the largest that S keys can have."
    return (
        None if np.allclose(gradient, np.sqrt(keys - 1) / keys) else "with equal logits the gradient's norm is wrong."
    )


EXERCISE = Exercise(
    title="What the division by √d_k is for",
    question="How much does the division by √d_k change, in figures? (seed 004, two grey pictures)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("values", "logits without batch and heads", 1, no_batch),
        Check("invariants", "equal logits give the extreme values", 1, equal, judge=judge_equal),
        Check("edge", "logits of thousands give finite numbers", 1, thousands),
    ),
    wrong=(
        Wrong(
            "softmax-overflow",
            "The exponentials overflow: with logits of thousands they are infinite, and infinity over infinity is NaN.",
            {POWERS: "powers = np.exp(argument)"},
            "pytorch/executorch#18407, NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "entropy-of-zero",
            "Where a score is exactly 0, its logarithm is -∞, and 0 · -∞ is NaN: it should count as 0.",
            {ENTROPY: "entropy = -np.sum(scores * np.log(scores), axis=-1)"},
        ),
        Wrong(
            "entropy-in-bits",
            "The entropy is in bits: it is larger by 1 / ln 2. The natural logarithm is asked for.",
            {ENTROPY: ENTROPY.replace("np.log(", "np.log2(")},
        ),
        Wrong(
            "entropy-averaged",
            "The entropy is averaged over the keys in place of summed: the scores are its weights already.",
            {ENTROPY: ENTROPY.replace("np.sum", "np.mean")},
        ),
        Wrong(
            "scale-without-root",
            "The logits are divided by d_k in place of its root: the softmax is flatter than it should be.",
            {ARGUMENT: ARGUMENT.replace("np.sqrt(size)", "size")},
        ),
        Wrong(
            "scale-of-keys",
            "The logits are divided by the root of the number of keys: it is the features of a head that the products sum over.",
            {ARGUMENT: ARGUMENT.replace("np.sqrt(size)", "np.sqrt(logits.shape[-1])")},
        ),
        Wrong(
            "order-exchanged",
            "Without and with the division are exchanged: index 0 is without.",
            {ARGUMENT: "argument = np.stack([logits / np.sqrt(size), logits])"},
        ),
        Wrong(
            "scaled-after-softmax",
            "The scores are divided, not the logits: their rows do not sum to one any more.",
            {
                ARGUMENT: "argument = np.stack([logits, logits])",
                SCORES: SCORES + "\n    scores = np.stack([scores[0], scores[1] / np.sqrt(size)])",
            },
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax runs over the queries: each row's scores, over the keys, have to sum to one.",
            {
                POWERS: POWERS.replace("axis=-1", "axis=-2"),
                SCORES: SCORES.replace("axis=-1", "axis=-2"),
            },
        ),
        Wrong(
            "gradient-of-sigmoid",
            "Only the diagonal p (1 - p) is counted: every logit moves the other probabilities as well.",
            {JACOBIAN: "jacobian = own * (1 - scores[..., None, :])"},
        ),
        Wrong(
            "gradient-without-root",
            "The squares are summed, and the root is missing: that is the norm's square.",
            {GRADIENT: "gradient = np.sum(jacobian**2, axis=(-2, -1))"},
        ),
        Wrong(
            "gradient-with-chain-rule",
            "The derivative is the one with respect to the undivided logits: 1/√d_k more than was asked for in the second row.",
            {GRADIENT: GRADIENT + "\n    gradient = np.stack([gradient[0], gradient[1] / np.sqrt(size)])"},
        ),
    ),
)
