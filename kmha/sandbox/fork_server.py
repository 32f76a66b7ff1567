"""The fork server: it imports slow libraries only once, and forks two processes for every task.

The fork server waits for a task and forks a *supervisor*. The supervisor reads the task from standard input, and forks
the *worker*, which runs it (`kmha.sandbox.worker`). The supervisor relays the worker's requests, and writes the results
to standard output, each message preceded by its length. The task and its results exist only in these two processes, so
a later task cannot find them in the memory that it inherits.
"""

import contextlib
import importlib
import math
import os
import secrets
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from kmha.sandbox import absent, limits, readable, scratch, worker, worker_api
from kmha.sandbox.encoding import LARGEST, LARGEST_REQUEST, LENGTH, decode, encode, read, write
from kmha.sandbox.shutdown import Shutdown

REQUEST = 1 << 63  # flag in the length of a message that expects a reply
OVERHEAD = 1 << 12  # maximum number of bytes that the supervisor's message adds to what the worker sent
CHUNK = 1 << 20  # maximum number of bytes that are read at once
LEAST = 256  # bytes that a message counts for, because each takes time, even an empty one
POLL = 0.1  # seconds between checks of the scratch folder
THREAD_POLL = 0.02  # seconds between checks of the number of threads, which a process can raise by 30,000 in a second
STOPPING = 5.0  # seconds in which a worker must stand still. Threads that wait for the disk take that long
SKIPPED, SKIPPED_PIPES = 64, 4096  # maximum amounts of numbers that are used up before a worker starts
RESEND = 0.02  # seconds between repeated signals
MODULES = {"numpy": "numpy.random", "keras": "keras", "tensorflow": "tensorflow", "matplotlib": "matplotlib.pyplot"}

Wait = Callable[..., None]  # `_Watch.wait`
Serve = Callable[[bytes, Wait], bytes]

_shutdown = Shutdown()
_readable: list[str] = []  # what a task may read, found once all libraries are imported


def main(uses: list[str]) -> None:
    """Import the libraries, report with an empty message that this is done, and run one task after another."""
    source, sink, errors = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(2), "w")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    signal.signal(signal.SIGTERM, _shutdown.request)
    _redirect_to_null(0, 1, 2)  # libraries and tasks must not write between the messages
    with errors:
        for name in uses:
            if name in MODULES and (missing := _import_error(MODULES[name])):
                errors.write(missing)
                return
    for name in np.__all__:  # `from numpy import *` imports them all, some only then, when a task may read little
        getattr(np, name)
    _readable.extend(readable.paths(uses))
    limits.missing()  # imports what every worker needs to lock itself
    write(sink, b"")
    while select.select([source], [], []) and _run_supervised(source, sink):
        pass


