"""Checks of `recover_output_layer`, and what goes wrong in such a fit."""

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


def draw_layer(rng, decimals):
    """Draw more tokens than unknowns, even in a smallest case.

    The two smaller sizes are those of the features.
    """
    features, outputs, batch, positions = sorted(sizes(rng, 4, least=3))
    if rng.random() < 0.5:
        features, outputs = outputs, features
    positions = max(positions, features + 2)
    joined = rng.normal(scale=1.5, size=(batch, positions, features)).round(decimals)
    output = joined @ rng.uniform(-0.4, 0.4, size=(features, outputs)) + rng.uniform(-0.4, 0.4, size=outputs)
    return {"joined": joined, "output": output.round(decimals)}


def draw(rng):
    return {**draw_layer(rng, 2), "step": 0.01}


def draw_one_decimal(rng):
    """Draw a coarser print, with a step of 0.1."""
    return {**draw_layer(rng, 1), "step": 0.1}


def draw_printed(rng):
    """Return the article's own arrays, with the step left at its default."""
    return {name: np.reshape(PRINTED[name], (3, 6, 8)) for name in ("joined", "output")}


EXERCISE = Exercise(
    title="W_O by least squares",
    question="Which output layer turns the printed joined heads into the printed output? (seed 004)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check("edge", "a different rounding step", 1, draw_one_decimal),
        Check("edge", "the article's own output layer", 1, draw_printed, times=1, tolerance=1e-4),
    ),
    wrong=(
        Wrong(
            "bias-missing-output",
            "You fitted no bias. The kernel then bends to make up for it, and fits no column well. Add a column of "
            "ones.",
            {
                KNOWN: "known = rows",
                SPLIT: "kernel, bias = found, np.zeros(found.shape[1])",
            },
        ),
        Wrong(
            "residual-root-of-the-sum",
            "You took the root of the sum of squares. The root mean square has their mean, so that it does not grow with the "
            "number of tokens.",
            {RESIDUAL: RESIDUAL.replace("np.mean(", "np.sum(")},
        ),
        Wrong(
            "bias-after-the-kernel",
            "You fitted the kernel without a bias, and the bias to what was left. The kernel has bent by then to make up for "
            "it. Fit both together: add a column of ones.",
            {
                KNOWN: "known = rows",
                SPLIT: "kernel, bias = found, (targets - rows @ found).mean(axis=0)",
                RESIDUAL: RESIDUAL.replace("known @ found", "known @ found - bias"),
            },
        ),
        Wrong(
            "bias-from-first-row",
            "You took the first row of the result for the bias, but your ones are in the last column. Take the last "
            "row.",
            {SPLIT: "kernel, bias = found[1:], found[0]"},
        ),
        Wrong(
            "kernel-as-out-in",
            "You returned the kernel as (out, in), as torch stores it. Return (in, out).",
            {SPLIT: SPLIT + "\n    kernel = kernel.T", BOUND: BOUND.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "centred-by-means",
            "You returned the mean of the output as the bias. It still contains the mean of the inputs times the "
            "kernel.",
            {SPLIT: "kernel, bias = found[:-1], targets.mean(axis=0)"},
        ),
        Wrong(
            "first-sentence-only",
            "You used only the tokens of the first sentence. With fewer equations, the rounding weighs more: use "
            "every token.",
            {ROWS: "rows = joined[0]", TARGETS: "targets = output[0]"},
        ),
        Wrong(
            "bias-by-regularizing",
            "You solved the equations with a term that keeps the weights small. It pulls kernel and bias towards "
            "zero: use plain least squares.",
            {
                "found = np.linalg.lstsq(known, targets, rcond=None)[0]": "found = np.linalg.solve("
                "known.T @ known + np.eye(known.shape[1]), known.T @ targets)"
            },
        ),
        Wrong(
            "residual-summed",
            "You summed the squares of the residual over the tokens, as `lstsq` returns them. Return the root of "
            "their mean.",
            {RESIDUAL: "residual = np.sum((targets - known @ found) ** 2, axis=0)"},
        ),
        Wrong(
            "residual-largest",
            "You returned the largest residual of each column instead of the root mean square.",
            {RESIDUAL: "residual = np.max(np.abs(targets - known @ found), axis=0)"},
        ),
        Wrong(
            "residual-by-freedom",
            "You divided the squares by the number of tokens less that of the unknowns. That estimates the noise. The "
            "root mean square divides by the number of tokens.",
            {
                RESIDUAL: "residual = np.sqrt(np.sum((targets - known @ found) ** 2, axis=0) / "
                "np.maximum(len(known) - known.shape[1], 1))"
            },
        ),
        Wrong(
            "bound-without-outputs-rounding",
            "Your bound forgets that the output is rounded too. That adds another half step.",
            {BOUND: "bound = 0.5 * step * np.abs(kernel).sum(axis=0)"},
        ),
        Wrong(
            "bound-with-bias",
            "You summed the bias together with the weights. The bias multiplies a 1, which is not rounded: leave it "
            "out.",
            {BOUND: BOUND.replace("kernel", "found")},
        ),
        Wrong(
            "bound-over-outputs",
            "You summed over the outputs. Each output feature has a column of the kernel, with one weight for each "
            "number of A: sum over that column.",
            {BOUND: BOUND.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "bound-with-signs",
            "You summed the weights with their signs. Weights may cancel, but errors need not: sum the absolute "
            "values.",
            {BOUND: "bound = 0.5 * step * (1 + kernel.sum(axis=0))"},
        ),
        Wrong(
            "bound-absolute-after-the-sum",
            "You took the absolute value after summing the weights. Weights may cancel, but errors need not: take the "
            "absolute values first.",
            {BOUND: "bound = 0.5 * step * (1 + np.abs(kernel.sum(axis=0)))"},
        ),
        Wrong(
            "bound-of-whole-step",
            "You allowed a whole step for each number. Rounding moves a number by at most half a step.",
            {BOUND: "bound = step * (1 + np.abs(kernel).sum(axis=0))"},
        ),
        Wrong(
            "step-of-two-decimals",
            "You used 0.01 whatever `step` says. With one decimal the step is ten times as large.",
            {BOUND: BOUND.replace("step", "0.01")},
        ),
    ),
)
