"""The scratch folder of a task: create it, check its limits, and remove it whatever it contains."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

LARGEST, FILES = 64 << 20, 500  # maximum numbers of bytes and of files in a scratch folder
MAPS = 32 << 20  # maximum number of bytes in the kernel's list of mapped files, which takes a second to read


def make() -> Path:
    """Create an empty scratch folder for a task, and return its path."""
    # The kernel names the files of a process without symbolic links.
    return Path(os.path.realpath(tempfile.mkdtemp(prefix="kmha-sandbox-")))


def exceeds_limits(folder: Path, process: int | None = None) -> bool:
    """Return whether a folder has too many files or bytes, or folders nested deeper than a path can name.

    The files that a process keeps open or mapped after it removed them count too, where the system tells (Linux).
    """
    count, size = 0, 0
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
                    if count > FILES:
                        return True
        except FileNotFoundError:  # the task removed it meanwhile
            continue
        except OSError:
            return True
    return size > LARGEST or (process is not None and size + removed_size(folder, process) > LARGEST)


def removed_size(folder: Path, process: int) -> int:
    """Return the number of bytes in the files of a folder that a process has removed and still uses.

    Nothing tells the size of a file that is only mapped, so it counts as a quarter of what all files may have. A list
    of mapped files that is too long to read counts as more than all of it.
    """
    with contextlib.suppress(OSError):  # the process has ended, or this system does not tell
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):  # the thread has ended, even if it is the first one
                # All threads share their files and their memory.
                if (found := _removed_sizes(folder, f"/proc/{process}/task/{thread}")) is not None:
                    return sum(found.values())
    return 0


def _removed_sizes(folder: Path, thread: str) -> dict[int, int] | None:
    """Return the sizes of `removed_size`, keyed by inode, or `None` if the thread uses no files at all."""
    sizes: dict[int, int] = {}
    used = False
    for entry in os.scandir(f"{thread}/fd"):
        used = True
        with contextlib.suppress(OSError):
            found = entry.stat()
            if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                sizes[found.st_ino] = _bytes(found)
    within = b" " + os.fsencode(folder) + b"/"
    left = MAPS
    with open(f"{thread}/maps", "rb") as maps:  # as bytes: a name may contain what ends a line of text
        while left > 0 and (line := maps.readline(left)):
            used, left = True, left - len(line)
            if within in line and line.endswith(b" (deleted)\n"):
                sizes.setdefault(int(line.split()[4]), LARGEST // 4)
    if left <= 0:
        sizes[0] = LARGEST + 1
    return sizes if used else None


def remove(folder: Path) -> None:
    """Remove a scratch folder.

    Untrusted code can nest thousands of folders. That is too deep for a path, for recursion, and for the limit on open
    files, so each inner folder is moved to the top before it is emptied.
    """
    with contextlib.suppress(OSError):
        beside = tempfile.mkdtemp(prefix="kmha-sandbox-")
        pending, count = [os.fspath(folder)], 0
        while pending:
            current = pending.pop()
            with contextlib.suppress(OSError):
                os.chmod(current, 0o700)  # the task may have made the folder unreadable
                for entry in list(os.scandir(current)):
                    if entry.is_dir(follow_symlinks=False):
                        count += 1
                        os.chmod(entry.path, 0o700)
                        pending.append(os.path.join(beside, str(count)))
                        os.rename(entry.path, pending[-1])
                    else:
                        os.unlink(entry.path)
                os.rmdir(current)
        os.rmdir(beside)


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return _bytes(entry.stat(follow_symlinks=False))
    except OSError:
        return 0


def _bytes(found: os.stat_result) -> int:
    """Return the size of a file, or the room that it takes on the disk, which can reach beyond its end."""
    return max(found.st_size, 512 * getattr(found, "st_blocks", 0))
