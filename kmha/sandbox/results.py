"""Read what a task sent out of the sandbox. Untrusted code may have written any of these bytes."""

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kmha.sandbox import encoding
from kmha.sandbox.control_characters import visible
from kmha.sandbox.encoding import LARGEST, LARGEST_REQUEST, PARTS, EncodingError
from kmha.sandbox.limits import DATA, THREADS
from kmha.sandbox.worker import PRINTED, error_record

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
ENDED = "the sandbox ended"
TOO_LONG = "your code took longer than "
_STOPPED = {
    "time": TOO_LONG + "{seconds:g} seconds. Does it have a loop that never ends?",
    "files": "your code wrote too many files, or files that are too large",
    "memory": f"your code took more than {DATA >> 30} GiB of memory",
    "threads": f"your code started more than {THREADS:,} threads",
    "output": f"your code returned more than {LARGEST >> 20} MiB",
    "request": f"your code passed more than {LARGEST_REQUEST >> 20} MiB to a function",
}


@dataclasses.dataclass(frozen=True, eq=False)
class CallResult:
    """The result of one call.

    Attributes:
        value: What the call returned.
        error: `None` if the call raised nothing. Otherwise a dictionary with the `kind` of the error (the exception's
            class), its message (`says`), the number and the text of the line that led to it (`line`, `text`), and the
            values in that line (`operands`).
        changed: Names of the inputs that the call changed.
        printed: What the call printed.
    """

    value: Any = None
    error: Mapping[str, Any] | None = None
    changed: tuple[str, ...] = ()
    printed: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class TaskResult:
    """The results of a task.

    Attributes:
        error: Reason why the module could not be loaded, as in `CallResult`, or `None` if it was loaded.
        results: One result for each call, or no results if the module could not be loaded.
        printed: What loading the module printed.
        seconds: Time that the task took, without most of the time that it waited for replies to its requests.
    """

    error: Mapping[str, Any] | None
    results: tuple[CallResult, ...]
    printed: str = ""
    seconds: float = 0.0


def read(sent: Mapping[str, Any], count: int, seconds: float) -> TaskResult:
    """Read the results of a task with `count` calls from what `kmha.sandbox.fork_server.run` returned."""
    messages, took = _messages(sent["sent"].tobytes()), sent["seconds"]
    loaded = next(messages, None)
    if loaded is None:
        return TaskResult(_ending(sent, seconds), (), seconds=took)
    if loaded.get("error") is not None:
        return TaskResult(_error(loaded["error"]), (), _printed(loaded), took)
    results = [_call_result(message) for message, _ in zip(messages, range(count), strict=False)]
    missing = [CallResult(error=_ending(sent, seconds))] * (count - len(results))
    return TaskResult(None, (*results, *missing), _printed(loaded), took)


def read_function(sent: Mapping[str, Any]) -> CallResult:
    """Read the result of `kmha.sandbox.worker.call_function` from what `kmha.sandbox.fork_server.run` returned."""
    message = next(_messages(sent["sent"].tobytes()), None)
    return CallResult(error=_ending(sent, 0)) if message is None else _call_result(message)


def _ending(sent: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return an error that says why no further message came."""
    if sent["stopped"]:
        return exceeded(sent["stopped"], seconds)
    if sent["status"] < 0:
        return error_record(f"your code crashed the interpreter, or went over a limit (signal {-sent['status']})")
    return error_record("your code ended the process before it returned a result")


def exceeded(limit: str, seconds: float) -> dict[str, Any]:
    """Return the error of a task that exceeded a limit, such as "time", its limit of `seconds`."""
    return error_record(_STOPPED[limit].format(seconds=seconds))


def _messages(sent: bytes) -> Iterator[dict[str, Any]]:
    """Yield the messages before the first malformed message."""
    source, parts = io.BytesIO(sent), 0
    with contextlib.suppress(EncodingError, OverflowError):  # a length can be too large for any stream
        while (message := encoding.read(source)) is not None and isinstance(found := encoding.decode(message), dict):
            yield found
            parts += encoding.count_parts(message)
            if parts > PARTS:
                return


def _call_result(message: Mapping[str, Any]) -> CallResult:
    error, changed = message.get("error"), message.get("changed")
    names = tuple(_text(name, 100) for name in changed[:20]) if isinstance(changed, list) else ()
    return CallResult(message.get("result"), None if error is None else _error(error), names, _printed(message))


def _error(error: Any) -> dict[str, Any]:
    """Return an error with the expected keys and types, whatever the task sent."""
    if not isinstance(error, dict):
        return error_record("your code sent a message that is not a result")
    line = error.get("line")
    if isinstance(says := error.get("says"), str):  # Keras colors parts of its messages
        error = {**error, "says": _COLORS.sub("", says[: 2 * PRINTED])}
    texts = {name: _text(error.get(name, ""), PRINTED) for name in ("kind", "says", "text", "file", "operands")}
    return {**texts, "line": line if isinstance(line, int) else None}


def _printed(message: Mapping[str, Any]) -> str:
    return _text(message.get("printed", ""), PRINTED + 100)


def _text(value: Any, longest: int) -> str:
    """Return a text of at most `longest` characters, whatever the task sent. Escapes can make it longer."""
    return visible(value[:longest].encode(errors="replace").decode()) if isinstance(value, str) else ""
