"""The errors of this room, and the guard against decompression bombs."""

import importlib
import zipfile
from collections.abc import Sequence
from typing import Any

LIMIT = 2**30  # bytes; below, nothing is refused
GROWTH = 100  # weights do not compress that well


class LayoutError(ValueError):
    """Weights do not have the layout that they should have, or one cannot hold them; the message says why."""


class FileError(ValueError):
    """A file of weights cannot be read or written; the message says which, why, and what to do."""


def listed(names: object, most: int = 12) -> str:
    """Names for an error, sorted, the first of them if there are many.

    >>> listed(["b", "a"]), listed(["c", "b", "a"], most=2), listed([])
    ('`a`, `b`', '`a`, `b` and 1 more', 'none')
    """
    ordered = sorted(names)  # type: ignore[call-overload]
    shown = ", ".join(f"`{name}`" for name in ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown or "none"


def optional(module: str, extra: str) -> Any:
    """The module of a package that an extra of ours brings.

    Raises:
        FileError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise FileError(f"{name} is not installed. Run: pip install 'kmha[{extra}]'") from None


def check_declared(name: str, declared: int, stored: int, growth: int = GROWTH) -> None:
    """Raises a FileError where `declared` bytes come from so few `stored` ones that no weights can be in them.

    >>> check_declared("layers", 2**40, 2**20)
    Traceback (most recent call last):
    kmha.interchange.errors.FileError: `layers` takes 1,048,576 bytes in the file and would take 1,099,511,627,776 in memory: no weights compress like that. It is not read.
    """  # noqa: E501 - the message is one line
    if declared > LIMIT and declared > growth * stored:
        raise FileError(
            f"`{name}` takes {stored:,} bytes in the file and would take {declared:,} in memory: no weights compress "
            "like that. It is not read."
        )


def check_parts(parts: Sequence[tuple[str, int, int]], growth: int = GROWTH) -> None:
    """As `check_declared`, for each part of a file, and for all together: many small ones are a large one.

    Args:
        parts: of each the name, and the bytes that it declares and that are stored.
        growth: by how much at most.
    """
    for name, declared, stored in parts:
        check_declared(name, declared, stored, growth)
    check_declared("all together", sum(part[1] for part in parts), sum(part[2] for part in parts), growth)


def check_archive(archive: zipfile.ZipFile) -> None:
    """As `check_parts`, for what is in an archive."""
    check_parts([(entry.filename, entry.file_size, entry.compress_size) for entry in archive.infolist()])
