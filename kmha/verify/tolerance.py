"""The maximum difference between two computations of the same result. Every tolerance of the project is defined here.

A difference is relative to the largest element of the expected array. An element's own size says nothing about the
rounding of the sums that it came from.
"""

from typing import Any

import numpy as np

# Multiples of the half types' epsilon. Query, key and value, scores, mix and output are rounded in turn, and so are
# their gradients, each by half an epsilon of its own size. The largest multiple in
# `kmha compare --dtype mixed_float16 --seed 77` is 3.7.
HALF_FACTOR = 8

RELATIVE = {
    "float64": 1e-10,
    "float32": 2e-5,
    "float16": HALF_FACTOR * 2.0**-10,
    "bfloat16": HALF_FACTOR * 2.0**-7,
}


def relative(dtype: str) -> float:
    """Return the tolerance for a dtype or a dtype policy, such as "float32" or "mixed_bfloat16".

    >>> relative("mixed_float16")
    0.0078125
    """
    return RELATIVE[dtype.removeprefix("mixed_")]


def difference(actual: Any, expected: Any, largest: float | None = None) -> tuple[float, float]:
    """Return the largest absolute difference, and that difference divided by `largest`.

    By default, `largest` is the largest element of `expected`. An unexpected NaN or infinity, or a different shape,
    makes the difference infinite.

    >>> difference(np.array([1.0, 2.5]), np.array([1.0, 2.0]))
    (0.5, 0.25)
    """
    actual, expected = np.asarray(actual, "float64"), np.asarray(expected, "float64")
    if actual.shape != expected.shape or not np.isfinite(actual).all():
        return float("inf"), float("inf")
    absolute = float(np.max(np.abs(actual - expected), initial=0.0))
    largest = float(np.max(np.abs(expected), initial=0.0)) if largest is None else largest
    return absolute, absolute / largest if largest else absolute


def is_close(actual: Any, expected: Any, dtype: str) -> bool:
    """Return whether all elements agree within the tolerance of `dtype`.

    >>> is_close(np.array([1.0, 2.0 + 1e-11]), np.array([1.0, 2.0]), "float64")
    True
    """
    return difference(actual, expected)[1] <= relative(dtype)
