"""What is checked of `scaled_dot_product_attention`; the bank of mistakes knows the rest of what can be wrong."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard
from kmha.verify.chains import Trial

SCALED = "scaled = logits / np.sqrt(query.shape[-1])"
MASKED = "masked = np.where(mask[:, None], scaled, -np.inf)"
POWERS = "powers = np.exp(masked - masked.max(axis=-1, keepdims=True))"
SCORES = "scores = powers / powers.sum(axis=-1, keepdims=True)"


def draw(rng):
    """Pairwise different sizes; every row has something to attend to, and something hidden."""
    batch, heads, queries, keys, size = sizes(rng, 5, least=3)
    mask = rng.random((batch, queries, keys)) < 0.5
    place = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (place + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, place, True, axis=-1)
    return {
        "query": rng.normal(size=(batch, heads, queries, size)),
        "key": rng.normal(size=(batch, heads, keys, size)),
        "value": rng.normal(size=(batch, heads, keys, size)),
        "mask": mask,
    }


def draw_large(rng):
    """Logits of tens of thousands: what is hidden must be hidden from them too."""
    inputs = draw(rng)
    return inputs | {"query": 100 * inputs["query"], "key": 100 * inputs["key"]}


def rows(inputs, result, expected):
    """Rows sum to one, and hidden positions get exactly nothing."""
    scores = np.asarray(result[1])
    if scores.shape != expected[1].shape:
        return f"the scores have the shape {scores.shape}, expected {expected[1].shape}."
    if not np.allclose(scores.sum(axis=-1), 1):
        return "the rows of the scores do not sum to one."
    if np.any(scores[np.broadcast_to(~inputs["mask"][:, None], scores.shape)] != 0):
        return "a hidden position gets a score that is not 0."
    return None


EXERCISE = Exercise(
    title="Attend",
    question="What is added by the mask, what is the softmax over, and what comes out? (seed 003, the attention score)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check("invariants", "rows sum to one, and nothing goes to hidden positions", 3, draw, judge=rows),
        *standard(draw, values=5),
        Check("edge", "with logits of tens of thousands", 3, draw_large),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "scale-after-mask",
            "The logits are scaled after -10,000 was added where masked, so that the mask shrinks by √O: large logits "
            "leak.",
            {MASKED: "masked = (logits + np.where(mask[:, None], 0.0, -1e4)) / np.sqrt(query.shape[-1])"},
            "seed 003; awf/functional-transformer#8",
        ),
        Wrong("scale-missing", "The logits are not divided by √O.", {SCALED: "scaled = logits"}),
        Wrong(
            "scale-without-root",
            "The logits are divided by O in place of √O: the root is missing.",
            {SCALED: "scaled = logits / query.shape[-1]"},
            "delzac/cntkx#10",
        ),
        Wrong(
            "mask-missing",
            "The mask has no effect: everybody attends to everybody.",
            {MASKED: "masked = scaled"},
            "tensorflow/tensorflow#43941",
        ),
        Wrong(
            "mask-inverted",
            "The mask is inverted: attended is what should be hidden.",
            {MASKED: MASKED.replace("mask[:, None]", "~mask[:, None]")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-zeroes-logits",
            "Hidden logits become 0 in place of -∞: they keep a share of exp(0).",
            {MASKED: "masked = scaled * mask[:, None]"},
            "hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-after-softmax",
            "The mask is applied after the softmax, and rows are not divided by their new sum: it is less than one.",
            {MASKED: "masked = scaled", SCORES: SCORES + " * mask[:, None]"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax runs over the queries in place of the keys: columns sum to one.",
            {POWERS: POWERS.replace("axis=-1", "axis=-2"), SCORES: SCORES.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "The exponentials overflow: the row's largest logit is not taken off before.",
            {POWERS: "powers = np.exp(masked)"},
            "NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "mask-of-first-item",
            "The first item's mask is used for the whole batch.",
            {MASKED: MASKED.replace("mask[:, None]", "mask[0]")},
        ),
    ),
    bank=lambda inputs: Trial("course", inputs["query"], inputs["key"], inputs["value"], mask=inputs["mask"]),
    bank_result=lambda state: (state["output"], state["returned"]),
)
