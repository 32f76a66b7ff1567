"""Files that are there whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes) -> None:
    """Writes beside `path` and renames, so that an interrupted run leaves what was there before.

    Through a link it writes where that leads. A device or a pipe, such as /dev/stdout, gets the bytes as they come.
    """
    if path.parent == Path("/dev") or (path.exists() and not path.is_file()):
        with path.open("ab") as device:
            device.write(data)
        return
    path = path.resolve()
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        flush(Path(beside))
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def flush(path: Path) -> None:
    """Has the system put a file on the disk before anything is renamed to its name, for the power may fail."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """As `write_bytes`, indented."""
    write_text(path, json.dumps(value, indent=2) + "\n")
