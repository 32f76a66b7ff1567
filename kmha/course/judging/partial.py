"""Compare an answer with a known wrong answer part by part, for an answer that makes another mistake as well.

The answer makes the known mistake if it agrees with the wrong answer wherever that one differs from the solution, in
all calls of a check. Parts that hold little information, such as a single True, prove nothing by themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.course.judging.comparing import same
from kmha.sandbox.sandbox import CallResult

ENOUGH = 12.0  # bits of evidence
_MOST = 40.0
_LARGE, _FILLED = 64, 1e6  # a size is smaller, and a number that fills in is larger
Results = Sequence[CallResult]


def evidence(
    indices: Sequence[int], results: Results, wrong: Results, expected: Results, tolerances: Sequence[float]
) -> float:
    """Return the bits of evidence that an answer makes the mistake of a wrong answer, or 0 if they are too few.

    Args:
        indices: Indices of the calls of a check that the answer fails.
        results: Results of the answer.
        wrong: Results of the wrong answer.
        expected: Results of the solution.
        tolerances: Tolerance of each call.
    """
    bits = 0.0
    for index in indices:
        mine, theirs, right = results[index], wrong[index], expected[index]
        if mine.error is not None or theirs.error is not None:
            if (mine.error or {}).get("kind") != (theirs.error or {}).get("kind"):
                return 0.0
            continue
        for one, other, solution in _differing(mine.value, theirs.value, right.value, tolerances[index]):
            if not same(one, other, tolerances[index]):
                return 0.0
            bits += _bits(other, solution, tolerances[index])
    return bits if bits >= ENOUGH else 0.0


def _differing(mine: Any, theirs: Any, right: Any, tolerance: float) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the smallest parts in which the wrong answer differs from the solution."""
    if same(theirs, right, tolerance):
        return
    if _alike(mine, theirs, right):
        for key in right if isinstance(right, Mapping) else range(len(right)):
            yield from _differing(mine[key], theirs[key], right[key], tolerance)
    else:
        yield mine, theirs, right


def _alike(*values: Any) -> bool:
    """Return whether some results have the same structure at the top. A list of plain numbers has none, as an array."""
    if all(isinstance(each, Mapping) for each in values):
        return all(each.keys() == values[0].keys() for each in values)
    return all(isinstance(each, tuple | list) and len(each) == len(values[0]) for each in values) and any(
        isinstance(each, np.ndarray | Mapping | tuple | list) for each in values[0]
    )


def _bits(wrong: Any, right: Any, tolerance: float) -> float:
    """Return how much information it is that a part is wrong in this very way."""
    if isinstance(wrong, Mapping | tuple | list):
        inner = wrong.values() if isinstance(wrong, Mapping) else wrong
        return min(_MOST, sum(_bits(each, None, tolerance) for each in inner))
    numbers, expected = np.asarray(wrong), np.asarray(right)
    if numbers.dtype.kind not in "biuf":
        return 3.0
    differs = np.ones(numbers.shape, bool)
    if expected.dtype.kind in "biuf" and expected.shape == numbers.shape:
        with np.errstate(invalid="ignore"):
            limit = tolerance * np.abs(expected.astype(float)).max(initial=0)
            differs = ~(np.abs(numbers.astype(float) - expected) <= limit)
    found = np.unique(numbers[differs][:100].astype(float).round(9))
    telling = found[np.isfinite(found) & (found != np.round(found))]
    share = differs.mean() if differs.size else 0.0
    where = 0.0 if share in (0, 1) else -(share * np.log2(share) + (1 - share) * np.log2(1 - share)) * differs.size
    # A count of hundreds is no chance, unlike a size or a filled-in 1e9.
    counts = (np.abs(found) >= _LARGE) & (np.abs(found) < _FILLED) & (numbers.dtype.kind in "iu")
    of_counts = np.minimum(np.log2(np.abs(found[counts])), 10).sum()
    return float(min(_MOST, where + 10 * len(telling) + of_counts + 2 * (len(found) - len(telling) - counts.sum())))
