"""Errors of the conversions and the files, and the guard against decompression bombs."""

import importlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from kmha.regular_files import USUAL_ZIPS

LIMIT = 2**30  # bytes; smaller arrays are never refused
GROWTH = 100  # no weights compress by this factor
MADE = 4  # no conversion makes arrays that together are this many times as large as the weights
MOST_ARRAYS, LONGEST_NAME = 20_000, 1_000  # finding the layout takes time for each array and each letter


class LayoutError(ValueError):
    """Raised when weights do not have the expected layout, or when a layout cannot hold the weights."""


class FileError(ValueError):
    """Raised when a weights file cannot be read or written. The message names the file, the reason and the remedy."""


def listed(names: object, most: int = 12) -> str:
    """Return sorted names as text for an error message. Only the first `most` names are listed.

    >>> listed(["b", "a"]), listed(["c", "b", "a"], most=2), listed([])
    ('`a`, `b`', '`a`, `b` and 1 more', 'none')
    """
    ordered = sorted(names)  # type: ignore[call-overload]
    shown = ", ".join(f"`{name}`" for name in ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown or "none"


def optional(module: str, extra: str) -> Any:
    """Import a module of a package that belongs to one of kmha's extras.

    Raises:
        FileError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise FileError(f"{name} is not installed. Run: pip install 'kmha[{extra}]'") from None


def check_declared(name: str, declared: int, stored: int, growth: int = GROWTH) -> None:
    """Raise a FileError if an array declares far more bytes than the file stores for it.

    >>> check_declared("layers", 2**40, 2**20)
    Traceback (most recent call last):
    kmha.interchange.errors.FileError: `layers` takes 1,048,576 bytes in the file and would take 1,099,511,627,776 in memory. No weights compress like that, so it is not read.
    """  # noqa: E501 - the message is one line
    if declared > LIMIT and declared > growth * stored:
        raise FileError(
            f"`{name}` takes {stored:,} bytes in the file and would take {declared:,} in memory. No weights compress "
            "like that, so it is not read."
        )


class Made:
    """Counts the bytes of the arrays that a conversion makes, and refuses far more than the weights have.

    >>> made = Made({"key/kernel": memoryview(b"abc")})
    >>> made.add("key/bias", 2**30)
    >>> made.add("query/bias", 2**40)
    Traceback (most recent call last):
    kmha.interchange.errors.LayoutError: With `query/bias`, what is made would take 1,100,585,369,600 bytes, and all weights together have 3. No layer has such sizes. Check the shapes in the file.
    """  # noqa: E501 - the message is one line

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.given, self.bytes = sum(array.nbytes for array in weights.values()), 0

    def add(self, name: str, count: int) -> None:
        """Count the bytes of an array that is about to be made.

        Raises:
            LayoutError: There are far more than the weights have.
        """
        self.bytes += count
        if self.bytes > max(LIMIT, MADE * self.given):
            raise LayoutError(
                f"With `{name}`, what is made would take {self.bytes:,} bytes, and all weights together have "
                f"{self.given:,}. No layer has such sizes. Check the shapes in the file."
            )


def check_parts(parts: Sequence[tuple[str, int, int]], growth: int = GROWTH) -> None:
    """Check (name, declared bytes, stored bytes) of each part, and the sums: many small parts can add up to a bomb.

    `growth` is for the parts. A single one can be all zeros, but never all of them.
    """
    for name, declared, stored in parts:
        check_declared(name, declared, stored, growth)
    check_declared("all arrays", sum(part[1] for part in parts), sum(part[2] for part in parts))


def check_archive(archive: zipfile.ZipFile) -> None:
    """Check the sizes of all members of an archive with `check_parts`, and the rest with `check_members`."""
    check_members(archive)
    check_parts([(entry.filename, entry.file_size, entry.compress_size) for entry in archive.infolist()])


def check_members(archive: zipfile.ZipFile) -> None:
    """Raise a FileError if the members of an archive cannot lie side by side in its file, or are packed unusually.

    Overlapping members share stored bytes. Python refuses them only since 3.11.8 and 3.12.2.
    """
    for entry in archive.infolist():
        if entry.compress_type not in USUAL_ZIPS:
            name = f"{entry.filename!a:.80}"
            raise FileError(f"its member {name} is compressed in an unusual way, so it is not read. Save it again.")
    file: Any = archive.fp
    stored, there = sum(entry.compress_size for entry in archive.infolist()), os.fstat(file.fileno()).st_size
    if stored > there:
        raise FileError(
            f"its members take {stored:,} bytes together, but the file has {there:,}: they overlap. It is damaged, or "
            "made to take all memory, so it is not read. Save the weights again."
        )