def _import_error(module: str) -> str | None:
    """Import a module. Return a line that says why that is not possible, or `None`."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return f"{error}. Install it: pip install {(error.name or module).partition('.')[0]}"
    except Exception as error:
        return f"{module} cannot be imported. {type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _run_supervised(source: BinaryIO, sink: BinaryIO) -> bool:
    """Fork a supervisor for the next task and wait until it ends. Return False if no task came."""
    with _shutdown.deferred():
        parent, process = os.getpid(), os.fork()
        if not process:
            _supervise(source, sink, parent)
        _shutdown.cleanup.callback(_end_supervisor, process)
    status = os.waitpid(process, 0)[1]
    with _shutdown.deferred():
        _shutdown.cleanup.pop_all()
    return status == 0


def _supervise(source: BinaryIO, sink: BinaryIO, parent: int) -> NoReturn:
    def serve(message: bytes, wait: Wait) -> bytes:
        return _exchange(sink.fileno(), source.fileno(), encode({"request": np.frombuffer(message, np.uint8)}), wait)

    try:
        limits.end_with(parent, signal.SIGTERM)
        _shutdown.release()  # the parent's cleanup is not for this process
        if (message := read(source)) is not None:
            write(sink, encode(run(decode(message), source, serve)))
            os._exit(0)
    finally:
        _shutdown.now()


def _exchange(sink: int, source: int, message: bytes, wait: Wait) -> bytes:
    """Write a message, and return the reply to it. `wait` is called before each piece.

    The exchange goes on if the worker exceeds a limit, or else the reply would later be read as a task. The streams of
    these descriptors have nothing in their buffers then.
    """
    exceeded: list[_ExceededError] = []

    def watch(*files: Sequence[int]) -> None:
        if not exceeded:
            try:
                wait(*files)
            except _ExceededError as error:
                exceeded.append(error)

    def receive(size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            watch([source])
            if not (chunk := os.read(source, min(size - len(found), CHUNK))):
                return b""  # its other end is closed
            found += chunk
        return bytes(found)

    rest = memoryview(LENGTH.pack(len(message)) + message)
    while rest:
        watch([], [sink])
        rest = rest[os.write(sink, rest[: select.PIPE_BUF]) :]  # so much does not block
    head = receive(LENGTH.size)
    reply = receive(LENGTH.unpack(head)[0]) if head else b""
    if exceeded:
        raise exceeded[0]
    return reply


def _end_supervisor(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # the process has ended
        while os.waitpid(process, os.WNOHANG) == (0, 0):
            os.kill(process, signal.SIGTERM)  # repeatedly: Python drops a signal that comes while a fork begins
            time.sleep(RESEND)


def run(task: Mapping[str, Any], source: BinaryIO, serve: Serve) -> dict[str, Any]:
    """Run a task in a worker.

    This process exits afterwards, which closes the pipes.

    Args:
        task: Task as `kmha.sandbox.worker.execute` or `call_function` describes it, with its time limit in `seconds`,
            or `None` if its caller limits the time.
        source: Pipe from the process that waits for the results. When that process ends, the worker is killed.
        serve: Function that answers a request of the worker (`kmha.sandbox.worker_api.remote`). It calls its second
            argument with the file that it waits for.

    Returns:
        A dictionary with `sent` (the bytes that the worker sent), `stopped` (the limit that the worker exceeded, or
        ""), `status` (the exit status of the worker, negative for a signal) and `seconds` (the time that it took,
        without most of the time that it waited for replies).
    """
    status: list[int] = []
    with _shutdown.deferred():
        folder = scratch.make()
        _shutdown.cleanup.callback(scratch.remove, folder)
        (reader, worker_writer), (worker_reader, writer) = os.pipe(), os.pipe()
        _skip_numbers()
        parent, process = os.getpid(), os.fork()
        if not process:
            _work(task, folder, worker_reader, worker_writer, parent)
        _shutdown.cleanup.callback(lambda: status.append(_kill(process)))
        os.close(worker_writer)
        os.close(worker_reader)
    seconds = math.inf if task["seconds"] is None else task["seconds"]
    watch = _Watch(folder, process, source, seconds)
    relay = _Relay(reader, writer, lambda message, wait: watch.pausing(serve, message), watch.wait, watch.still)
    stopped = relay.run()
    seconds = watch.seconds
    with _shutdown.deferred():
        _shutdown.cleanup.close()
    sent = np.frombuffer(b"".join(relay.sent), np.uint8)
    return {"sent": sent, "stopped": stopped, "status": os.waitstatus_to_exitcode(status[0]), "seconds": seconds}


def _skip_numbers() -> None:
    """Use up a random amount of the system's numbers, so that a worker's tell nothing about earlier workers.

    They are the numbers of processes, and those of pipes, which Linux takes from the same counter as what is in /proc.
    """
    for _ in range(secrets.randbelow(SKIPPED)):
        thread = threading.Thread(target=bool)
        thread.start()
        thread.join()
    for _ in range(secrets.randbelow(SKIPPED_PIPES)):
        for end in os.pipe():
            os.close(end)


def _kill(process: int) -> int:
    """Kill a process and return its wait status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def _work(task: Mapping[str, Any], folder: Path, reader: int, writer: int, parent: int) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        limits.end_with(parent, signal.SIGKILL)
        _redirect_to_null(0, 1, 2)
        for descriptor in range(3, _descriptor_limit()):
            if descriptor not in (reader, writer):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.chdir(task.get("folder", folder))
        os.environ.clear()
        os.environ.update(HOME=str(folder), TMPDIR=str(folder), LANG="C.UTF-8", TF_CPP_MIN_LOG_LEVEL="3")
        os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"  # `system_calls` refuses it
        os.environ.update(task.get("environment", {}))
        tempfile.tempdir = str(folder)
        hidden = absent.remove(task.get("absent", ()))
        own = readable.without(_readable, hidden) if hidden else _readable
        limits.lock(folder, task["seconds"], task.get("readable", own), task.get("threads", True))
        worker_api.connect(lambda message: _send(writer, message, REQUEST), os.fdopen(reader, "rb"))
        run_task = worker.call_function if "function" in task else worker.execute
        if run_task is worker.execute:
            readable.forget_own_package()
        else:
            del sys.modules["kmha"]  # a bare one (`kmha.sandbox.sandbox`)
            importlib.import_module("kmha").__dict__["sandbox"] = sys.modules["kmha.sandbox"]
        run_task(task, lambda message: _send(writer, message))
        os._exit(0)
    finally:
        os._exit(1)


