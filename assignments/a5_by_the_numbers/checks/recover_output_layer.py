"""What is checked of `recover_output_layer`, and what goes wrong in such a fit."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
ROWS = "rows = joined.reshape(-1, joined.shape[-1])"
TARGETS = "targets = output.reshape(-1, output.shape[-1])"
KNOWN = "known = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)"
SPLIT = "kernel, bias = found[:-1], found[-1]"
RESIDUAL = "residual = np.sqrt(np.mean((targets - known @ found) ** 2, axis=0))"
BOUND = "bound = 0.5 * step * (1 + np.abs(kernel).sum(axis=0))"


def layer(rng, decimals):
    """More tokens than unknowns, in a smallest case too: the two smaller sizes are the features'."""
    features, outputs, batch, positions = sorted(sizes(rng, 4, least=3))
    if rng.random() < 0.5:
        features, outputs = outputs, features
    positions = max(positions, features + 2)
    joined = rng.normal(scale=1.5, size=(batch, positions, features)).round(decimals)
    output = joined @ rng.uniform(-0.4, 0.4, size=(features, outputs)) + rng.uniform(-0.4, 0.4, size=outputs)
    return {"joined": joined, "output": output.round(decimals)}


def draw(rng):
    return {**layer(rng, 2), "step": 0.01}


def one_decimal(rng):
    """Coarser print: a step of 0.1."""
    return {**layer(rng, 1), "step": 0.1}


def printed(rng):
    """The article's own arrays, with the step left to its default."""
    return {name: np.reshape(PRINTED[name], (3, 6, 8)) for name in ("joined", "output")}


EXERCISE = Exercise(
    title="W_O by least squares",
    question="Which output layer made the printed output of the printed joined heads? (seed 004)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check("edge", "another step of rounding", 1, one_decimal),
        Check("values", "the article's own output layer", 1, printed, times=1, tolerance=1e-4),
    ),
    wrong=(
        Wrong(
            "bias-missing-output",
            "There is no bias in the fit: the kernel must bend to make up for it, and fits no column well.",
            {
                KNOWN: "known = rows",
                SPLIT: "kernel, bias = found, np.zeros(found.shape[1])",
            },
        ),
        Wrong(
            "bias-from-first-row",
            "The first row of what was found is taken for the bias, but the ones stand in the last column.",
            {SPLIT: "kernel, bias = found[1:], found[0]"},
        ),
        Wrong(
            "kernel-as-out-in",
            "The kernel is returned as (out, in), as torch stores it: here (in, out) is asked for.",
            {SPLIT: SPLIT + "\n    kernel = kernel.T", BOUND: BOUND.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "centred-by-means",
            "The means are taken off both arrays and the output's mean is returned as bias: it still holds the mean of the "
            "inputs times the kernel.",
            {SPLIT: "kernel, bias = found[:-1], targets.mean(axis=0)"},
        ),
        Wrong(
            "first-sentence-only",
            "Only the first sentence's tokens are used: fewer equations, and the rounding weighs more. Every token counts.",
            {ROWS: "rows = joined[0]", TARGETS: "targets = output[0]"},
        ),
        Wrong(
            "bias-by-regularizing",
            "The equations are solved with a term that keeps the weights small: kernel and bias are pulled towards zero.",
            {
                "found = np.linalg.lstsq(known, targets, rcond=None)[0]": "found = np.linalg.solve("
                "known.T @ known + np.eye(known.shape[1]), known.T @ targets)"
            },
        ),
        Wrong(
            "residual-summed",
            "The squares of the residual are summed over the tokens, as `lstsq` returns them: their mean's root is asked for.",
            {RESIDUAL: "residual = np.sum((targets - known @ found) ** 2, axis=0)"},
        ),
        Wrong(
            "residual-largest",
            "The largest residual of each column is returned in place of the root mean square.",
            {RESIDUAL: "residual = np.max(np.abs(targets - known @ found), axis=0)"},
        ),
        Wrong(
            "bound-without-outputs-rounding",
            "The bound forgets that the output is rounded too: half a step more.",
            {BOUND: "bound = 0.5 * step * np.abs(kernel).sum(axis=0)"},
        ),
        Wrong(
            "bound-with-bias",
            "The bias is summed with the weights: it multiplies a 1, which is not rounded.",
            {BOUND: BOUND.replace("kernel", "found")},
        ),
        Wrong(
            "bound-over-outputs",
            "The sum runs over the outputs: each output feature has a column of the kernel, one weight for each number of A.",
            {BOUND: BOUND.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "bound-with-signs",
            "The weights are summed with their signs: errors need not cancel because weights do.",
            {BOUND: "bound = 0.5 * step * (1 + kernel.sum(axis=0))"},
        ),
        Wrong(
            "bound-of-whole-step",
            "A whole step is allowed for each number: rounding moves it by half a step at most.",
            {BOUND: "bound = step * (1 + np.abs(kernel).sum(axis=0))"},
        ),
        Wrong(
            "step-of-two-decimals",
            "The step is taken for 0.01 whatever `step` says: with one decimal it is ten times as much.",
            {BOUND: BOUND.replace("step", "0.01")},
        ),
    ),
)
