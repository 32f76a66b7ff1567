"""Whether rows of attention scores sum to one, of the scores that are returned and those that layers are asked for."""

from collections.abc import Mapping

import numpy as np

from kmha.verify.probing.inputs import Inputs

ROUNDING = 0.01  # what a softmax in bfloat16 may be above 1


def among(results: Mapping[str, np.ndarray], inputs: Inputs) -> set[str]:
    """Which results are scores: but for the first, those (B, H, T, S), and those (B, T, S) that lie between 0 and 1."""
    lengths = {*inputs.lengths().values(), *(x.shape[1] for x in list(results.values())[:1] if x.ndim > 2)}
    found = set()
    for name, x in list(results.items())[1:]:
        between = x.min(initial=0) >= 0 and x.max(initial=0) <= 1 + ROUNDING
        if x.ndim >= 3 and x.shape[0] == inputs.batch and {*x.shape[-2:]} <= lengths and (x.ndim > 3 or between):
            found.add(name)
    return found


def distance(scores: np.ndarray, axes: int = 1) -> tuple[float, str]:
    """How far the sum of a row is from one, at most, and where; rows of zeros attend to nothing, and do not count.

    Args:
        scores: (..., T, S).
        axes: how many axes S is.

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
    """Along which other axis the sums are one, in words; "" if along none.

    >>> sums_along(np.array([[0.75, 0.5], [0.25, 0.5]]), 1e-6)
    'along axis -2, the queries, they sum to one'
    """
    for axis, what in ((-2, "the queries"), (-3, "the heads")):
        if scores.ndim >= -axis and np.abs(scores.astype("float64").sum(axis=axis) - 1).max() <= tolerance:
            return f"along axis {axis}, {what}, they sum to one"
    return ""