def _descriptor_limit() -> int:
    """Return a number above all open file descriptors."""
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    return 1024


class _ExceededError(Exception):
    """A worker must end: its message is a key of `results._STOPPED`, or "alone" if nobody waits for the results."""


class _Watch:
    """Watch over the limits of a worker whenever its supervisor waits, whatever it waits for.

    The time in which the worker waits for a reply does not count, because the grader may be busy with other answers.
    But it counts after `limits.PATIENCE` times the limit: a worker can make requests that take long.
    """

    def __init__(self, folder: Path, process: int, source: BinaryIO, limit: float) -> None:
        self.folder, self.process, self.limit = folder, process, limit
        self.began = self.looked = time.monotonic()
        self.paused, self.pause_began = 0.0, math.inf
        self.is_still = False
        self.source = select.poll()
        self.source.register(source, 0)  # for its end only: a reply may wait in it

    def wait(self, readers: Sequence[Any], writers: Sequence[Any] = ()) -> None:
        """Wait until one of these files or descriptors can be read or written.

        Raises:
            _ExceededError: The worker has exceeded a limit, or nobody waits for it any more. It is killed.
        """
        ready: Any = ()
        while not any(ready):
            if exceeded := self._exceeded():
                os.kill(self.process, signal.SIGKILL)
                raise _ExceededError(exceeded)
            ready = select.select(readers, writers, [], THREAD_POLL)

    @property
    def seconds(self) -> float:
        """The seconds that the worker took until now, without those in which it waited for replies."""
        now = time.monotonic()
        paused = self.paused + max(now - self.pause_began, 0.0)
        return now - self.began - min(paused, limits.PATIENCE * self.limit)

    def pausing(self, serve: Serve, message: bytes) -> bytes:
        """Return the reply to a request, and do not count the time meanwhile."""
        self.pause_began = time.monotonic()
        reply = serve(message, self.wait)
        self.paused += time.monotonic() - self.pause_began
        self.pause_began = math.inf
        return reply

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Stop the worker meanwhile, also within another such context."""
        if self.is_still:
            yield
            return
        with _still(self.process):
            self.is_still = True
            try:
                yield
            finally:
                self.is_still = False

    def _exceeded(self) -> str:
        now = time.monotonic()
        if self.seconds >= self.limit:
            return "time"
        if self.source.poll(0):
            return "alone"
        if limits.too_many_threads(self.process):
            return "threads"
        if limits.too_much_memory(self.process):
            return "memory"
        if now - self.looked > POLL:
            self.looked = now
            with self.still():
                return "files" if scratch.exceeds_limits(self.folder, self.process) else ""
        return ""


@contextlib.contextmanager
def _still(process: int) -> Iterator[None]:
    """Stop a process meanwhile. Otherwise it could always move a folder away before its files are counted."""
    try:
        os.kill(process, signal.SIGSTOP)
        if hasattr(os, "waitid"):  # until all of its threads have stopped, or it has ended
            options, deadline = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG, time.monotonic() + STOPPING
            while os.waitid(os.P_PID, process, options) is None:
                if time.monotonic() > deadline:
                    raise _ExceededError("files")
                time.sleep(0.0002)
        yield
    finally:
        os.kill(process, signal.SIGCONT)


class _Relay:
    """Collect what a worker sends, and reply to its requests.

    Attributes:
        sent: Pieces of the worker's results, after `run` of whole messages alone.
        rest: Number of bytes that the message which is being collected still lacks.
        whole: Number of pieces up to the end of the last whole message.
    """

    def __init__(
        self,
        reader: int,
        writer: int,
        serve: Serve,
        wait: Wait,
        still: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self.reader, self.writer, self.serve, self.wait, self.still = reader, writer, serve, wait, still
        self.buffer = bytearray()
        self.sent: list[bytes] = []
        self.size = self.rest = self.whole = 0
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)

    def run(self) -> str:
        """Relay until the worker ends. Return the limit that it exceeded: a key of `results._STOPPED`, or ""."""
        try:
            while True:
                self.wait([self.reader])
                try:
                    chunk = os.read(self.reader, CHUNK)
                except BlockingIOError:  # the worker, which can open the pipe for reading, has read it itself
                    continue
                if not chunk:
                    return ""
                self.buffer += chunk
                self._dispatch()
                if self.size > LARGEST - OVERHEAD:
                    self.whole = 0
                    return "output"
        except _ExceededError as error:
            return str(error)
        finally:
            del self.sent[self.whole :]

    def _dispatch(self) -> None:
        """Keep the results and answer the requests in the buffer.

        Results are kept piece by piece, and the worker stands still while a request is served. Otherwise it could use
        the time in which nobody watches it.
        """
        while self.rest or len(self.buffer) >= LENGTH.size:
            if self.rest:
                self.sent.append(self._taken(self.rest))
                self.rest -= len(self.sent[-1])
                if self.rest:
                    return
                self.whole = len(self.sent)
                continue
            (head,) = LENGTH.unpack_from(self.buffer)
            end = LENGTH.size + (head & ~REQUEST)
            if not head & REQUEST:
                self.rest = end
                self.size += max(end, LEAST)
            elif end - LENGTH.size > LARGEST_REQUEST:
                raise _ExceededError("request")
            elif len(self.buffer) < end:
                return
            else:
                with self.still():
                    reply = self.serve(self._taken(end)[LENGTH.size :], self.wait)
                self._reply(reply)

    def _taken(self, size: int) -> bytes:
        """Remove at most so many bytes from the start of the buffer, and return them."""
        found = bytes(self.buffer[:size])
        del self.buffer[:size]
        return found

    def _reply(self, message: bytes) -> None:
        rest = memoryview(LENGTH.pack(len(message)) + message)
        while rest:
            self.wait([], [self.writer])
            with contextlib.suppress(BlockingIOError):  # the worker, which can open the pipe for writing, has filled it
                try:
                    rest = rest[os.write(self.writer, rest) :]
                except BrokenPipeError:
                    return


def _send(writer: int, message: bytes, flag: int = 0) -> None:
    rest = memoryview(LENGTH.pack(len(message) | flag) + message)
    while rest:
        rest = rest[os.write(writer, rest) :]


def _redirect_to_null(*descriptors: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)


if __name__ == "__main__":
    main(sys.argv[1:])
