"""Attention scores among a layer's results, and the sums of their rows."""

from collections.abc import Mapping

import numpy as np

from kmha.verify.probing.inputs import Inputs

ROUNDING = 0.01  # maximum excess of a bfloat16 score over 1


def among(results: Mapping[str, np.ndarray], inputs: Inputs) -> set[str]:
    """Return the names of all scores (B, H, T, S), or (B, T, S) with numbers from 0 to 1, after the first result."""
    lengths = {*inputs.lengths().values(), *(x.shape[1] for x in list(results.values())[:1] if x.ndim > 2)}
    found = set()
    for name, x in list(results.items())[1:]:
        between = x.min(initial=0) >= 0 and x.max(initial=0) <= 1 + ROUNDING
        if x.ndim >= 3 and x.shape[0] == inputs.batch and {*x.shape[-2:]} <= lengths and (x.ndim > 3 or between):
            found.add(name)
    return found


def distance(scores: np.ndarray, axes: int = 1) -> tuple[float, str]:
    """Return the largest distance of a row's sum from one, and the row's place. Rows of zeros are skipped.

    Args:
        scores: Scores (..., T, S).
        axes: Number of axes of key positions.

    >>> distance(np.array([[0.5, 0.5], [0.5, 0.25]]))
    (0.25, '[1] sums to 0.75')
    """
    sums = scores.astype("float64").sum(axis=tuple(range(-axes, 0)))
    empty = ~(scores != 0).any(axis=tuple(range(-axes, 0)))
    if empty.all():
        return 1.0, "every row is zero"
    away = np.where(empty, 0.0, np.abs(sums - 1))
    away = np.where(np.isnan(away), np.inf, away)
    index = np.unravel_index(int(away.argmax()), away.shape)
    return float(away.max()), f"[{', '.join(map(str, index))}] sums to {sums[index]:.4g}"


def sums_along(scores: np.ndarray, tolerance: float) -> str:
    """Return a clause that names another axis along which the sums are one, or "" if there is no such axis.

    >>> sums_along(np.array([[0.75, 0.5], [0.25, 0.5]]), 1e-6)
    'along axis -2, the queries, they sum to one'
    """
    for axis, name in ((-2, "the queries"), (-3, "the heads")):
        if scores.ndim >= -axis and np.abs(scores.astype("float64").sum(axis=axis) - 1).max() <= tolerance:
            return f"along axis {axis}, {name}, they sum to one"
    return ""
