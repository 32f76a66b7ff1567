"""Read small TOML files, which may be untrusted."""

import tomllib
from pathlib import Path
from typing import Any

from kmha.regular_files import read_regular

MAX_TOML = 64 << 10  # bytes
MAX_DOTS = 100  # `tomllib` keeps each beginning of a dotted key: a key of 80 KB takes gigabytes


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too long.
        ValueError: The file is not TOML, or is nested too deeply.
    """
    text = read_regular(path, MAX_TOML).decode()
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            raise ValueError(f"line {number} has more than {MAX_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply") from None
