"""Write files atomically: a reader finds either the old file or the complete new file."""

import contextlib
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside `path` and rename it, so that an interrupted run does not change the old file.

    A new file gets the permissions that the umask allows, and a replaced file keeps its permissions. A symbolic link is
    followed. A device or a pipe, such as /dev/stdout, receives the bytes directly.
    """
    if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
        with path.open("ab") as device:
            device.write(data)
        return
    path = path.resolve()
    # The owner needs to write to the new file, even if the old one is read-only.
    mode = stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR if path.exists() else 0o666
    beside = _name_beside(path)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        replace(path, beside)
    except BaseException:
        beside.unlink()
        raise


def replace(path: Path, beside: Path) -> None:
    """Rename the finished file `beside` to `path`, with the permissions of the file that it replaces."""
    descriptor = os.open(beside, os.O_RDWR)
    try:
        os.fsync(descriptor)  # a power failure after the rename must not leave an empty file
    finally:
        os.close(descriptor)
    with contextlib.suppress(FileNotFoundError):
        beside.chmod(stat.S_IMODE(path.stat().st_mode))
    os.replace(beside, path)


def folder_beside(path: Path) -> Path:
    """Create an empty folder with the permissions of `path`, to be filled and then renamed to `path`."""
    beside = _name_beside(path)
    beside.mkdir()
    if path.exists():
        beside.chmod(stat.S_IMODE(path.stat().st_mode))
    return beside


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, in the way of `write_bytes`."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, in the way of `write_bytes`."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def _name_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")
