"""Check the record of a released exercise, which may be damaged, or made by someone who is not trusted.

>>> problem({"title": "Twice as much"})
'it has no question'
"""

import string
from collections.abc import Callable, Container, Mapping
from typing import Any

from kmha.course.exercises import cells
from kmha.course.exercises.exercise import LAYERS, LIBRARIES

LONGEST_TIME = 3_600  # seconds
_MOST = 1_000_000  # points, minutes, and times


def problem(record: Any) -> str | None:
    """Return what is wrong with the record of a released exercise, or `None`."""
    if found := _unlike(record, _RECORD, "it"):
        return found
    calls = len(record["asked"])
    if len(record["expected"]) != calls:
        return f"it has {len(record['expected'])} expected results for {calls} calls"
    if any(not 0 <= index < calls for check in record["checks"] for index in check["of"]):
        return "a check is of a call that does not exist"
    return None


def _unlike(value: Any, wanted: Mapping[str, Callable[[Any], bool]], name: str) -> str | None:
    """Return how a dictionary differs from what is wanted, or `None`."""
    if not isinstance(value, Mapping):
        return f"{name} is not a dictionary"
    missing = [key for key in wanted if key not in value]
    wrong = [key for key in wanted if key in value and not wanted[key](value[key])]
    if missing or wrong:
        return f"{name} has no {missing[0]}" if missing else f"its {wrong[0]} cannot be used"
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_title(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _is_one_of(names: Container[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _is_number(least: float, most: float, *kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, *kinds) and least <= value <= most


def _are(each: Callable[[Any], bool], least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and len(value) >= least and all(map(each, value))


def _like(wanted: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: _unlike(value, wanted, "") is None


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and cells.syntax_tree(value) is not None


def _is_book(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(text, str) and not len(text) % 2 and {*text} <= {*string.hexdigits} for text in value.values()
    )


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_anything(value: Any) -> bool:
    return True


_CALL = {"ask": lambda value: value is None or isinstance(value, str), "inputs": _is_mapping}
_SMALL = {"inputs": _is_mapping, "expected": _is_anything}
_CHECK = {
    "layer": _is_one_of(LAYERS),
    "says": _is_text,
    "points": _is_number(1, _MOST),
    "times": _is_number(1, _MOST),
    "tolerance": _is_number(0, 1, float),
    "judged": lambda value: isinstance(value, bool),
    "of": _are(_is_number(0, _MOST), least=1),
    "small": _are(_like(_SMALL)),
}
_RECORD = {
    "title": _is_title,
    "question": _is_text,
    "difficulty": _is_number(1, 3),
    "minutes": _is_number(0, _MOST),
    "seconds": _is_number(0, LONGEST_TIME, float),
    "uses": _are(_is_one_of(LIBRARIES)),
    # These are names of files too.
    "needs": _are(lambda value: isinstance(value, str) and value.isidentifier()),
    "forbids": _are(_is_text),
    "all_points": _is_number(0, _MOST),
    "text": lambda value: isinstance(value, str) and bool(value.strip()),
    "starter": _is_code,
    "hints": _are(_is_text, least=1),
    "checks": _are(_like(_CHECK)),
    "asked": _are(_like(_CALL)),
    "expected": _are(_is_anything),
    "mistakes": _is_book,
}
