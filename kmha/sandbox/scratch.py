"""The folder in which a learner's code runs: is there too much in it? And how it is removed, whatever is in it."""

import contextlib
import os
import tempfile
from pathlib import Path

WRITTEN, FILES = 64 << 20, 500  # bytes and files that may be in it


def make() -> Path:
    """A new one."""
    return Path(tempfile.mkdtemp(prefix="kmha-course-"))


def too_much(folder: Path) -> bool:
    """Whether there are too many files, too many bytes, or folders that paths are too short for."""
    count = size = 0
    pending = [os.fspath(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        size += _size(entry)
                    if count > FILES or size > WRITTEN:
                        return True
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError:
            return True
    return False


def remove(folder: Path) -> None:
    """Removes it.

    The folders in it are moved beside each other first: nested by the thousand, they are too deep for paths, for
    recursion, and for the number of files that may be open.
    """
    with contextlib.suppress(OSError):
        beside = tempfile.mkdtemp(prefix="kmha-course-")
        pending, count = [os.fspath(folder)], 0
        while pending:
            here = pending.pop()
            with contextlib.suppress(OSError):
                os.chmod(here, 0o700)  # a folder can be made that its maker cannot look into
                for entry in list(os.scandir(here)):
                    if entry.is_dir(follow_symlinks=False):
                        count += 1
                        os.chmod(entry.path, 0o700)
                        pending.append(os.path.join(beside, str(count)))
                        os.rename(entry.path, pending[-1])
                    else:
                        os.unlink(entry.path)
                os.rmdir(here)
        os.rmdir(beside)


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
