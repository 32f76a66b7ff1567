"""Compare a result with the expected one. The messages never contain the expected numbers.

>>> difference(np.array([1.0, 2.5]), np.array([1.0, 2.0]), 1e-5)
'1 of 2 elements differ, the first at [1]: yours is 2.5.'
>>> difference((1, np.zeros((2, 3))), (1, np.zeros((3, 2))), 1e-5)
'result[1] has the shape (2, 3), expected (3, 2).'
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

SMALLEST = 1e-7  # lower bound of the largest expected element, which tolerances are relative to
_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "c": "complex numbers"}


def difference(result: Any, expected: Any, tolerance: float, *, form_only: bool = False) -> str | None:
    """Return a sentence on the first thing that is wrong with a result, or `None`.

    Args:
        result: Arrays, numbers and strings, and tuples, lists and dicts that contain them.
        expected: The solution's result.
        tolerance: Tolerance, relative to the largest expected element of an array.
        form_only: Whether to compare only structure, shapes and dtypes. Then floats are no integers, even whole ones.
    """
    if result is None and expected is not None:
        return "your code returned nothing (None). Is a `return` missing?"
    with np.errstate(all="ignore"):  # a result can hold any numbers
        found = _difference(result, expected, tolerance, form_only, "")
    if found is None:
        return None
    path, says = found
    return f"{path} {says}" if path else says if says[0].isdigit() else f"your result {says}"


def same(one: Any, other: Any, tolerance: float = 1e-6) -> bool:
    """Return whether two results are equal. NaN equals NaN."""
    with np.errstate(all="ignore"):
        return _difference(one, other, tolerance, False, "") is None


_Found = tuple[str, str] | None


def _difference(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    if isinstance(expected, Mapping):
        return _dict_difference(result, expected, tolerance, form_only, path)
    if isinstance(expected, tuple | list):
        return _list_difference(result, expected, tolerance, form_only, path)
    if expected is None or isinstance(expected, str):
        wrong = not isinstance(result, str) if form_only and isinstance(expected, str) else result != expected
        if isinstance(result, np.ndarray) or wrong:
            kind = "None" if expected is None else "another string" if isinstance(result, str) else "a string"
            return path, f"is {_describe(result)}, expected {kind}."
        return None
    return _array_difference(result, expected, tolerance, form_only, path)


def _dict_difference(result: Any, expected: Mapping[Any, Any], tolerance: float, form_only: bool, path: str) -> _Found:
    if not isinstance(result, Mapping) or result.keys() != expected.keys():
        keys = f"a dict with {', '.join(map(repr, result))}" if isinstance(result, Mapping) else _describe(result)
        return path, f"is {keys}, expected a dict with {', '.join(map(repr, expected))}."
    for key, each in expected.items():
        if found := _difference(result[key], each, tolerance, form_only, f"{path or 'result'}[{key!r}]"):
            return found
    return None


def _list_difference(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    if is_stack(result, expected):
        result = list(result)
    if not isinstance(result, tuple | list) or len(result) != len(expected):
        return path, f"is {_describe(result)}, expected a {type(expected).__name__} of {len(expected)}."
    for index, each in enumerate(expected):
        if found := _difference(result[index], each, tolerance, form_only, f"{path or 'result'}[{index}]"):
            return found
    return None


def is_stack(result: Any, expected: Any) -> bool:
    """Return whether a result is one array whose elements can be unpacked into the expected arrays.

    >>> is_stack(np.zeros((2, 3)), (np.ones(3), np.ones(3)))
    True
    """
    if not isinstance(result, np.ndarray) or result.ndim < 2 or len(result) != len(expected):
        return False
    return all(isinstance(each, np.ndarray) and each.shape == result.shape[1:] for each in expected)


def _array_difference(result: Any, expected: Any, tolerance: float, form_only: bool, path: str) -> _Found:
    if not isinstance(result, str) and has_text(result):
        return path, f"is {_describe(result)}, expected {_describe(np.asarray(expected))}."
    try:
        received, wanted = np.asarray(result), np.asarray(expected)
    except ValueError:  # lists of unequal lengths
        return path, f"is {_describe(result)}, which is not an array. Expected an array of shape {np.shape(expected)}."
    if received.dtype.kind not in _KINDS or isinstance(result, Mapping):
        return path, f"is {_describe(result)}, expected {_describe(wanted)}."
    if received.shape != wanted.shape:
        return path, f"has the shape {received.shape}, expected {wanted.shape}."
    # Whole floats are right as numbers, but not as a shape or an index, which must be integers.
    fractions = received.dtype.kind == "f" and (form_only or not np.array_equal(received, np.round(received)))
    if (received.dtype.kind in "bc") != (wanted.dtype.kind in "bc") or (fractions and wanted.dtype.kind in "iu"):
        return path, f"contains {_KINDS[received.dtype.kind]}, expected {_KINDS[wanted.dtype.kind]}."
    return None if form_only else _element_difference(received, wanted, tolerance, path)


def has_text(value: Any) -> bool:
    """Return whether a value is a string, or a list that contains one.

    Such a list must not become an array: each of its elements would take as much memory as the longest string.
    """
    return isinstance(value, str) or (isinstance(value, tuple | list) and any(map(has_text, value)))


def count(value: Any) -> int:
    """Return the number of elements in an array, or in a list of which one could be made."""
    if isinstance(value, tuple | list):
        return sum(map(count, value))
    return int(np.size(value))


def _element_difference(received: np.ndarray, wanted: np.ndarray, tolerance: float, path: str) -> _Found:
    wrong = _wrong_elements(received, wanted, tolerance)
    if not wrong.any():
        return None
    places = np.argwhere(wrong)
    place = tuple(int(index) for index in places[0])
    value = received[place]
    text = "NaN" if np.isnan(value) else f"{value:.4g}" if received.dtype.kind in "fc" else str(value)
    if not place:
        return path, f"is wrong: yours is {text}." if path else f"is {text}, which is wrong."
    first = ", ".join(map(str, place))
    inside = f" in {path}" if path else ""
    common = _common_index(places, wrong.shape)
    many = f"{wrong.sum():,} of {wrong.size:,} elements differ{inside}"
    return "", f"{many}, the first at [{first}]: yours is {text}.{common}"


def _wrong_elements(received: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Return a mask that is True where elements differ."""
    with np.errstate(all="ignore"):  # a result can hold any numbers
        finite = np.abs(wanted[np.isfinite(wanted)])
        # If all expected elements are 0, there must be room for rounding too.
        limit = tolerance * max(float(finite.max(initial=0.0)), SMALLEST)
        if wanted.dtype.kind in "iu":  # a count is right or wrong, however large it is
            limit = min(limit, 0.5)
        far = np.abs(received.astype(np.complex128) - wanted) > limit
        not_finite = ~(np.isfinite(received) & np.isfinite(wanted))
        equal = (received == wanted) | (np.isnan(received) & np.isnan(wanted))
        return np.where(not_finite, ~equal, far)


