"""What is checked of `which_orientation`, and what else people read off a residual."""

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


def layer(rng, transposed):
    """Rounded as in print, with a bias that is larger than what the inputs make."""
    batch, positions, features = sizes(rng, 3, least=3)
    inputs = rng.normal(size=(batch, positions, features))
    weight = rng.uniform(-0.6, 0.6, size=(features, features))
    bias = rng.uniform(2, 4, size=features) * rng.choice([-1, 1], size=features)
    output = inputs @ (weight.T if transposed else weight) + bias
    return {"inputs": inputs.round(2), "weight": weight.round(2), "output": output.round(2)}


def in_out(rng):
    return layer(rng, transposed=False)


def out_in(rng):
    return layer(rng, transposed=True)


def printed(rng):
    """The article's own arrays."""
    found = {"inputs": PRINTED["inputs"], "weight": PRINTED["weight"], "output": PRINTED["query"]}
    return {name: np.array(rows) if name == "weight" else np.reshape(rows, (3, 6, 8)) for name, rows in found.items()}


EXERCISE = Exercise(
    title="(in, out) or (out, in)?",
    question="Is a printed square weight multiplied as it stands or transposed? (seed 004; rasbt/LLMs-from-scratch#857)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(in_out, signature=1, shape=1, values=3, unchanged=1),
        Check("values", "a weight that is stored as (out, in) is told too", 2, out_in),
        Check("edge", "it tells how the article's own weight is stored", 2, printed, times=1),
    ),
    wrong=(
        Wrong(
            "bias-not-taken-off",
            "The bias counts as spread: the mean over the tokens must be taken off first, or a large bias hides the rest.",
            {AROUND: "around = residual"},
        ),
        Wrong(
            "mean-in-place-of-spread",
            "The size of the residual's mean is compared: that is the bias, and says nothing about how well a weight fits.",
            {AROUND: "around = residual.mean(axis=(0, 1))"},
        ),
        Wrong(
            "mean-over-features",
            "The mean that is taken off runs over the features: the bias, one number for each feature, stays in.",
            {AROUND: "around = residual - residual.mean(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "one-mean-for-all",
            "One mean is taken off for all features: each feature has its own bias.",
            {AROUND: "around = residual - residual.mean()"},
        ),
        Wrong(
            "mean-per-sentence",
            "Every sentence gets a bias of its own: that fits better than one layer could, and the spread is too small.",
            {AROUND: "around = residual - residual.mean(axis=1, keepdims=True)"},
        ),
        Wrong(
            "root-missing", "The mean of the squares is returned: the root is missing.", {SPREAD: "np.mean(around**2)"}
        ),
        Wrong(
            "root-before-mean",
            "The root is taken of each feature's mean, and the roots are averaged: one mean over all elements is asked for.",
            {SPREAD: "np.mean(np.sqrt(np.mean(around**2, axis=(0, 1))))"},
        ),
        Wrong(
            "squares-summed",
            "The squares are summed: a spread is the root of their mean, and does not grow with the number of tokens.",
            {SPREAD: "np.linalg.norm(around)"},
        ),
        Wrong(
            "larger-spread-chosen",
            "The orientation with the larger spread is chosen: the better one leaves less.",
            {CHOICE: CHOICE.replace("<", ">")},
        ),
        Wrong(
            "orientations-exchanged",
            "The two are exchanged: `inputs @ weight` sums over the weight's first axis, so that one is `in`.",
            {BOTH: "for kernel in (weight.T, weight):"},
        ),
        Wrong(
            "always-as-torch",
            "The answer is always (out, in). That is torch's way; Keras stores (in, out), and here both are drawn.",
            {CHOICE: 'layout = "out, in"'},
        ),
    ),
)
