"""Runs a learner's code in a process of its own, with limits, and brings back what it computed.

>>> import numpy as np
>>> code = "def double(array):\\n    return 2 * array\\n"
>>> with Sandbox() as sandbox:
...     ran = sandbox.run("double", code, [{"ask": None, "inputs": {"array": np.arange(3)}}])
>>> ran.answers[0].result
array([0, 2, 4])
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from kmha.sandbox import encoding, results
from kmha.sandbox.encoding import decode, encode
from kmha.sandbox.errors import SandboxError
from kmha.sandbox.results import ENDED, Answer, Ran
from kmha.sandbox.worker import failed

__all__ = ["ENDED", "Answer", "Ran", "Sandbox", "SandboxError", "StoppedError"]

ENDING = 5.0  # seconds that it gets to clear up
STARTING = 20.0  # seconds that the first operation of a library may take, beyond what the exercise may
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "PYTHONPATH", "VIRTUAL_ENV", "MPLCONFIGDIR", "TMPDIR")
# Not `-m`, which would look for modules in the current folder first: that may be a stranger's.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop(1)); from kmha.sandbox import fork_server; fork_server.main(sys.argv[1:])"
)


class StoppedError(RuntimeError):
    """The sandbox was stopped for good while something ran in it."""


class Sandbox:
    """A process from which one is forked for every file that is run.

    Args:
        uses: what it imports beforehand: "numpy", "keras", "tensorflow", "matplotlib".
    """

    def __init__(self, uses: Sequence[str] = ("numpy",)) -> None:
        self.uses = tuple(uses)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; the next `run` starts another."""
        if self._process is not None:
            self._process.terminate()  # so that it removes its fork's folder
            try:
                self._process.wait(ENDING)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    cast(BinaryIO, pipe).close()
        self._process = None

    def stop(self) -> None:
        """Ends it for good, and what another thread runs in it: that raises a `StoppedError`."""
        self._stopped = True
        if (process := self._process) is not None:
            process.terminate()

    def start(self) -> None:
        """Starts it, if it does not run; takes as long as the imports.

        Raises:
            SandboxError: it does not start.
            StoppedError: it was stopped for good.
        """
        if self._process is not None and self._process.poll() is None:
            return
        if not hasattr(os, "fork"):
            raise SandboxError("answers run in forks, which this system has not: use Linux, macOS, or WSL on Windows.")
        self.close()
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "Agg"}
        environment |= {"CUDA_VISIBLE_DEVICES": "-1", "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[2]), *self.uses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        try:
            self._wait()
        except BaseException:  # one that is half started would say later that it is, in place of an answer
            self.close()
            raise

    def _wait(self) -> None:
        """Until it has started."""
        process = cast("subprocess.Popen[bytes]", self._process)
        if self._stopped:
            raise StoppedError
        if encoding.read(cast(BinaryIO, process.stdout)) is None:
            if self._stopped:
                raise StoppedError
            said = cast(BinaryIO, process.stderr).read().decode(errors="replace").strip().splitlines()
            raise SandboxError(f"the sandbox does not start: {said[-1] if said else 'it says nothing'}")

    def run(
        self,
        name: str,
        code: str,
        questions: Iterable[Mapping[str, Any]],
        *,
        more: Mapping[str, str] | None = None,
        seconds: float = 10.0,
        serve: Callable[..., Any] | None = None,
    ) -> Ran:
        """Runs a file in a fork.

        Args:
            name: of the exercise: of what the file must define, and of the file itself.
            code: its text.
            questions: each with `ask` (see `kmha.sandbox.worker.answer`) and `inputs`.
            more: texts of other files beside it, by their names.
            seconds: for all of it.
            serve: computes what `kmha.sandbox.worker_api.remote` asks for: called with the name and the arguments.
        """
        questions = list(questions)
        if "keras" in self.uses or "tensorflow" in self.uses:
            seconds += STARTING
        task = {"name": name, "files": {**(more or {}), f"{name}.py": code}, "questions": questions}
        if self._stopped:
            raise StoppedError
        self.start()
        process = cast("subprocess.Popen[bytes]", self._process)
        message = None
        try:
            encoding.write(cast(BinaryIO, process.stdin), encode({**task, "seconds": seconds}))
            message = encoding.read(cast(BinaryIO, process.stdout))
            while message is not None and "asked" in (found := decode(message)):
                encoding.write(cast(BinaryIO, process.stdin), _served(found["asked"].tobytes(), serve))
                message = encoding.read(cast(BinaryIO, process.stdout))
        except BrokenPipeError:  # it ended meanwhile
            message = None
        except BaseException:  # half a message may be in the pipe: begin anew
            self.close()
            raise
        if message is None:
            self.close()
            if self._stopped:
                raise StoppedError
            return Ran(failed(ENDED), ())
        return results.read(found, len(questions), seconds)


def _served(asked: bytes, serve: Callable[..., Any] | None) -> bytes:
    """The reply to what a learner's code, or something in its name, asked for."""
    try:
        call = decode(asked)
        if serve is None:
            raise ValueError("there is nothing to be called")
        result = serve(call["name"], *call["places"], **call["names"])
        return encode({"result": result, "error": None})
    except Exception as error:  # arguments of any kind may have come
        return encode({"result": None, "error": f"{type(error).__name__}: {error}"[:500]})
