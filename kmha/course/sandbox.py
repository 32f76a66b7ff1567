"""Runs a learner's code in a process of its own, with limits, and brings back what it computed.

>>> import numpy as np
>>> code = "def double(array):\\n    return 2 * array\\n"
>>> with Sandbox() as sandbox:
...     ran = sandbox.run("double", code, [{"ask": None, "inputs": {"array": np.arange(3)}}])
>>> ran.answers[0].result
array([0, 2, 4])
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Self, cast

from kmha.course import zygote
from kmha.course.answering import PRINTED
from kmha.course.encoding import EncodingError, decode, encode

STARTING = 20.0  # seconds that the first operation of a library may take, beyond what the exercise may
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "PYTHONPATH", "VIRTUAL_ENV", "MPLCONFIGDIR")
ENDED = "the sandbox ended"
_STOPPED = {
    "time": "it took longer than {seconds:g} seconds: is there a loop that does not end?",
    "files": "it wrote too many or too large files",
    "output": "it returned more than fits into a message",
}


class SandboxError(RuntimeError):
    """The process from which the sandboxes are forked does not start."""


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What came of one question.

    Attributes:
        result: what the code returned.
        error: its `kind` (a class), what it `says`, the `line` and its `text`; `None` where there is none.
        changed: names of the inputs that are not as they were.
        printed: what was printed meanwhile.
    """

    result: Any = None
    error: Mapping[str, Any] | None = None
    changed: tuple[str, ...] = ()
    printed: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Ran:
    """What came of a learner's file: why it could not be loaded, or its answers to all questions.

    Attributes:
        error: of loading it.
        answers: as many as there were questions, unless loading failed.
        printed: while it was loaded.
    """

    error: Mapping[str, Any] | None
    answers: tuple[Answer, ...]
    printed: str = ""


class Sandbox:
    """A process from which one is forked for every file that is run.

    Args:
        uses: what it imports beforehand: "numpy", "keras", "tensorflow", "matplotlib".
    """

    def __init__(self, uses: Sequence[str] = ("numpy",)) -> None:
        self.uses = tuple(uses)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; the next `run` starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    cast(BinaryIO, pipe).close()
        self._process = None

    def start(self) -> None:
        """Starts it, if it does not run; takes as long as the imports."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "Agg"}
        environment |= {"CUDA_VISIBLE_DEVICES": "-1", "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kmha.course.zygote", *self.uses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        if zygote.read(cast(BinaryIO, self._process.stdout)) is None:
            said = cast(BinaryIO, self._process.stderr).read().decode(errors="replace").strip().splitlines()
            self.close()
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
            questions: each with `ask` (see `kmha.course.answering.answer`) and `inputs`.
            more: texts of other files beside it, by their names.
            seconds: for all of it.
            serve: computes what `kmha.course.asks.remote` asks for: called with the name and the arguments.
        """
        questions = list(questions)
        if "keras" in self.uses or "tensorflow" in self.uses:
            seconds += STARTING
        task = {"name": name, "files": {**(more or {}), f"{name}.py": code}, "questions": questions}
        self.start()
        process = cast("subprocess.Popen[bytes]", self._process)
        try:
            zygote.write(cast(BinaryIO, process.stdin), encode({**task, "seconds": seconds}))
            message = zygote.read(cast(BinaryIO, process.stdout))
            while message is not None and "asked" in (found := decode(message)):
                zygote.write(cast(BinaryIO, process.stdin), _served(found["asked"].tobytes(), serve))
                message = zygote.read(cast(BinaryIO, process.stdout))
        except BaseException:  # half a message may be in the pipe: begin anew
            self.close()
            raise
        if message is None:
            self.close()
            return Ran(_error(ENDED), ())
        return _ran(found, len(questions), _why(found, seconds))


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


def _why(found: Mapping[str, Any], seconds: float) -> str:
    """Why nothing more came."""
    if found["stopped"]:
        return _STOPPED[found["stopped"]].format(seconds=seconds)
    if found["status"] < 0:
        return f"it crashed the interpreter, or was stopped at a limit (signal {-found['status']})"
    return "it ended the process before it answered"


def _ran(found: Mapping[str, Any], count: int, why: str) -> Ran:
    messages = _messages(found["sent"].tobytes())
    loaded = next(messages, None)
    if loaded is None:
        return Ran(_error(why), ())
    if loaded.get("error") is not None:
        return Ran(_checked(loaded["error"]), (), _printed(loaded))
    answers = [_answer(message) for message, _ in zip(messages, range(count), strict=False)]
    missing = count - len(answers)
    return Ran(None, (*answers, *[Answer(error=_error(why))] * missing), _printed(loaded))


def _messages(sent: bytes) -> Any:
    """The messages that are whole; what a learner's code may have written among them ends them."""
    at = 0
    while at + zygote.LENGTH.size <= len(sent):
        (length,) = zygote.LENGTH.unpack_from(sent, at)
        at += zygote.LENGTH.size
        if at + length > len(sent):
            return
        try:
            message = decode(sent[at : at + length])
        except EncodingError:
            return
        if not isinstance(message, dict):
            return
        yield message
        at += length


def _answer(message: Mapping[str, Any]) -> Answer:
    error, changed = message.get("error"), message.get("changed")
    names = tuple(_text(name, 100) for name in changed[:20]) if isinstance(changed, list) else ()
    return Answer(message.get("result"), None if error is None else _checked(error), names, _printed(message))


def _error(says: str) -> dict[str, Any]:
    return {"kind": "", "says": says, "line": None, "text": ""}


def _checked(error: Any) -> dict[str, Any]:
    """An error as it is expected, whatever was sent in its place."""
    if not isinstance(error, dict):
        return _error("it sent something else than a result")
    line = error.get("line")
    found = {name: _text(error.get(name, ""), PRINTED) for name in ("kind", "says", "text", "file")}
    return {**found, "line": line if isinstance(line, int) else None}


def _printed(message: Mapping[str, Any]) -> str:
    return _text(message.get("printed", ""), PRINTED + 100)


def _text(value: Any, most: int) -> str:
    """A text of at most so many characters, whatever was sent in its place."""
    return value[:most].encode(errors="replace").decode() if isinstance(value, str) else ""
