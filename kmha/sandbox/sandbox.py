"""Run untrusted code in a separate process, within limits, and return the results of calls to it.

>>> import numpy as np
>>> code = "def double(array):\\n    return 2 * array\\n"
>>> with Sandbox() as sandbox:
...     ran = sandbox.run("double", code, [Call({"array": np.arange(3)})])
>>> ran.results[0].value
array([0, 2, 4])
"""

import contextlib
import dataclasses
import math
import os
import select
import site
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import numpy as np

from kmha.sandbox import encoding, limits, readable, results
from kmha.sandbox.encoding import decode, encode
from kmha.sandbox.errors import SandboxError, StoppedError
from kmha.sandbox.results import ENDED, CallResult, TaskResult
from kmha.sandbox.worker import SIGNATURE, error_record

__all__ = ["SIGNATURE", "UNFINISHED", "Call", "CallResult", "Pool", "Sandbox", "TaskResult"]

SHUTDOWN = 1.5  # maximum number of seconds for the cleanup of the fork server; a supervisor also cleans up alone
MOST_ARGUMENTS = 100  # of a request
LONGEST_REQUEST = 2 << 20  # bytes of a request beside its arrays. Reading these stops all threads, as often as asked
TICK = 0.1  # seconds between the calls of `tick`
MARGIN = 30.0  # seconds after its time limit in which a task must end. Otherwise its supervisor hangs
UNFINISHED = TaskResult(error_record(ENDED), ())  # something other than the task may have ended the sandbox
STARTUP = 20.0  # extra seconds, since the first operation of Keras or TensorFlow is slow
# A task can read the first environment of its fork server, which stays on the stack, so little of the user's is in it.
_KEPT = ("LANG", "LC_ALL")
_KEPT_PATHS = ("PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")  # Python and the libraries may be found by these alone
_ENVIRONMENT = {
    "HOME": os.devnull,  # without the user's settings of libraries
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONWARNINGS": "ignore:You are using a softmax over axis",  # Keras', of a single key, which is valid
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "MPLBACKEND": "Agg",
    "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONHASHSEED": "0",
    "HDF5_USE_FILE_LOCKING": "FALSE",
    # NumPy would wait for threads that a task may not start, and a task has one processor anyway.
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# Not `-m`, which would first look for modules in the current folder, which may be untrusted. The package itself is not
# imported, because it registers its layers with Keras, where an answer would find them.
_PROGRAM = """
import sys, types
folder = sys.argv.pop(1)
sys.path.append(folder)
sys.modules["kmha"] = types.ModuleType("kmha")
sys.modules["kmha"].__path__ = [folder + "/kmha"]
from kmha.sandbox import fork_server
fork_server.main(sys.argv[1:])
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A call to untrusted code.

    Attributes:
        inputs: Arguments, keyed by name.
        function: `None` calls the module's function with the inputs, and `SIGNATURE` asks for the names of its
            arguments. Any other text is the source of a function that is called with the module and the inputs. In this
            source, `np` is NumPy and `worker_api` is `kmha.sandbox.worker_api`.
    """

    inputs: dict[str, Any]
    function: str | None = None


class Sandbox:
    """A fork server (`kmha.sandbox.fork_server`), which runs every task in a separate process.

    Args:
        uses: Libraries that the fork server imports beforehand: "numpy", "keras", "tensorflow", "matplotlib".
        processor: Number of the processor to run on, if several sandboxes run at a time. Otherwise a task with many
            threads could take so much time from the others that they exceed their time limits.
    """

    def __init__(self, uses: Sequence[str] = ("numpy",), processor: int | None = None) -> None:
        self.uses, self.processor = tuple(uses), processor
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the fork server. The next `run` starts a new one."""
        process, self._process = self._process, None  # another thread may close it too
        if process is not None:
            self._end(process)
            try:
                process.wait(SHUTDOWN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    cast(BinaryIO, pipe).close()

    def stop(self) -> None:
        """End the fork server for good. If another thread is in `run`, `run` raises a `StoppedError` there."""
        self._stopped = True
        if (process := self._process) is not None:
            self._end(process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Let the fork server remove the scratch folder, unless it is still importing: then it notices no signal."""
        (process.terminate if self._ready else process.kill)()

    def start(self) -> None:
        """Start the fork server if necessary. This takes as long as the imports, and raises the errors of `run`."""
        if self._process is not None and self._process.poll() is None:
            return
        if not hasattr(os, "fork"):
            raise SandboxError(
                "the sandbox needs fork, which this system does not have. Use Linux, macOS, or WSL on Windows."
            )
        self.close()
        self._ready = False
        self._process = process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).absolute().parents[2]), *self.uses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(self.uses),
            cwd=os.sep,  # libraries keep the name of the current folder in memory, where a task would find it
            start_new_session=True,  # Linux shares time out between sessions, not threads, so each gets its part
        )
        if self.processor is not None:
            limits.run_on(self.processor, process.pid)
        try:
            self._wait_until_ready(process)
        except BaseException:  # otherwise the message "ready" would later be read as a result
            self.close()
            raise
        self._ready = True

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        if self._stopped:
            raise StoppedError
        if encoding.read(cast(BinaryIO, process.stdout)) is None:
            if self._stopped:
                raise StoppedError
            lines = cast(BinaryIO, process.stderr).read().decode(errors="replace").strip().splitlines()
            raise SandboxError(f"the sandbox does not start: {lines[-1] if lines else 'it printed no error.'}")

    def run(
        self,
        name: str,
        code: str,
        calls: Iterable[Call],
        *,
        files: Mapping[str, str] | None = None,
        seconds: float = 10.0,
        startup: float = STARTUP,
        serve: Callable[..., Any] | None = None,
        absent: Sequence[str] = (),
        threads: bool = True,
    ) -> TaskResult:
        """Run a task: load a module and make calls to it.

        Args:
            name: Name of the module, and of the function or class that it must define.
            code: Source of the module.
            calls: Calls to make.
            files: Texts of other files in the module's folder, keyed by file name.
            seconds: Time limit of the whole task.
            startup: Extra seconds if the task may use Keras or TensorFlow, whose first operation is slow.
            serve: Function that computes the requests of `kmha.sandbox.worker_api.remote` outside the sandbox. It is
                called with the name and the arguments of the request.
            absent: Names of classes, methods (CLASS.METHOD) and functions of the libraries that do not exist for this
                task.
            threads: Whether the task may start threads.

        Raises:
            SandboxError: The fork server does not start.
            StoppedError: The sandbox was stopped for good.
        """
        calls = list(calls)
        if "keras" in self.uses or "tensorflow" in self.uses:
            seconds += startup
        task = {
            "name": name,
            "files": {file: _as_array(text) for file, text in {**(files or {}), f"{name}.py": code}.items()},
            "calls": [{"function": call.function, "inputs": call.inputs} for call in calls],
            "seconds": seconds,
            "absent": list(absent),
            "threads": threads,
        }
        sent = self._exchange(task, serve)
        return UNFINISHED if sent is None else results.read(sent, len(calls), seconds)

    def call(
        self,
        function: str,
        given: Any,
        *,
        folder: Path,
        environment: Mapping[str, str],
        serve: Callable[..., Any] | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> CallResult:
        """Call a function of an installed package in a worker. The function itself loads the untrusted code.

        The worker may read all files except devices, but may write only to a scratch folder. It has no time limit:
        `tick` sets one.

        Args:
            function: The function as MODULE:NAME. It is trusted.
            given: Argument of the function.
            folder: Current folder of the worker.
            environment: Environment variables of the worker.
            serve: Function that computes requests outside the sandbox, as in `run`.
            tick: Function that is called several times a second, and for each message. If it raises an error, the
                sandbox ends, and `call` raises the error.

        Raises:
            SandboxError: The fork server does not start.
            StoppedError: The sandbox was stopped for good.
        """
        task = {
            "function": function,
            "given": given,
            "folder": str(folder),
            "environment": dict(environment),
            "readable": readable.without([os.sep], ["/dev"]),  # where the terminal would give what the user types
            "seconds": None,
        }
        sent = self._exchange(task, serve, tick)
        return CallResult(error=error_record(ENDED)) if sent is None else results.read_function(sent)

    def _exchange(
        self, task: Mapping[str, Any], serve: Callable[..., Any] | None, tick: Callable[[], None] = lambda: None
    ) -> dict[str, Any] | None:
        """Send a task, answer the requests of its worker, and return the last message, or `None` without one."""
        patience = math.inf if task["seconds"] is None else task["seconds"] + MARGIN
        if self._stopped:
            raise StoppedError
        self.start()
        process = self._process
        if process is None:  # another thread has closed it
            raise StoppedError
        sink, source = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        message = None
        try:
            encoding.write(sink, encode(task))
            message = _read(source, tick, patience)
            while message is not None and "request" in (sent := decode(message)):
                encoding.write(sink, _reply(sent["request"].tobytes(), serve))
                message = _read(source, tick, patience)
        except BrokenPipeError:  # the fork server has ended
            message = None
        except BaseException:  # half a message may be left in the pipe
            self.close()
            raise
        if message is None:
            self.close()
            if self._stopped:
                raise StoppedError
            return None
        return cast(dict[str, Any], sent)


def _environment(uses: Sequence[str]) -> dict[str, str]:
    """Return the environment of a fork server."""
    found = _ENVIRONMENT | {name: os.environ[name] for name in _KEPT if name in os.environ}
    for name in filter(os.environ.get, _KEPT_PATHS):
        found[name] = os.pathsep.join(os.path.abspath(path) for path in os.environ[name].split(os.pathsep) if path)
    if site.ENABLE_USER_SITE and site.getusersitepackages() in sys.path:  # of `pip install --user`, found by HOME
        found["PYTHONUSERBASE"] = site.getuserbase()
    if "matplotlib" in uses:  # it would look for the system's fonts at every start, which can take many seconds
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.environ.get("MPLCONFIGDIR") or os.path.join(caches, "kmha", "matplotlib")
        found["MPLCONFIGDIR"] = os.path.abspath(folder)
    return found


def _as_array(text: str) -> np.ndarray:
    """Return the bytes of a text. In a message, all letters and commas of texts count, but an array's bytes do not."""
    return np.frombuffer(text.encode(errors="surrogatepass"), np.uint8)


def _read(source: BinaryIO, tick: Callable[[], None], patience: float) -> bytes | None:
    """Read a message, and call `tick` before and while waiting. Return `None` if none comes within `patience` seconds.

    `tick` is called for each message, because a worker that sends one after the other leaves nothing to wait for. The
    supervisor sends nothing before the reply to its last message, so no message waits in the stream's buffer.
    """
    deadline = time.monotonic() + patience
    tick()
    while not select.select([source], [], [], TICK)[0]:
        tick()
        # This thread may have stood still, so the message may be there.
        if time.monotonic() > deadline and not select.select([source], [], [], 0)[0]:
            return None
    return encoding.read(source)


def _reply(request: bytes, serve: Callable[..., Any] | None) -> bytes:
    """Return the reply to a request. Untrusted code may have written the request."""
    try:
        if serve is None:
            raise ValueError("this task offers no remote function")
        call = decode(request, LONGEST_REQUEST)
        if not isinstance(call["args"], list | tuple) or len(call["args"]) + len(call["kwargs"]) > MOST_ARGUMENTS:
            raise ValueError(f"expected a tuple and a dict of at most {MOST_ARGUMENTS} arguments together")
        result = serve(call["name"], *call["args"], **call["kwargs"])
        return encode({"result": result, "error": None})
    except Exception as error:  # the arguments can be anything
        return encode({"result": None, "error": f"{type(error).__name__}: {error}"[:500]})


class Pool:
    """A sandbox for every set of libraries. Each sandbox starts at its first use and runs until the pool is closed.

    Args:
        processor: As in `Sandbox`.

    >>> with Pool() as pool:
    ...     pool.get(("numpy",)) is pool.get(["numpy"])
    True
    """

    def __init__(self, processor: int | None = None) -> None:
        self._processor = processor
        self._sandboxes: dict[tuple[str, ...], Sandbox] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, uses: Sequence[str]) -> Sandbox:
        """Return the sandbox that imports these libraries."""
        return self._sandboxes.setdefault(tuple(uses), Sandbox(tuple(uses), self._processor))

    def stop(self) -> None:
        """End all sandboxes for good, even if another thread is running a task in one of them."""
        for sandbox in list(self._sandboxes.values()):
            sandbox.stop()

    def close(self) -> None:
        """End all fork servers. A sandbox that is used again starts a new one."""
        for sandbox in self._sandboxes.values():
            sandbox.close()
