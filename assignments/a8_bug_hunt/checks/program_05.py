"""The checks of `program_05`. The mistake in it is `mask-tiled`."""

import numpy as np

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "mask-tiled"
LAID = "np.repeat(mask, heads, axis=0)"


def draw(rng):
    """Return sentences with different masks; every query may attend to some key, and most not to all."""
    batch, rows, columns, heads, size = sizes(rng, 5)
    mask = rng.random((batch, rows, columns)) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    query = rng.normal(size=(batch, rows, heads * size))
    query[::2] *= 100  # so that no finite number but a very negative one hides a logit
    key, value = (rng.normal(size=(batch, columns, heads * size)) for _ in range(2))
    return {"query": query, "key": key, "value": value, "mask": mask, "heads": heads}


def trial(inputs):
    """Return the call for the bank, which takes the heads on an axis of their own."""
    arrays = (inputs[name] for name in ("query", "key", "value"))
    apart = (array.reshape(*array.shape[:2], inputs["heads"], -1).swapaxes(1, 2) for array in arrays)
    return Trial("asked", *apart, mask=inputs["mask"])


EXERCISE = Exercise(
    title="Program 5: heads folded into the batch",
    question="The mask fits for one sentence and for equal masks: why not for a batch? (line/lighthouse#77, ArrowLuo/CLIP4Clip#22)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "mask-tiled",
            NOT_FIXED,
            {LAID: "np.tile(mask, (heads, 1, 1))"},
            "line/lighthouse#77, ArrowLuo/CLIP4Clip#22",
        ),
        Wrong(
            "mask-of-first-item",
            "You use the first sentence's mask for all sentences. Each has its own.",
            {LAID: "np.repeat(mask[:1], heads * len(mask), axis=0)"},
        ),
        Wrong(
            "mask-rows-repeated",
            "You repeat the rows instead of the sentences, so a query gets another query's row.",
            {LAID: "np.repeat(mask, heads, axis=1).reshape(-1, *mask.shape[1:])"},
        ),
        Wrong(
            "mask-elements-repeated",
            "You repeat single elements: without `axis`, np.repeat flattens the mask first. Give it the axis of the "
            "sentences.",
            {LAID: "np.repeat(mask, heads).reshape(-1, *mask.shape[1:])"},
        ),
        Wrong(
            "mask-of-next-item",
            "You give each sentence the mask of the next one.",
            {LAID: "np.repeat(np.roll(mask, -1, axis=0), heads, axis=0)"},
        ),
        Wrong(
            "mask-first-head-only",
            "You mask only the first head of each sentence.",
            {LAID: "np.repeat(mask, heads, axis=0) | (np.arange(len(Q)) % heads > 0)[:, None, None]"},
        ),
        Wrong(
            "mask-inverted",
            "You hide what may be attended to. In this mask, True means attend.",
            {LAID: "np.repeat(~mask, heads, axis=0)"},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "heads-in-order-of-tiling",
            "You fold the arrays the other way, so that they fit the tiled mask. But the last line still unfolds them as before, which mixes the sentences.",
            {
                LAID: "np.tile(mask, (heads, 1, 1))",
                ".swapaxes(1, 2).reshape(batch * heads, positions, -1)": ".transpose(2, 0, 1, 3).reshape(batch * heads, positions, -1)",
            },
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough: visible logits can be far below zero too.",
            {"logits, -np.inf)": "logits, -30.0)"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(
        MISTAKE, lambda output: np.swapaxes(output, 1, 2).reshape(output.shape[0], output.shape[2], -1)
    ),
)
