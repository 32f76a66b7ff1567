"""Is a result the one that was expected? What is said never holds the expected numbers.

>>> difference(np.array([1.0, 2.5]), np.array([1.0, 2.0]), 1e-5)
'1 of 2 elements differ, the first at [1]: yours is 2.5.'
>>> difference((1, np.zeros((2, 3))), (1, np.zeros((3, 2))), 1e-5)
'result[1] has the shape (2, 3), expected (3, 2).'
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

SMALL = 1e-7  # what the largest element of an array is taken to be at least
_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "c": "complex numbers"}


def difference(result: Any, expected: Any, tolerance: float, *, form_only: bool = False) -> str | None:
    """What is wrong with a result, in a sentence, or `None`.

    Args:
        result: arrays, numbers, text, and tuples, lists and dicts of them.
        expected: the solution's.
        tolerance: relative to the largest expected element of an array.
        form_only: whether only structure, shapes and dtypes count.
    """
    found = _difference(result, expected, tolerance, form_only, "")
    if found is None:
        return None
    path, says = found
    return f"{path} {says}" if path else says if says[0].isdigit() else f"it {says}"


def same(one: Any, other: Any, tolerance: float = 1e-6) -> bool:
    """Whether two results are equal, wrong or not: NaN equals NaN."""
    return _difference(one, other, tolerance, False, "") is None


_Found = tuple[str, str] | None


def _difference(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    if isinstance(expected, Mapping):
        return _of_dicts(result, expected, tolerance, form_only, path)
    if isinstance(expected, tuple | list):
        return _of_lists(result, expected, tolerance, form_only, path)
    if expected is None or isinstance(expected, str):
        wrong = not isinstance(result, str) if form_only and isinstance(expected, str) else result != expected
        if isinstance(result, np.ndarray) or wrong:
            said = "nothing (None)" if expected is None else "another text" if isinstance(result, str) else "a text"
            return path, f"is {_said(result)}, expected {said}."
        return None
    return _of_arrays(result, expected, tolerance, form_only, path)


def _of_dicts(result: Any, expected: Mapping[Any, Any], tolerance: float, form_only: bool, path: str) -> _Found:
    if not isinstance(result, Mapping) or result.keys() != expected.keys():
        keys = f"a dict with {', '.join(map(repr, result))}" if isinstance(result, Mapping) else _said(result)
        return path, f"is {keys}; expected a dict with {', '.join(map(repr, expected))}."
    for key, each in expected.items():
        if found := _difference(result[key], each, tolerance, form_only, f"{path or 'result'}[{key!r}]"):
            return found
    return None


def _of_lists(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    if not isinstance(result, tuple | list) or len(result) != len(expected):
        return path, f"is {_said(result)}; expected a {type(expected).__name__} of {len(expected)}."
    for index, each in enumerate(expected):
        inner = f"{path or 'result'}[{index}]"
        if found := _difference(result[index], each, tolerance, form_only, inner):
            return found
    return None


def _of_arrays(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    try:
        received, wanted = np.asarray(result), np.asarray(expected)
    except ValueError:  # lists of unequal lengths
        return path, f"is {_said(result)}, which is no array; expected one of shape {np.shape(expected)}."
    if received.dtype.kind not in _KINDS or isinstance(result, Mapping):
        return path, f"is {_said(result)}, expected {_said(wanted)}."
    if received.shape != wanted.shape:
        return path, f"has the shape {received.shape}, expected {wanted.shape}."
    if (received.dtype.kind in "bc") != (wanted.dtype.kind in "bc") or (
        received.dtype.kind == "f" and wanted.dtype.kind in "iu" and not _whole(received)
    ):
        return path, f"holds {_KINDS[received.dtype.kind]}, expected {_KINDS[wanted.dtype.kind]}."
    return None if form_only else _of_elements(received, wanted, tolerance, path)


def _of_elements(received: np.ndarray, wanted: np.ndarray, tolerance: float, path: str) -> _Found:
    wrong = _wrong(received, wanted, tolerance)
    if not wrong.any():
        return None
    places = np.argwhere(wrong)
    place = tuple(int(index) for index in places[0])
    value = received[place]
    said = "NaN" if np.isnan(value) else f"{value:.4g}" if received.dtype.kind in "fc" else str(value)
    if not place:
        return path, f"is wrong: yours is {said}."
    first = ", ".join(map(str, place))
    inside = f" in {path}" if path else ""
    only = _only(places, wrong.shape)
    return (
        "",
        f"{wrong.sum():,} of {wrong.size:,} elements differ{inside}, the first at [{first}]: yours is {said}.{only}",
    )


def _wrong(received: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Which elements differ: boolean, of their shape."""
    finite = np.abs(wanted[np.isfinite(wanted)])
    # Where zeros are expected there must be room for rounding too.
    limit = tolerance * max(float(finite.max(initial=0.0)), SMALL)
    with np.errstate(invalid="ignore"):
        far = np.abs(received.astype(np.complex128) - wanted) > limit
    exact = ~(np.isfinite(received) & np.isfinite(wanted))
    alike = (received == wanted) | (np.isnan(received) & np.isnan(wanted))
    return np.where(exact, ~alike, far)


def _only(places: np.ndarray, shape: tuple[int, ...]) -> str:
    """Where they all are, if that is a part of an axis that says something."""
    for axis, size in enumerate(shape):
        found = np.unique(places[:, axis])
        if len(found) == 1 and size > 1 and len(places) > 1:
            return f" All of them are at index {found[0]} of axis {axis}."
    return ""


def where(result: Any, expected: Any, tolerance: float, path: str = "result") -> tuple[str, np.ndarray] | None:
    """The first matrix in which some elements differ and some do not, with its name: boolean, True where they differ.

    >>> where((np.eye(2),), (np.ones((2, 2)),), 1e-5)
    ('result[0]', array([[False,  True],
           [ True, False]]))
    """
    if isinstance(expected, Mapping | tuple | list):
        keys = list(expected) if isinstance(expected, Mapping) else range(len(expected))
        inner = (where(result[key], expected[key], tolerance, f"{path}[{key!r}]") for key in keys)
        return next((found for found in inner if found is not None), None)
    received, wanted = np.asarray(result), np.asarray(expected)
    if received.dtype.kind not in _KINDS or received.shape != wanted.shape or received.ndim < 2:
        return None
    wrong = _wrong(received, wanted, tolerance)
    for place in np.ndindex(*wrong.shape[:-2]):
        if 0 < wrong[place].sum() < wrong[place].size:
            return path + (f"[{', '.join(map(str, place))}]" if place else ""), wrong[place]
    return None


def _whole(array: np.ndarray) -> bool:
    return bool(np.array_equal(array, np.round(array)))


def _said(value: Any) -> str:
    """What a value is, in few words."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}" if value.shape else f"the number {value.item():.4g}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return "a dict"
    return repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__}"
