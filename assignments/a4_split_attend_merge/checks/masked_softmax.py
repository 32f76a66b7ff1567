"""What is checked of `masked_softmax`: rows without anything, and hidden logits that are no numbers."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

MASKED = "masked = np.where(mask[:, None], logits, -np.inf)"
LARGEST = "largest = masked.max(axis=-1, keepdims=True)"
GUARD = "np.where(np.isfinite(largest), largest, 0.0)"
SCORES = "scores = powers / np.where(total == 0, 1.0, total)"
GRADIENT = "gradient = scores * (upstream - np.sum(scores * upstream, axis=-1, keepdims=True))"
RETURN = "return scores, gradient"


def draw(rng):
    """Every row has something to attend to, and something hidden."""
    batch, heads, queries, keys = sizes(rng, 4, least=3)
    mask = rng.random((batch, queries, keys)) < 0.5
    place = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (place + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, place, True, axis=-1)
    logits, upstream = rng.normal(size=(2, batch, heads, queries, keys))
    return {"logits": logits, "mask": mask, "upstream": upstream}


def draw_empty(rng):
    """Some rows may attend to nothing."""
    inputs = draw(rng)
    batch, queries, _ = inputs["mask"].shape
    empty = rng.random((batch, queries)) < 0.3
    empty[rng.integers(batch), rng.integers(queries)] = True
    return inputs | {"mask": inputs["mask"] & ~empty[..., None]}


def draw_far(rng):
    """Hidden logits are far larger than those that are not."""
    inputs = draw(rng)
    return inputs | {"logits": inputs["logits"] + np.where(inputs["mask"][:, None], 0.0, 2000.0)}


def draw_any(rng):
    """Hidden logits are infinite or NaN."""
    inputs = draw(rng)
    rubbish = rng.choice([np.inf, -np.inf, np.nan], size=inputs["logits"].shape)
    return inputs | {"logits": np.where(inputs["mask"][:, None], inputs["logits"], rubbish)}


EXERCISE = Exercise(
    title="Rows with nothing to attend to",
    question="Where does the NaN come from, when all inputs are finite? (pytorch/pytorch#143287; seed 003 on masks)",
    difficulty=3,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("values", "every element of scores and gradient is right, where each row has something", 4, draw),
        Check("edge", "rows with nothing to attend to: zeros, and no gradient", 4, draw_empty),
        Check("edge", "hidden logits that are far larger than the others", 2, draw_far),
        Check("edge", "hidden logits that are infinite or NaN", 2, draw_any),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "mask-empty-row-nan",
            "A row with nothing to attend to is NaN: all of its logits are -∞.",
            {GUARD: "largest"},
            "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        ),
        Wrong(
            "nan-mended-at-the-end",
            "NaN is set to 0 in the scores when they are finished: the gradient still goes through it.",
            {GUARD: "largest", RETURN: "return np.nan_to_num(scores), gradient"},
            "pytorch/pytorch#41508",
        ),
        Wrong(
            "empty-row-uniform",
            "A row with nothing to attend to attends to everything alike: all of its logits are the same finite "
            "number.",
            {MASKED: MASKED.replace("-np.inf", "-1e9")},
            "the usual -1e9",
        ),
        Wrong(
            "empty-row-as-unmasked",
            "A row with nothing to attend to attends as if there were no mask: the same number was added to all of its "
            "logits.",
            {MASKED: "masked = logits + np.where(mask[:, None], 0.0, -1e9)"},
            "the usual -1e9, added",
        ),
        Wrong(
            "mask-after-softmax",
            "The mask is applied after the softmax, and rows are not divided by their new sum: it is less than one.",
            {MASKED: "masked = logits", SCORES: SCORES + " * mask[:, None]"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "softmax-largest-of-hidden",
            "What is taken off before exp is the largest of all logits of the row, hidden ones too: where a hidden one "
            "is far larger, every exp that counts becomes 0.",
            {LARGEST: "largest = logits.max(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "gradient-diagonal",
            "The gradient is s · (1 - s) · g, as if each score hung on its own logit alone: a row's scores share their "
            "sum.",
            {GRADIENT: "gradient = scores * (1 - scores) * upstream"},
            "the derivative of a sigmoid, or the diagonal of the softmax's",
        ),
        Wrong(
            "gradient-unweighted-sum",
            "In the gradient the sum is of g alone: each element of it counts as much as its score.",
            {GRADIENT: GRADIENT.replace("np.sum(scores * upstream", "np.sum(upstream")},
        ),
        Wrong(
            "gradient-past-softmax",
            "The gradient is handed on as if there were no softmax: it is what comes in, where nothing is hidden.",
            {GRADIENT: "gradient = upstream * mask[:, None]"},
        ),
    ),
)
