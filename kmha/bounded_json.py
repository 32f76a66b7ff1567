"""Parse JSON that may be untrusted."""

import json
from typing import Any

MAX_PARTS = 10**6  # maximum number of brackets and commas in a text, which take half a second


class PartsError(ValueError):
    """A text of JSON has too many parts."""


def from_json(text: str) -> Any:
    """Parse JSON that untrusted code may have written. While Python parses, nothing can interrupt it.

    Raises:
        PartsError: The text has too many parts.
        ValueError: The text is not JSON.
        RecursionError: Its lists or dicts are nested too deeply.
    """
    if sum(map(text.count, "[{,")) > MAX_PARTS:
        raise PartsError(f"it has more than {MAX_PARTS:,} brackets and commas.")
    return json.loads(text)
