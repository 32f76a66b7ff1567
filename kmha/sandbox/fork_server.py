"""The process from which every sandbox is forked: what takes seconds to import is imported once.

It looks whether a task has come, and forks a keeper, which reads it from standard input and has it run in a fork of its
own: what a fork asks in between it passes on, and what came of the task it writes to standard output, each message with
its length before it. So the code of a task, and what it gives, are in its own fork and in its keeper: a later one, that
looks through the memory that it was forked with, finds neither the solution, nor what another student wrote.
"""

import contextlib
import importlib
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from kmha.sandbox import limits, scratch, worker, worker_api
from kmha.sandbox.encoding import LARGEST, LENGTH, decode, encode, read, write
from kmha.sandbox.shutdown import Ending

ASKS = 1 << 63  # in the length of a message that wants a reply
HEAD = 1 << 12  # bytes, at most, that a message of ours has beside what a fork sent
LOOK = 0.1  # seconds between looks at the scratch folder
AGAIN = 0.02  # seconds between signals
MODULES = {"keras": "keras", "tensorflow": "tensorflow", "matplotlib": "matplotlib.pyplot"}


_ending = Ending()


def main(uses: list[str]) -> None:
    """Imports what is used, says so with an empty message, and then has task after task kept."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    signal.signal(signal.SIGTERM, _ending.told)
    _nothing_to(0, 1, 2)  # what libraries and answers write is not what we write
    for name in uses:
        if name in MODULES:
            importlib.import_module(MODULES[name])
    write(sink, b"")
    while select.select([source], [], []) and _kept(source, sink):
        pass


def _kept(source: BinaryIO, sink: BinaryIO) -> bool:
    """Whether a task came, and was kept to its end by a process of its own."""
    with _ending.later():
        parent, process = os.getpid(), os.fork()
        if not process:
            _keep(source, sink, parent)
        _ending.left.callback(_end_keeper, process)
    status = os.waitpid(process, 0)[1]
    with _ending.later():
        _ending.left.pop_all()
    return status == 0


def _keep(source: BinaryIO, sink: BinaryIO, parent: int) -> NoReturn:
    def serve(message: bytes) -> bytes:
        write(sink, encode({"asked": np.frombuffer(message, np.uint8)}))
        return read(source) or b""

    try:
        limits.end_with(parent, signal.SIGTERM)
        _ending.release()  # of its parent, it has nothing to clear up
        if (message := read(source)) is not None:
            write(sink, encode(run(decode(message), serve)))
            os._exit(0)
    finally:
        _ending.now()


def _end_keeper(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has ended
        while os.waitpid(process, os.WNOHANG) == (0, 0):
            os.kill(process, signal.SIGTERM)  # more than once: Python drops a signal that comes while a fork begins
            time.sleep(AGAIN)


def run(task: Mapping[str, Any], serve: Callable[[bytes], bytes]) -> dict[str, Any]:
    """What a fork sent; its exit status, negative for a signal; and why it was stopped, if it was.

    `serve` answers what the fork asks in between (`kmha.sandbox.worker_api.remote`). What is open is closed with this
    process.
    """
    status: list[int] = []
    with _ending.later():
        folder = scratch.make()
        _ending.left.callback(scratch.remove, folder)
        (reader, child_writer), (child_reader, writer) = os.pipe(), os.pipe()
        parent, process = os.getpid(), os.fork()
        if not process:
            _child(task, folder, child_reader, child_writer, parent)
        _ending.left.callback(lambda: status.append(_kill(process)))  # when it has said all it will say
        os.close(child_writer)
        os.close(child_reader)
    relay = _Relay(reader, writer, serve, time.monotonic() + task["seconds"])
    stopped = relay.run(folder)
    with _ending.later():
        _ending.left.close()
    sent = np.frombuffer(b"".join(relay.sent), np.uint8)
    return {"sent": sent, "stopped": stopped, "status": os.waitstatus_to_exitcode(status[0])}


def _kill(process: int) -> int:
    """Its status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def _child(task: Mapping[str, Any], folder: Path, reader: int, writer: int, parent: int) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        limits.end_with(parent, signal.SIGKILL)
        _nothing_to(0, 1, 2)
        for descriptor in range(3, _highest()):
            if descriptor not in (reader, writer):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(HOME=str(folder), TMPDIR=str(folder), LANG="C.UTF-8", TF_CPP_MIN_LOG_LEVEL="3")
        tempfile.tempdir = str(folder)
        limits.lock(folder, task["seconds"])
        worker_api.connect(lambda message: _send(writer, message, ASKS), os.fdopen(reader, "rb"))
        worker.answer(task, lambda message: _send(writer, message))
        os._exit(0)
    finally:
        os._exit(1)


def _highest() -> int:
    """Above all descriptors that are open."""
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    return 1024


class _Relay:
    """Takes what a fork sends, and has answered what it asks."""

    def __init__(self, reader: int, writer: int, serve: Callable[[bytes], bytes], end: float) -> None:
        self.reader, self.writer, self.serve, self.end = reader, writer, serve, end
        self.buffer = bytearray()
        self.sent: list[bytes] = []
        self.size = 0
        os.set_blocking(writer, False)

    def run(self, folder: Path) -> str:
        """Until the other end closes; "time", "files" or "output" where it had to be stopped."""
        looked = time.monotonic()
        while (now := time.monotonic()) < self.end:
            if select.select([self.reader], [], [], LOOK)[0]:
                piece = os.read(self.reader, 1 << 20)
                if not piece:
                    return ""
                self.buffer += piece
                if self.size + len(self.buffer) > LARGEST - HEAD:
                    self.sent.clear()
                    return "output"
                if not self._messages():
                    return "time"
            if now - looked > LOOK:
                looked = now
                if scratch.too_much(folder):
                    return "files"
        return "time"

    def _messages(self) -> bool:
        """Sorts the whole messages among what has come; whether all replies could be handed over in time."""
        while len(self.buffer) >= LENGTH.size:
            (head,) = LENGTH.unpack_from(self.buffer)
            end = LENGTH.size + (head & ~ASKS)
            if len(self.buffer) < end:
                return True
            message = bytes(self.buffer[:end])
            del self.buffer[:end]
            if not head & ASKS:
                self.sent.append(message)
                self.size += len(message)
            elif not self._reply(self.serve(message[LENGTH.size :])):
                return False
        return True

    def _reply(self, message: bytes) -> bool:
        """Whether the fork took the message in time: it may not even read."""
        rest = memoryview(LENGTH.pack(len(message)) + message)
        while rest:
            if not select.select([], [self.writer], [], max(self.end - time.monotonic(), 0))[1]:
                return False
            try:
                rest = rest[os.write(self.writer, rest) :]
            except BrokenPipeError:
                return True
        return True


def _send(writer: int, message: bytes, flag: int = 0) -> None:
    rest = memoryview(LENGTH.pack(len(message) | flag) + message)
    while rest:
        rest = rest[os.write(writer, rest) :]


def _nothing_to(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    if nowhere > 2:
        os.close(nowhere)


if __name__ == "__main__":
    main(sys.argv[1:])
