"""In the process that runs a learner's code: loads it, computes what is asked, sends what came out.

It knows what is asked, never what is expected. What it sends is not trusted by who reads it.
"""

import __future__

import importlib
import inspect
import io
import linecache
import os
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from kmha.sandbox import worker_api
from kmha.sandbox.encoding import EncodingError, encode

PRINTED = 4_000  # characters that are kept of what the code prints
SEED = 20171207
SIGNATURE = "signature"
_array_equal = np.array_equal  # before a learner's code puts another in its place


class Tail(io.TextIOBase):
    """Standard output that keeps the beginning of what it gets, however much that is."""

    def __init__(self) -> None:
        self.kept, self.dropped = "", 0

    def write(self, text: str) -> int:
        room = max(PRINTED - len(self.kept), 0)
        self.kept += text[:room]
        self.dropped += len(text[room:])
        return len(text)

    def take(self) -> str:
        """What has come since it was last taken."""
        text = self.kept + (f"… and {self.dropped:,} characters more" if self.dropped else "")
        self.kept, self.dropped = "", 0
        return text


def answer(task: Mapping[str, Any], send: Callable[[bytes], None]) -> None:
    """Loads the code of a task, and sends one message for that and one for everything asked.

    A task has the `name` of the exercise, the `files` by their names, and `questions`: each the source of a function
    `ask(answer, inputs)`, "signature", or `None` for a call, with its `inputs`. A message has `result`, `error`,
    `printed`, and `changed`, the names of the inputs that are not as they were.
    """
    printed = Tail()
    sys.stdout = sys.stderr = printed
    module, error = _loaded(task)
    send(encode({"error": error, "printed": printed.take()}))
    if module is None:
        return
    for question in task["questions"]:
        _seed()
        found = answered(module, task["name"], question)
        try:
            message = encode({**found, "printed": printed.take()})
        except Exception as problem:
            says = str(problem) if isinstance(problem, EncodingError) else "its result cannot be sent"
            message = encode({"error": failed(says), "printed": "", "result": None, "changed": []})
        send(message)


def answered(module: Any, name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """The result of one question, or the error that came in its place."""
    inputs = question["inputs"]
    before = {key: [array.copy() for array in arrays(value)] for key, value in inputs.items()}
    found: dict[str, Any] = {"result": None, "error": None, "changed": []}
    try:
        found["result"] = _result(module, name, question["ask"], inputs)
    except BaseException as error:  # a learner's code may raise anything, SystemExit too
        found["error"] = _described(error)
    found["changed"] = [key for key, old in before.items() if not _equal(old, arrays(inputs[key]))]
    return found


def arrays(value: Any) -> list[np.ndarray]:
    """The arrays in a value: itself, or those of a list, a tuple, a dict."""
    if isinstance(value, np.ndarray):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [array for each in inner for array in arrays(each)]


def _equal(old: list[np.ndarray], new: list[np.ndarray]) -> bool:
    return len(old) == len(new) and all(
        _array_equal(one, other, equal_nan=one.dtype.kind in "fc") for one, other in zip(old, new, strict=True)
    )


def _result(module: Any, name: str, ask: str | None, inputs: dict[str, Any]) -> Any:
    if ask == SIGNATURE:
        return signature(getattr(module, name))
    if ask is None:
        return getattr(module, name)(**inputs)
    scope: dict[str, Any] = {"np": np, "worker_api": worker_api}
    linecache.cache["<asked>"] = (len(ask), None, ask.splitlines(keepends=True), "<asked>")
    # Its annotations are left alone: they name what only its module has imported.
    code = compile(ask, "<asked>", "exec", __future__.annotations.compiler_flag)
    exec(code, scope)  # noqa: S102 - the exercise's own text, in the sandbox
    (function,) = (value for key, value in scope.items() if inspect.isfunction(value))
    return function(module, inputs)


def signature(thing: Any) -> dict[str, list[str]]:
    """The names of a function's arguments; for a class those of its constructor and of its methods."""
    if not inspect.isclass(thing):
        return {"": list(inspect.signature(thing).parameters)}
    methods = {name: value for name, value in vars(thing).items() if inspect.isfunction(value)}
    return {name: list(inspect.signature(method).parameters) for name, method in methods.items()}


def _loaded(task: Mapping[str, Any]) -> tuple[ModuleType | None, Any]:
    folder = Path.cwd()
    for name, text in task["files"].items():
        (folder / name).write_text(text, encoding="utf-8")
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    _seed()
    try:
        module = importlib.import_module(task["name"])
        if not hasattr(module, task["name"]):
            return None, failed(f"there is no `{task['name']}` in {task['name']}.py")
        return module, None
    except BaseException as error:
        return None, _described(error)


def _seed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(SEED)


def failed(says: str) -> dict[str, Any]:
    """An error that is not one of the code's own."""
    return {"kind": "", "says": says, "line": None, "text": ""}


def _described(error: BaseException) -> dict[str, Any]:
    """Its kind, its text, and the last line of the learner's own that led to it."""
    try:
        says = str(error)
    except BaseException:  # its own text may raise anything too
        says = ""
    found: dict[str, Any] = {"kind": type(error).__name__, "says": says[:PRINTED], "line": None, "text": ""}
    if isinstance(error, SyntaxError):
        return {**found, "says": error.msg, "line": error.lineno, "text": (error.text or "").strip()}
    here = os.getcwd()
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(here)]
    if own:
        found |= {"line": own[-1].lineno, "text": own[-1].line or "", "file": Path(own[-1].filename).name}
    return found
