"""The candidate's code as text and as syntax trees, where Python can read it.

Besides the function or the layer's class itself, these are the classes of its sublayers and the helper functions of
the same package.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmha.verify.choices.attention import BASES
from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import METHODS
from kmha.verify.diagnosing.candidate import Candidate

FRAMEWORKS = ("torch", "keras", "tensorflow", "jax", "flax", "haiku", "equinox", "numpy", "builtins", "einops", "math")
LIMIT = 60  # maximum number of functions to read
LARGE = 10_000  # hardly any other integer in code of attention is larger
CONSTRUCTORS = ("Linear", "Dense", "Parameter", "Embedding", "EinsumDense", "LazyLinear")
DRAWS = ("randn", "normal", "uniform", "rand", "glorot_uniform", "random_normal", "truncated_normal")


@dataclasses.dataclass(frozen=True)
class SourceFunction:
    """A function of the candidate's code.

    Attributes:
        name: Name of the function.
        path: File that contains the function.
        first: Number of the function's first line.
        lines: Lines of the function.
        tree: Syntax tree of the function, with lines counted from 1.
    """

    name: str
    path: str
    first: int
    lines: tuple[str, ...]
    tree: ast.AST


def functions_of(candidate: Candidate) -> list[SourceFunction]:
    """Return the functions of the candidate's code: what it calls first, then constructors and other methods."""
    owner = _owner(candidate)
    thing: Any = getattr(owner, "layer_class", None) or getattr(owner, "function", None)
    thing = inspect.unwrap(thing)
    found: dict[int, SourceFunction] = {}
    for function in _reachable(thing, _parts(candidate)):
        code = id(function.__code__)
        if code not in found and len(found) < LIMIT and (read := _read(function)) is not None:
            found[code] = read
    return sorted(found.values(), key=lambda each: each.name == "__init__")


def _owner(candidate: Candidate) -> Any:
    """Return the candidate, or the layer whose call it is, if that has no weights."""
    return getattr(candidate, "layer", candidate)


def _parts(candidate: Candidate) -> list[type]:
    """Return the classes of the layers that the diagnosis has made, and of their sublayers."""
    return list(dict.fromkeys(type(part) for part in _modules(candidate)))


def _modules(candidate: Candidate) -> Iterator[Any]:
    for made in getattr(candidate, "cache", {}).values():
        layer: Any = made[0] if isinstance(made, tuple) else None
        yield from layer.modules() if hasattr(layer, "modules") else getattr(layer, "_flatten_layers", list)()


def stated_bases(candidate: Candidate) -> frozenset[float]:
    """Return what may be the base of rotary positions: known ones in the files of the code, or in its attributes.

    Small integers are more often something else, such as a number of positions.
    """
    found = [value for part in _modules(candidate) for value in vars(part).values()]
    for path in {each.path for each in functions_of(candidate)}:
        with contextlib.suppress(OSError, UnicodeDecodeError):  # code of a notebook has no file
            tree = frameworks.syntax_of(Path(path).read_text(encoding="utf-8"))
            found += [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    numbers = (float(each) for each in found if type(each) is float or (type(each) is int and each >= LARGE))
    return frozenset(BASES).intersection(numbers)


def _reachable(thing: Any, parts: list[type]) -> Iterator[Any]:
    """Yield the functions of the candidate, of its sublayers, and the helpers of the same package that they name."""
    queue: list[Any] = [thing, *parts]
    root = _root(thing)
    seen: set[int] = set()
    while queue:
        each = queue.pop(0)
        if isinstance(each, type):
            queue += _used_methods(each)
            continue
        function = _plain(each)
        if function is None or id(function) in seen or not _is_own(function):
            continue
        seen.add(id(function))
        yield function
        named = frameworks.named_in(function).values()
        queue += [value for value in named if inspect.isfunction(value) and _root(value) == root]


def _plain(thing: Any) -> Any:
    """Return the function with the code of a partial function, a wrapper or a callable object, or `None`."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if inspect.ismethod(thing):
        thing = thing.__func__
    if not inspect.isfunction(thing):
        thing = vars(type(thing)).get("__call__")
    return thing if inspect.isfunction(thing) else None


def _used_methods(owner: type) -> list[Any]:
    """Return the methods of a class and its parents, without those that are overridden and not called by `super()`."""
    found: dict[str, list[Any]] = {}
    for parent in owner.__mro__ if _is_own(owner) else ():
        for method in _methods(parent) if _is_own(parent) else ():
            mine = found.setdefault(method.__name__, [])
            if not mine or "super" in mine[-1].__code__.co_names:
                mine.append(method)
    return [method for methods in found.values() for method in methods]


def _methods(owner: type) -> list[Any]:
    found = vars(owner).items()
    plain = [(name, value.__func__ if isinstance(value, staticmethod) else value) for name, value in found]
    functions = [(name, value) for name, value in plain if inspect.isfunction(value)]
    return [value for _, value in sorted(functions, key=lambda item: item[0] not in METHODS)]


def _root(thing: Any) -> str:
    return str(getattr(_plain(thing) if not isinstance(thing, type) else thing, "__module__", "")).split(".")[0]


def _is_own(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).split(".")[0] not in FRAMEWORKS


def _read(function: Any) -> SourceFunction | None:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        path = inspect.getsourcefile(function) or function.__code__.co_filename
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    if not _is_code_of(function, tree):
        return None
    return SourceFunction(function.__name__, path, first, tuple(line.rstrip("\n") for line in lines), tree)


def _is_code_of(function: Any, tree: ast.AST) -> bool:
    """Return whether the text is the function's own: code that changed after it was read has other names in it."""
    if isinstance(function, type(lambda: None)) and function.__name__ == "<lambda>":
        return True
    defined = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)
    return defined is not None and defined.name == function.__code__.co_name


def mentions(candidate: Candidate, pattern: str) -> bool:
    """Return whether a line of the candidate's code, in lower case, matches a regular expression."""
    return any(re.search(pattern, line.lower()) for each in functions_of(candidate) for line in each.lines)


def makes_weights_in_call(candidate: Candidate) -> bool:
    """Return whether the call itself makes layers or draws random arrays."""
    for each in functions_of(candidate):
        if each.name in METHODS or not hasattr(_owner(candidate), "layer_class"):
            calls = [node for node in ast.walk(each.tree) if isinstance(node, ast.Call)]
            if any(called(node) in CONSTRUCTORS or _draws_matrix(node) for node in calls):
                return True
    return False


def _draws_matrix(node: ast.Call) -> bool:
    """Return whether a call draws a random array of a shape with several sizes. The shape of an input means noise."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return called(node) in DRAWS and (
        len(node.args) > 1 or any(isinstance(each, ast.Tuple | ast.List) for each in given)
    )


def called(node: ast.Call) -> str:
    """Return the last part of the name that a call calls, or ""."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
