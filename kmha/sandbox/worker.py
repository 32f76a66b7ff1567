"""The worker: the process that loads untrusted code, makes the calls of a task, and sends the results.

The worker knows the calls, but never the expected results. Whoever reads its messages must not trust them.
"""

import __future__

import contextlib
import importlib
import importlib.machinery
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

from kmha.sandbox import operands, worker_api
from kmha.sandbox.encoding import EncodingError, encode

PRINTED = 4_000  # characters of printed output that are kept
SEED = 20171207
SIGNATURE = "signature"
GENERATED = "__autograph_generated_file"
_array_equal = np.array_equal  # kept here before untrusted code can replace it


class TruncatedOutput(io.TextIOBase):
    """A standard output that keeps the first characters and counts the rest."""

    def __init__(self) -> None:
        self._kept, self._dropped = "", 0

    def write(self, text: str) -> int:
        room = max(PRINTED - len(self._kept), 0)
        self._kept += text[:room]
        self._dropped += len(text[room:])
        return len(text)

    def take(self) -> str:
        """Return the output since the last call of `take`."""
        text = self._kept + (f"… and {self._dropped:,} more characters" if self._dropped else "")
        self._kept, self._dropped = "", 0
        return text


def execute(task: Mapping[str, Any], send: Callable[[bytes], None]) -> None:
    """Load the module of a task and make its calls. Send one message for the module, and one for each call.

    Args:
        task: A dictionary with the `name` of the module and of the function or class in it, the bytes of the `files`
            as arrays, keyed by file name, and the `calls` (see `evaluate`).
        send: Function that sends a message: a dictionary with `error` and `printed`. The message for a call also has
            `result`, and `changed`, the names of the inputs that the call changed.
    """
    output = TruncatedOutput()
    sys.stdout = sys.stderr = output
    module, error = _load(task)
    send(encode({"error": error, "printed": output.take()}))
    if module is None:
        return
    for call in task["calls"]:
        _seed()
        found = evaluate(module, task["name"], call)
        try:
            message = encode({**found, "printed": output.take()})
        except Exception as problem:
            says = str(problem) if isinstance(problem, EncodingError) else "the result cannot be sent"
            message = encode({"error": error_record(says), "printed": "", "result": None, "changed": []})
        send(message)


def call_function(task: Mapping[str, Any], send: Callable[[bytes], None]) -> None:
    """Call a function of an installed package, which loads untrusted code itself, and send one message with its result.

    Args:
        task: A dictionary with `function`, the function's MODULE:NAME, and `given`, its argument.
        send: Function that sends the message: a dictionary as for a call in `execute`.
    """
    output = TruncatedOutput()
    sys.stdout = sys.stderr = output
    found: dict[str, Any] = {"result": None, "error": None, "changed": []}
    sys.dont_write_bytecode = True
    try:
        module, _, name = task["function"].partition(":")
        found["result"] = getattr(importlib.import_module(module), name)(task["given"])
    except BaseException as error:  # untrusted code can raise anything
        found["error"] = _describe(error)
    send(encode({**found, "printed": output.take()}))


