"""Open files of a folder that may come from someone who is not trusted."""

import os
import stat
from pathlib import Path
from typing import IO

MAX_BYTES = 4 << 20  # maximum size of a file in a learner's folder


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a regular file for reading. A pipe could block, and a device need not end.

    Args:
        path: Path of the file.
        follow: Whether the file may be a link to a regular file.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not block
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a regular file, or one that a link leads to.

    Raises:
        OSError: The file cannot be read, is not a regular file, or has more than `most` bytes.
    """
    with open_regular(path, follow=True) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"it has more than {most >> 20} MiB")
    return data
