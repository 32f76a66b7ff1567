"""Plain data for JSON, in which no text can change a terminal."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

LONGEST = 100_000  # maximum number of characters of a text
# Control characters other than line breaks, the marks that turn text around, and halves of surrogate pairs.
_HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: Any) -> Any:
    """Return a value as dicts, lists, texts, finite numbers, booleans and `None`.

    >>> plain({"error": "\\x1b[31mred", "far": float("inf"), "shape": (2, np.int64(3))})
    {'error': '\\\\x1b[31mred', 'far': None, 'shape': [2, 3]}
    """
    if isinstance(value, str):
        return clean(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return clean(str(value))


def clean(text: str) -> str:
    """Return a text with its control characters written out as escapes, and without what is too long to print.

    >>> clean("a\\x07b\\n")
    'a\\\\x07b\\n'
    """
    text = text[: LONGEST + 1]  # the escapes of a longer one would take seconds
    text = _HARMFUL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