def _common_index(places: np.ndarray, shape: tuple[int, ...]) -> str:
    """Return a sentence on the index that all wrong elements share on some axis, or ""."""
    for axis, size in enumerate(shape):
        found = np.unique(places[:, axis])
        if len(found) == 1 and size > 1 and len(places) > 1:
            return f" All of them are at index {found[0]} of axis {axis}."
    return ""


def where(result: Any, expected: Any, tolerance: float, path: str = "result") -> tuple[str, np.ndarray] | None:
    """Return the name of the first matrix in which some elements differ, but not all, and a mask that marks them.

    >>> where((np.eye(2),), (np.ones((2, 2)),), 1e-5)
    ('result[0]', array([[False,  True],
           [ True, False]]))
    """
    if isinstance(expected, Mapping | tuple | list):
        result = list(result) if not isinstance(expected, Mapping) and is_stack(result, expected) else result
        keys = list(expected) if isinstance(expected, Mapping) else range(len(expected))
        inner = (where(result[key], expected[key], tolerance, f"{path}[{key!r}]") for key in keys)
        return next((found for found in inner if found is not None), None)
    if has_text(result):
        return None
    received, wanted = np.asarray(result), np.asarray(expected)
    if received.dtype.kind not in _KINDS or received.shape != wanted.shape or received.ndim < 2:
        return None
    wrong = _wrong_elements(received, wanted, tolerance)
    for place in np.ndindex(*wrong.shape[:-2]):
        if 0 < wrong[place].sum() < wrong[place].size:
            return path + (f"[{', '.join(map(str, place))}]" if place else ""), wrong[place]
    return None


def _describe(value: Any) -> str:
    """Return a short description of a value."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}" if value.shape else f"the number {value.item():.4g}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return "a dict"
    short = not isinstance(value, str) or len(value) < 60
    return text if short and len(text := repr(value)) < 60 else f"a {type(value).__name__}"