def evaluate(module: Any, name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a call, or the error that it raised.

    Args:
        module: The untrusted module.
        name: Name of the function or class in it.
        call: A dictionary with `inputs` and `function`, which have the same meaning as in
            `kmha.sandbox.sandbox.Call`.
    """
    inputs = call["inputs"]
    before = {key: [array.copy() for array in arrays(value)] for key, value in inputs.items()}
    found: dict[str, Any] = {"result": None, "error": None, "changed": []}
    try:
        found["result"] = _call(module, name, call["function"], inputs)
    except BaseException as error:  # untrusted code can raise anything, including SystemExit
        found["error"] = _describe(error)
    found["changed"] = [key for key, old in before.items() if not _equal(old, arrays(inputs[key]))]
    return found


def arrays(value: Any) -> list[np.ndarray]:
    """Return the arrays in a value, which can be an array itself, or a list, tuple or dict."""
    if isinstance(value, np.ndarray):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [array for each in inner for array in arrays(each)]


def _equal(old: list[np.ndarray], new: list[np.ndarray]) -> bool:
    pairs = zip(old, new, strict=False)
    return len(old) == len(new) and all(_array_equal(*pair, equal_nan=pair[0].dtype.kind in "fc") for pair in pairs)


def _call(module: Any, name: str, source: str | None, inputs: dict[str, Any]) -> Any:
    if source == SIGNATURE:
        return signature(getattr(module, name))
    if source is None:
        return getattr(module, name)(**inputs)
    scope: dict[str, Any] = {"np": np, "worker_api": worker_api}
    linecache.cache["<call>"] = (len(source), None, source.splitlines(keepends=True), "<call>")
    # The annotations stay unevaluated, because they can name what only the function's own module imports.
    code = compile(source, "<call>", "exec", __future__.annotations.compiler_flag)
    exec(code, scope)  # noqa: S102 - the caller's own text, in the sandbox
    (function,) = (value for key, value in scope.items() if inspect.isfunction(value))
    return function(module, inputs)


def signature(thing: Any) -> dict[str, list[str]]:
    """Return the argument names of a function, or of the constructor and the methods of a class."""
    if not inspect.isclass(thing):
        return {"": list(inspect.signature(thing).parameters)}
    found = {}
    for name, value in vars(thing).items():
        if callable(value) and not inspect.isclass(value):  # a method inside a `tf.function` is not a function
            with contextlib.suppress(TypeError, ValueError):  # it has no signature
                found[name] = list(inspect.signature(value).parameters)
    return found


class _Loader(importlib.machinery.SourceFileLoader):
    """Load a file as the UTF-8 text that it was written from, which others read, whatever encoding it names itself."""

    def source_to_code(self, data: Any, path: Any, **_: Any) -> Any:  # type: ignore[override]
        text = bytes(data).decode()
        linecache.cache[path] = (len(data), None, io.StringIO(text, newline=None).readlines(), path)
        return compile(text, path, "exec", dont_inherit=True)


def _load(task: Mapping[str, Any]) -> tuple[ModuleType | None, Any]:
    folder = Path.cwd()
    for name, text in task["files"].items():
        (folder / name).write_bytes(text.tobytes())
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    sys.path_importer_cache[str(folder)] = importlib.machinery.FileFinder(str(folder), (_Loader, [".py"]))
    _seed()
    try:
        module = importlib.import_module(task["name"])
        if not hasattr(module, task["name"]):
            return None, error_record(f"{task['name']}.py does not define `{task['name']}`")
        return module, None
    except BaseException as error:
        return None, _describe(error)


def _seed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(SEED)


def error_record(says: str) -> dict[str, Any]:
    """Return a record, as of an exception, for an error that the untrusted code did not raise itself."""
    return {"kind": "", "says": says, "line": None, "text": ""}


def _describe(error: BaseException) -> dict[str, Any]:
    """Return an exception's class, its message, and the last line of the untrusted code that led to it."""
    try:
        says = str(error)
    except BaseException:  # the message of an untrusted exception can raise anything too
        says = ""
    found: dict[str, Any] = {"kind": type(error).__name__, "says": says[:PRINTED], "line": None, "text": ""}
    if isinstance(error, SyntaxError):
        return {**found, "says": error.msg, "line": error.lineno, "text": (error.text or "").strip()}
    here = os.getcwd()
    with contextlib.suppress(Exception):  # what an untrusted exception carries can raise anything too
        if (own := _own_line(error, here)) is not None:
            file, line, text = own
            found |= {"line": line, "text": text, "file": Path(file).name, "operands": operands.describe(error, here)}
    return found


def _own_line(error: BaseException, here: str) -> tuple[str, int | None, str] | None:
    """Return file, number and text of the last line of the untrusted code that led to an error.

    A function that is traced runs in a file that AutoGraph wrote. The error then knows the lines that it was made from.
    """
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(here)]
    if own and GENERATED in own[-1].filename:
        metadata: Any = getattr(error, "ag_error_metadata", None)
        for frame in getattr(metadata, "translated_stack", ()):  # the innermost first
            if str(frame.filename).startswith(here):
                return str(frame.filename), int(frame.lineno), str(frame.code).strip()
    own = [frame for frame in own if GENERATED not in frame.filename]
    return (own[-1].filename, own[-1].lineno, own[-1].line or "") if own else None
