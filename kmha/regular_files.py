"""Open files of a folder that may come from someone who is not trusted."""

import contextlib
import os
import stat
from pathlib import Path
from typing import IO

MAX_BYTES = 4 << 20  # maximum size of a file in a learner's folder
USUAL_ZIPS = (0, 8)  # stored and deflated; `zipfile` unpacks what is compressed otherwise without a limit


def open_regular(path: Path, *, follow: bool = False, folder: int | None = None) -> IO[bytes]:
    """Open a regular file for reading. A pipe could block, and a device need not end.

    Args:
        path: Path of the file.
        follow: Whether the file may be a link to a regular file.
        folder: Descriptor of the folder that a relative path begins in. Default: the current folder.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not block
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0), dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


def open_below(folder: Path, within: Path) -> IO[bytes]:
    """Open a regular file below a folder, if no part of its path there is a link.

    Someone who can write to the folder could replace any part by a link after kmha has looked at it.

    Raises:
        OSError: The file cannot be opened, a part is a link, or it is not a regular file.
    """
    if os.open not in os.supports_dir_fd:
        return open_regular(folder / within)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in within.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return open_regular(Path(within.name), folder=descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a regular file, or one that a link leads to.

    Raises:
        OSError: The file cannot be read, is not a regular file, or has more than `most` bytes.
    """
    with open_regular(path, follow=True) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"it has more than {f'{most >> 20} MiB' if most >= 1 << 20 else f'{most >> 10} KiB'}")
    return data


def stored_size(path: Path) -> int:
    """Return how many bytes of a file are stored. The holes of a sparse file cost nothing.

    Raises:
        OSError: The file cannot be read, or is not a regular file.
    """
    with open_regular(path, follow=True) as file:
        found = os.fstat(file.fileno())
        if hasattr(found, "st_blocks") and found.st_blocks * 512 < found.st_size:
            with contextlib.suppress(OSError):  # some file systems count the blocks of a new file late
                os.fsync(file.fileno())
            found = os.fstat(file.fileno())
        begins = any(file.read(8))
    # Some file systems count no blocks. But there, too, no file of weights begins with a hole.
    return min(getattr(found, "st_blocks", 0) * 512 or found.st_size * begins, found.st_size)
