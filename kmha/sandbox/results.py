"""What came out of a sandbox, read from the bytes that were sent: whoever sent them is not believed."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from kmha.sandbox.encoding import LENGTH, EncodingError, decode
from kmha.sandbox.worker import PRINTED, failed

ENDED = "the sandbox ended"
_STOPPED = {
    "time": "it took longer than {seconds:g} seconds: is there a loop that does not end?",
    "files": "it wrote too many or too large files",
    "output": "it returned more than fits into a message",
}


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


def read(found: Mapping[str, Any], count: int, seconds: float) -> Ran:
    """What came of a file.

    Args:
        found: what `kmha.sandbox.fork_server.run` returned.
        count: how many questions there were.
        seconds: that it had.
    """
    messages = _messages(found["sent"].tobytes())
    loaded = next(messages, None)
    if loaded is None:
        return Ran(_why(found, seconds), ())
    if loaded.get("error") is not None:
        return Ran(_checked(loaded["error"]), (), _printed(loaded))
    answers = [_answer(message) for message, _ in zip(messages, range(count), strict=False)]
    missing = [Answer(error=_why(found, seconds))] * (count - len(answers))
    return Ran(None, (*answers, *missing), _printed(loaded))


def _why(found: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Why nothing more came."""
    if found["stopped"]:
        return failed(_STOPPED[found["stopped"]].format(seconds=seconds))
    if found["status"] < 0:
        return failed(f"it crashed the interpreter, or was stopped at a limit (signal {-found['status']})")
    return failed("it ended the process before it answered")


def _messages(sent: bytes) -> Iterator[dict[str, Any]]:
    """The messages that are whole; what a learner's code may have written among them ends them."""
    at = 0
    while at + LENGTH.size <= len(sent):
        (length,) = LENGTH.unpack_from(sent, at)
        at += LENGTH.size
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


def _checked(error: Any) -> dict[str, Any]:
    """An error as it is expected, whatever was sent in its place."""
    if not isinstance(error, dict):
        return failed("it sent something else than a result")
    line = error.get("line")
    found = {name: _text(error.get(name, ""), PRINTED) for name in ("kind", "says", "text", "file")}
    return {**found, "line": line if isinstance(line, int) else None}


def _printed(message: Mapping[str, Any]) -> str:
    return _text(message.get("printed", ""), PRINTED + 100)


def _text(value: Any, most: int) -> str:
    """A text of at most so many characters, whatever was sent in its place."""
    return value[:most].encode(errors="replace").decode() if isinstance(value, str) else ""
