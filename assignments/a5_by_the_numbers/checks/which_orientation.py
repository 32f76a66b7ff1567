"""Checks of `which_orientation`, and other things that people read from a residual."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
PRODUCT = "residual = output - inputs @ kernel"
AROUND = "around = residual - residual.mean(axis=(0, 1))"
SPREAD = "np.sqrt(np.mean(around**2))"
CHOICE = 'layout = "in, out" if spreads[0] < spreads[1] else "out, in"'
BOTH = "for kernel in (weight, weight.T):"


def draw_layer(rng, transposed):
    """Draw a layer, rounded to two or three digits as in print, whose bias is larger than the products.

    Inputs and output are sometimes a hundred times as large or as small, so that no fixed bound tells a small spread.
    """
    times = float(rng.choice([0.01, 1, 100]))
    batch, positions, features = sizes(rng, 3, least=3)
    inputs = rng.normal(size=(batch, positions, features))
    weight = rng.uniform(-0.6, 0.6, size=(features, features))
    bias = rng.uniform(2, 4, size=features) * rng.choice([-1, 1], size=features)
    output = inputs @ (weight.T if transposed else weight) + bias
    return {"inputs": times * inputs.round(2), "weight": weight.round(2), "output": times * output.round(2)}


def draw_in_out(rng):
    return draw_layer(rng, transposed=False)


def draw_out_in(rng):
    return draw_layer(rng, transposed=True)


def draw_printed(rng):
    """Return the article's own arrays."""
    found = {"inputs": PRINTED["inputs"], "weight": PRINTED["weight"], "output": PRINTED["query"]}
    return {name: np.array(rows) if name == "weight" else np.reshape(rows, (3, 6, 8)) for name, rows in found.items()}


EXERCISE = Exercise(
    title="(in, out) or (out, in)?",
    question="Do you multiply by a printed square weight as it stands, or by its transpose? (seed 004; "
    "rasbt/LLMs-from-scratch#857)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw_in_out, signature=1, shape=1, values=3, unchanged=1),
        Check("values", "a weight that is stored as (out, in)", 2, draw_out_in),
        Check("edge", "the article's own weight", 2, draw_printed, times=1),
    ),
    wrong=(
        Wrong(
            "bias-not-taken-off",
            "You counted the bias as spread. Subtract the mean over the tokens first, or a large bias hides the rest.",
            {AROUND: "around = residual"},
        ),
        Wrong(
            "mean-in-place-of-spread",
            "You compared the size of the residual's mean. That mean is the bias, and says nothing about how well a "
            "weight fits. Compare the spread around it.",
            {AROUND: "around = residual.mean(axis=(0, 1))"},
        ),
        Wrong(
            "mean-over-features",
            "You subtracted the mean over the features, so the bias, one number for each feature, stays in. Take the "
            "mean over the tokens.",
            {AROUND: "around = residual - residual.mean(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "one-mean-for-all",
            "You subtracted a single mean from all features. Each feature has its own bias.",
            {AROUND: "around = residual - residual.mean()"},
        ),
        Wrong(
            "mean-per-sentence",
            "You gave every sentence a bias of its own. That fits better than one layer could, so your spread is too "
            "small. Take one mean over B and T.",
            {AROUND: "around = residual - residual.mean(axis=1, keepdims=True)"},
        ),
        Wrong("root-missing", "You returned the mean of the squares. Take its root.", {SPREAD: "np.mean(around**2)"}),
        Wrong(
            "root-before-mean",
            "You took the root of each feature's mean and averaged the roots. Take one mean over all elements, then "
            "the root.",
            {SPREAD: "np.mean(np.sqrt(np.mean(around**2, axis=(0, 1))))"},
        ),
        Wrong(
            "squares-summed",
            "You summed the squares. A spread is the root of their mean, and does not grow with the number of tokens.",
            {SPREAD: "np.linalg.norm(around)"},
        ),
        Wrong(
            "larger-spread-chosen",
            "You chose the orientation with the larger spread. The better one leaves less.",
            {CHOICE: CHOICE.replace("<", ">")},
        ),
        Wrong(
            "orientations-exchanged",
            "You exchanged the two orientations. `inputs @ weight` sums over the first axis of the weight, so that "
            "axis is `in`.",
            {BOTH: "for kernel in (weight.T, weight):"},
        ),
        Wrong(
            "fixed-bound",
            "You compared one spread with a fixed number. How small a spread is depends on how large the inputs are. "
            "Compare the two spreads with each other.",
            {CHOICE: 'layout = "in, out" if spreads[0] < 0.1 else "out, in"'},
        ),
        Wrong(
            "always-as-torch",
            "You always answered (out, in). That is how torch stores a weight; Keras stores (in, out), and here you "
            "may get either.",
            {CHOICE: 'layout = "out, in"'},
        ),
    ),
)
