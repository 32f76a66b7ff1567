"""What is checked of `query_bias`, and how else people take a bias off a printed example."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
RESIDUAL = "residual = query - inputs @ weight.T"
MEAN = "return residual.mean(axis=(0, 1))"


def draw(rng):
    """A layer whose input, weight and output are known to two decimals, as in print; every position has all features."""
    batch, positions, features, outputs = sizes(rng, 4)
    inputs = rng.normal(scale=3, size=(batch, positions, features))
    weight = rng.uniform(-0.5, 0.5, size=(outputs, features))
    query = inputs @ weight.T + rng.uniform(-1, 1, size=outputs)
    return {"inputs": inputs.round(2), "weight": weight.round(2), "query": query.round(2)}


def printed(rng):
    """The article's own arrays."""
    found = {name: np.array(PRINTED[name]) for name in ("inputs", "weight", "query")}
    return {name: array if name == "weight" else array.reshape(3, 6, 8) for name, array in found.items()}


def exact(rng):
    """Nothing is rounded: the bias comes out as it went in."""
    inputs = draw(rng)
    batch, outputs = len(inputs["inputs"]), len(inputs["weight"])
    bias = rng.uniform(-1, 1, size=outputs)
    return {**inputs, "query": inputs["inputs"] @ inputs["weight"].T + bias * np.ones((batch, 1, 1))}


EXERCISE = Exercise(
    title="The bias that is not printed",
    question="Q = X Wq does not give the Q that is printed: why? (seed 004, an article with a worked example)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check("invariants", "without rounding the bias is recovered exactly", 1, exact),
        Check("edge", "it finds the bias of the article's own layer", 2, printed, times=1),
    ),
    wrong=(
        Wrong(
            "kernel-transposed-query",
            "The weight is used as (in, out). torch stores (out, in): with as many features in as out the product runs all "
            "the same, and what is left is no bias but noise.",
            {RESIDUAL: RESIDUAL.replace(".T", "")},
            "seed 004; rasbt/LLMs-from-scratch#857",
        ),
        Wrong(
            "residual-summed",
            "What is left is summed over the rows: the bias comes out B·T times too large. Every row holds it once.",
            {MEAN: "return residual.sum(axis=(0, 1))"},
        ),
        Wrong(
            "residual-of-first-token",
            "Only the first token is looked at: its rounding error goes into the bias in full.",
            {MEAN: "return residual[0, 0]"},
        ),
        Wrong(
            "residual-of-first-sentence",
            "Only the first sentence is looked at: the other sentences have the same bias and would make it more certain.",
            {MEAN: "return residual[0].mean(axis=0)"},
        ),
        Wrong(
            "bias-per-sentence",
            "The mean runs over the positions alone, so that each sentence has a bias of its own. A layer has one.",
            {MEAN: "return residual.mean(axis=1)"},
        ),
        Wrong(
            "bias-per-position",
            "The mean runs over the sentences alone, so that each position has a bias of its own. A layer has one.",
            {MEAN: "return residual.mean(axis=0)"},
        ),
        Wrong(
            "bias-per-token",
            "The mean runs over the features: that gives one number for each token. A bias has one number for each feature.",
            {MEAN: "return residual.mean(axis=-1)"},
        ),
        Wrong(
            "one-bias-for-all",
            "The mean runs over all three axes: one number is left for all features. Each has its own.",
            {MEAN: "return residual.mean()"},
        ),
        Wrong(
            "sign-reversed",
            "The sign is wrong: Q is taken off the product, and not the product off Q.",
            {RESIDUAL: "residual = inputs @ weight.T - query"},
        ),
        Wrong(
            "inputs-taken-for-centred",
            "The mean of Q itself is taken for the bias: that holds only where the inputs' mean is zero.",
            {RESIDUAL: "residual = query"},
        ),
    ),
)
