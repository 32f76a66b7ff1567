"""The process from which every sandbox is forked: what takes seconds to import is imported once.

It reads tasks from standard input and writes what came of them to standard output, each message with its length before
it. It holds no expected value: the solution runs in a fork of its own, and what it gives is kept by who asked.
"""

import contextlib
import importlib
import os
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from kmha.course import answering, jail
from kmha.course.encoding import LARGEST, decode, encode

LENGTH = struct.Struct("<Q")
WRITTEN, FILES = 64 << 20, 500  # bytes and files in a scratch folder
LOOK = 0.1  # seconds between looks at the scratch folder
MODULES = {"keras": "keras", "tensorflow": "tensorflow", "matplotlib": "matplotlib.pyplot"}


def main(uses: list[str]) -> None:
    """Imports what is used, says so with an empty message, and then runs task after task."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _nothing_to(0, 1, 2)  # what libraries and answers write is not what we write
    for name in uses:
        if name in MODULES:
            importlib.import_module(MODULES[name])
    write(sink, b"")
    while (message := read(source)) is not None:
        write(sink, encode(run(decode(message))))


def write(sink: BinaryIO, message: bytes) -> None:
    """A message with its length."""
    sink.write(LENGTH.pack(len(message)) + message)
    sink.flush()


def read(source: BinaryIO) -> bytes | None:
    """A message, or `None` at the end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = source.read(length)
    return message if len(message) == length else None


def run(task: Mapping[str, Any]) -> dict[str, Any]:
    """What a fork sent; its exit status, negative for a signal; and why it was stopped, if it was."""
    scratch = Path(tempfile.mkdtemp(prefix="kmha-course-"))
    reader, writer = os.pipe()
    try:
        process = os.fork()
        if not process:
            _child(task, scratch, writer)
        os.close(writer)
        sent, stopped = _collected(reader, scratch, task["seconds"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)  # it has said all it will say
        _, status = os.waitpid(process, 0)
    finally:
        os.close(reader)
        shutil.rmtree(scratch, ignore_errors=True)
    return {"sent": np.frombuffer(sent, np.uint8), "stopped": stopped, "status": os.waitstatus_to_exitcode(status)}


def _child(task: Mapping[str, Any], scratch: Path, writer: int) -> NoReturn:
    try:
        _nothing_to(0, 1, 2)
        os.closerange(3, writer)
        os.closerange(writer + 1, 4096)
        os.chdir(scratch)
        os.environ.clear()
        os.environ.update(HOME=str(scratch), TMPDIR=str(scratch), LANG="C.UTF-8", TF_CPP_MIN_LOG_LEVEL="3")
        tempfile.tempdir = str(scratch)
        jail.lock(scratch, task["seconds"])
        answering.answer(task, lambda message: _send(writer, message))
        os._exit(0)
    finally:
        os._exit(1)


def _send(writer: int, message: bytes) -> None:
    rest = memoryview(LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(writer, rest) :]


def _collected(reader: int, scratch: Path, seconds: float) -> tuple[bytes, str]:
    """All that comes until the other end closes, and "time", "files" or "output" where it had to be stopped."""
    pieces, size, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([reader], [], [], LOOK)[0]:
            piece = os.read(reader, 1 << 20)
            if not piece:
                return b"".join(pieces), ""
            pieces.append(piece)
            size += len(piece)
        if size > LARGEST:
            return b"", "output"
        if _too_much(scratch):
            return b"".join(pieces), "files"
    return b"".join(pieces), "time"


def _too_much(scratch: Path) -> bool:
    count = size = 0
    for folder, _, names in os.walk(scratch):
        count += 1 + len(names)
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
        if count > FILES or size > WRITTEN:
            return True
    return False


def _nothing_to(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    if nowhere > 2:
        os.close(nowhere)


if __name__ == "__main__":
    main(sys.argv[1:])
