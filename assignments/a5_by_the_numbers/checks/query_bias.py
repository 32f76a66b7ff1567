"""Checks of `query_bias`, and other ways in which people get a bias from a printed example."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
RESIDUAL = "residual = query - inputs @ weight.T"
MEAN = "return residual.mean(axis=(0, 1))"


def draw(rng):
    """Draw a layer whose input, weight and output are known to two decimals, as in print.

    Every position has all features.
    """
    batch, positions, features, outputs = sizes(rng, 4)
    inputs = rng.normal(scale=3, size=(batch, positions, features))
    weight = rng.uniform(-0.5, 0.5, size=(outputs, features))
    query = inputs @ weight.T + rng.uniform(-1, 1, size=outputs)
    return {"inputs": inputs.round(2), "weight": weight.round(2), "query": query.round(2)}


def draw_printed(rng):
    """Return the article's own arrays."""
    found = {name: np.array(PRINTED[name]) for name in ("inputs", "weight", "query")}
    return {name: array if name == "weight" else array.reshape(3, 6, 8) for name, array in found.items()}


def draw_exact(rng):
    """Draw a layer without rounding, whose bias comes out exactly."""
    inputs = draw(rng)
    batch, outputs = len(inputs["inputs"]), len(inputs["weight"])
    bias = rng.uniform(-1, 1, size=outputs)
    return {**inputs, "query": inputs["inputs"] @ inputs["weight"].T + bias * np.ones((batch, 1, 1))}


EXERCISE = Exercise(
    title="The bias that is not printed",
    question="Why does Q = X Wq not give the printed Q? (seed 004, an article with a worked example)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("invariants", "without rounding, the bias is exact", 1, draw_exact),
        Check("edge", "the bias of the article's own layer", 2, draw_printed, times=1),
    ),
    wrong=(
        Wrong(
            "bias-rounded",
            "You rounded the bias. Return it as you computed it: the mean over many positions is more exact than the print.",
            {MEAN: MEAN + ".round(2)"},
        ),
        Wrong(
            "kernel-transposed-query",
            "You used the weight as (in, out). torch stores it as (out, in). With as many features in as out, the "
            "product runs either way, but what is left is noise, not a bias.",
            {RESIDUAL: RESIDUAL.replace(".T", "")},
            "seed 004; rasbt/LLMs-from-scratch#857",
        ),
        Wrong(
            "residual-summed",
            "You summed what is left over the rows, so the bias is B·T times too large. Every row holds it once: take "
            "the mean.",
            {MEAN: "return residual.sum(axis=(0, 1))"},
        ),
        Wrong(
            "residual-median",
            "You took the median. It uses one or two tokens, and forgets what the others say. The errors of rounding "
            "are bounded, so take the mean of all.",
            {
                MEAN: "return np.median(residual, axis=(0, 1))",
            },
        ),
        Wrong(
            "residual-of-first-token",
            "You used only the first token, so its rounding error goes straight into the bias. Take the mean over all "
            "tokens.",
            {MEAN: "return residual[0, 0]"},
        ),
        Wrong(
            "residual-of-first-sentence",
            "You used only the first sentence. The other sentences have the same bias, and make the estimate more "
            "precise.",
            {MEAN: "return residual[0].mean(axis=0)"},
        ),
        Wrong(
            "bias-per-sentence",
            "You took the mean over the positions only, so each sentence has a bias of its own. A layer has one.",
            {MEAN: "return residual.mean(axis=1)"},
        ),
        Wrong(
            "bias-per-position",
            "You took the mean over the sentences only, so each position has a bias of its own. A layer has one.",
            {MEAN: "return residual.mean(axis=0)"},
        ),
        Wrong(
            "bias-per-token",
            "You took the mean over the features, which gives one number for each token. A bias has one number for "
            "each feature.",
            {MEAN: "return residual.mean(axis=-1)"},
        ),
        Wrong(
            "one-bias-for-all",
            "You took the mean over all three axes, which leaves a single number. Each feature has its own.",
            {MEAN: "return residual.mean()"},
        ),
        Wrong(
            "sign-reversed",
            "You subtracted Q from the product. Subtract the product from Q.",
            {RESIDUAL: "residual = inputs @ weight.T - query"},
        ),
        Wrong(
            "inputs-taken-for-centred",
            "You took the mean of Q itself for the bias. That is right only if the mean of the inputs is zero: "
            "subtract the product first.",
            {RESIDUAL: "residual = query"},
        ),
    ),
)
