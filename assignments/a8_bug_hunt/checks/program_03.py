"""The checks of `program_03`. The mistake in it is `mask-inverted`."""

import numpy as np

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "mask-inverted"
HIDDEN = "hidden = ~mask[:, None]"
FILLED = ".filled(0.0)"


def masked(rng, batch, rows, columns):
    """Return inputs in which every query may attend to some key, and not to all if there are two."""
    mask = rng.random((batch, rows, columns)) < 0.5
    first, second = rng.permuted(np.tile(np.arange(columns), (batch, rows, 1)), axis=-1)[..., [0, -1]].transpose(
        2, 0, 1
    )
    np.put_along_axis(mask, second[..., None], False, axis=-1)
    np.put_along_axis(mask, first[..., None], True, axis=-1)
    return mask


def draw(rng):
    batch, heads, rows, columns, size = sizes(rng, 5)
    query = rng.normal(size=(batch, heads, rows, size))
    key, value = (rng.normal(size=(batch, heads, columns, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value, "mask": masked(rng, batch, rows, columns)}


def trial(inputs):
    """Return the call for the bank."""
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], mask=inputs["mask"])


EXERCISE = Exercise(
    title="Program 3: NumPy's masked arrays",
    question="Does True mean attend or hide? (nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "mask-inverted",
            NOT_FIXED,
            {HIDDEN: "hidden = mask[:, None]"},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "mask-missing",
            "Your program no longer hides anything.",
            {HIDDEN: "hidden = np.zeros_like(mask)[:, None]"},
            "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        ),
        Wrong(
            "mask-of-first-item",
            "You use the first sentence's mask for all sentences. Each has its own.",
            {HIDDEN: "hidden = ~mask[:1, None]"},
        ),
        Wrong(
            "mask-any-row-for-all",
            "You make one mask for all queries of a sentence, so a key that some query may attend to is open to all of them.",
            {HIDDEN: "hidden = ~mask.any(axis=1, keepdims=True)[:, None]"},
        ),
        Wrong(
            "mask-first-head-only",
            "You mask only the first head. All heads share the mask.",
            {HIDDEN: "hidden = ~mask[:, None] & (np.arange(query.shape[1]) == 0)[:, None, None]"},
        ),
        Wrong(
            "hidden-powers-are-one",
            "Hidden keys get the exponential 1 instead of 0, as much as the largest logit.",
            {FILLED: ".filled(1.0)"},
        ),
        Wrong(
            "hidden-powers-are-huge",
            "Only hidden keys are attended to: their exponentials are huge. `.filled()` without a number gives hidden elements a very large one, and so does exp of a large positive logit. They must be 0.",
            {FILLED: ".filled()"},
        ),
        Wrong(
            "hidden-powers-not-filled",
            "You read the numbers under the mask, so nothing is hidden from the sum or from the product with the values.",
            {FILLED: ".data"},
        ),
        Wrong(
            "inverted-twice",
            "You inverted the mask, and you also gave the hidden keys the exponential 1. The second change broke what was right before.",
            {HIDDEN: "hidden = mask[:, None]", FILLED: ".filled(1.0)"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
