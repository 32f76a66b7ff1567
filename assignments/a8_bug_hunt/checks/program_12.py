"""The checks of `program_12`. The mistake in it is `dropout-at-inference`."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "dropout-at-inference"
DROPPED = "np.where(keep, scores / (1 - rate), 0.0) if training else scores"


def draw(rng):
    """Return inputs for inference."""
    batch, heads, rows, columns, size = sizes(rng, 5)
    rate = float(rng.choice([0.2, 0.3, 0.4]))
    keep = rng.random((batch, heads, rows, columns)) >= rate
    keep[..., 0, 0], keep[..., -1, -1] = True, False
    query = rng.normal(size=(batch, heads, rows, size))
    key, value = (rng.normal(size=(batch, heads, columns, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value, "keep": keep, "rate": rate, "training": False}


def modes(answer, inputs):
    """Return the results at inference, and in training with a usual, a small and a large rate, and with nothing to drop.

    One mode alone can be right by chance.
    """
    nothing = {"keep": np.ones_like(inputs["keep"]), "rate": 0.0}
    each = {
        "at inference": {},
        "in training": {"training": True},
        "in training, with the rate 0.05": {"training": True, "rate": 0.05},
        "in training, with a rate above 0.5": {"training": True, "rate": 1 - inputs["rate"]},
        "in training, with the rate 0": {"training": True, **nothing},
    }
    return {mode: answer.program_12(**{**inputs, **more}) for mode, more in each.items()}


def trial(inputs):
    """Return the call for the bank."""
    kept = inputs["keep"] / (1 - inputs["rate"])
    training = inputs["training"]
    modes = {"training": training, "rate": inputs["rate"], "kept": kept if training else None, "more": {"kept": kept}}
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], **modes)


EXERCISE = Exercise(
    title="Program 12: dropout with a given mask",
    question="Why does the same sentence get a different translation on every call? (pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=1, unchanged=1, tolerance=EXACT),
        # Most points: without any dropout, the program is right at inference.
        Check("edge", "it is right at inference, and in training with every rate", 5, draw, modes, tolerance=EXACT),
        mistake_is_named(draw, points=1),
    ),
    wrong=(
        Wrong(
            "dropout-at-inference",
            NOT_FIXED,
            {DROPPED: DROPPED.replace("training", "rate > 0")},
            "pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791",
        ),
        Wrong(
            "dropout-never",
            "Your program no longer drops anything, not even in training.",
            {DROPPED: "scores"},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "dropout-exchanged",
            "You exchanged the two modes: scores are dropped at inference and kept in training.",
            {DROPPED: DROPPED.replace("if training", "if not training")},
        ),
        Wrong(
            "dropout-without-rescaling",
            "You do not divide the remaining scores by the share that is kept, so the output is too small in training.",
            {DROPPED: DROPPED.replace(" / (1 - rate)", "")},
            "huggingface/transformers#31468",
        ),
        Wrong(
            "dropout-times-share",
            "You multiply the remaining scores by the share that is kept. That makes the output even smaller; divide instead.",
            {DROPPED: DROPPED.replace("/", "*")},
            "huggingface/transformers#31468",
        ),
        Wrong(
            "dropout-rescaled-at-inference",
            "You compensate at inference, as the first paper on dropout does. Here the compensation belongs in training.",
            {DROPPED: "np.where(keep, scores, 0.0) if training else scores * (1 - rate)"},
            "Srivastava et al. 2014, section 4",
        ),
        Wrong(
            "dropout-not-at-small-rates",
            "You drop nothing if the rate is small. Every rate above 0 counts.",
            {DROPPED: DROPPED.replace("if training", "if training and rate > 0.1")},
        ),
        Wrong(
            "dropout-not-at-large-rates",
            "You drop nothing if the rate is large. Every rate above 0 counts.",
            {DROPPED: DROPPED.replace("if training", "if training and rate < 0.5")},
        ),
        Wrong(
            "dropout-of-kept",
            "In training you drop the scores that are to be kept, and keep the others. `keep` is True where a score stays.",
            {DROPPED: DROPPED.replace("keep,", "~keep,")},
        ),
        Wrong(
            "dropout-divided-by-rate",
            "In training you divide the remaining scores by the rate. Divide them by the share that is kept.",
            {DROPPED: DROPPED.replace("(1 - rate)", "max(rate, 1e-9)")},
        ),
        Wrong(
            "dropout-then-normalised",
            "After dropout you divide the scores by the sum of their row. Dropout divides all of them by the same number.",
            {
                DROPPED: "scores if not training else np.where(keep, scores, 0.0) / "
                "np.where(keep, scores, 0.0).sum(axis=-1, keepdims=True)"
            },
        ),
        Wrong(
            "dropout-after-mix",
            "In training you only make the output larger, and drop nothing from it.",
            {DROPPED: "scores / (1 - rate) if training else scores"},
        ),
        Wrong(
            "dropout-rescaled-twice",
            "You compensate in training and also make the scores smaller at inference. One of the two is enough.",
            {DROPPED: DROPPED.replace("else scores", "else scores * (1 - rate)")},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
