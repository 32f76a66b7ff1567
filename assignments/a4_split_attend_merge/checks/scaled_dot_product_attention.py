"""Checks of `scaled_dot_product_attention`. The bank knows the other mistakes."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard
from kmha.verify.chains import Trial

SCALED = "scaled = logits / np.sqrt(query.shape[-1])"
MASKED = "masked = np.where(mask[:, None], scaled, -np.inf)"
POWERS = "powers = np.exp(masked - masked.max(axis=-1, keepdims=True))"
SCORES = "scores = powers / powers.sum(axis=-1, keepdims=True)"


def draw(rng):
    """Draw pairwise different sizes, with an allowed and a hidden position in every row."""
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
    """Draw logits of hundreds of thousands: hidden positions must stay hidden there too."""
    inputs = draw(rng)
    return inputs | {"query": 1000 * inputs["query"], "key": 100 * inputs["key"]}


def judge_rows(inputs, result, expected):
    """Check that rows sum to one, and that hidden positions get exactly 0."""
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
    question="What does the mask add, what does the softmax go over, and what comes out? (seed 003, the attention "
    "score)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check("invariants", "rows sum to one, and hidden positions get exactly 0", 3, draw, judge=judge_rows),
        *standard(draw, values=5, tolerance=EXACT),
        Check("edge", "logits of hundreds of thousands", 3, draw_large),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "scale-after-mask",
            "You added -10,000 where the mask hides and scaled afterwards. That divides the penalty by √O, so large "
            "logits leak. Scale first.",
            {MASKED: "masked = (logits + np.where(mask[:, None], 0.0, -1e4)) / np.sqrt(query.shape[-1])"},
            "seed 003; awf/functional-transformer#8",
        ),
        Wrong("scale-missing", "You did not divide the logits by √O.", {SCALED: "scaled = logits"}),
        Wrong(
            "scale-without-root",
            "You divided the logits by O. Divide by its root, √O.",
            {SCALED: "scaled = logits / query.shape[-1]"},
            "delzac/cntkx#10",
        ),
        Wrong(
            "mask-missing",
            "Your mask has no effect: every position attends to every other. Hide the logits where the mask is False.",
            {MASKED: "masked = scaled"},
            "tensorflow/tensorflow#43941",
        ),
        Wrong(
            "mask-inverted",
            "You inverted the mask: your queries attend to what should be hidden. True means that t may attend to s.",
            {MASKED: MASKED.replace("mask[:, None]", "~mask[:, None]")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-zeroes-logits",
            "You set hidden logits to 0, so they keep a share of exp(0). Set them to -∞.",
            {MASKED: "masked = scaled * mask[:, None]"},
            "hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-after-softmax",
            "You applied the mask after the softmax, so rows sum to less than one. Apply it to the logits.",
            {MASKED: "masked = scaled", SCORES: SCORES + " * mask[:, None]"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries, so that columns sum to one. Take it over the keys.",
            {POWERS: POWERS.replace("axis=-1", "axis=-2"), SCORES: SCORES.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "Your exponentials overflow. Subtract the largest logit of each row first.",
            {POWERS: "powers = np.exp(masked)"},
            "NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "mask-of-first-item",
            "You used the mask of the first item for the whole batch. Each item has its own.",
            {MASKED: MASKED.replace("mask[:, None]", "mask[0]")},
        ),
        Wrong(
            "penalty-too-small",
            "You fill hidden logits with a number that others can be smaller than. Nothing is smaller than -∞.",
            {MASKED: MASKED.replace("-np.inf", "-1e5")},
        ),
    ),
    bank=lambda inputs: Trial("course", inputs["query"], inputs["key"], inputs["value"], mask=inputs["mask"]),
    bank_result=lambda state: (state["output"], state["returned"]),
)
