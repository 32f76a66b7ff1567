"""Functions that turn queries and keys by rotary positions, such as `apply_rotary(q, k, cos, sin)`, and their tables.

The tables contain angles, or their cosines and sines, or complex numbers. kmha gives the functions those of the usual
angles. Code that returns such tables is judged by what they make of vectors.
"""

import ast
import inspect
import re
import sys
from typing import Any

import numpy as np

from kmha.verify.chains.embedding import turned
from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import parameters
from kmha.verify.diagnosing.with_parameters import class_around

NAME = re.compile("rotary|(^|_)(ro_?pe|rot|rotate)(_|$)")
OTHERS = re.compile("att(entio)?n|score|block|layer|mha|image")
PARTS = re.compile("half|two|every|pair|table|cache|freq|precompute|build|create|make|get")  # of code around it
TABLES = re.compile("cos(?!t)|sin(?!gle)|freq|angle|theta|rotary|rope|(^|_)pos(ition)?(_?emb)?")


def as_rotary(function: Any) -> type | None:
    """Return a class whose objects turn vectors as a function does, or `None` if its name and arguments tell otherwise.

    >>> as_rotary(lambda x: x) is None
    True
    >>> def apply_rotary(x, cos, sin): ...
    >>> as_rotary(apply_rotary).__name__
    'apply_rotary'
    """
    name = getattr(function, "__name__", "").lower()
    if not (inspect.isfunction(function) and (NAME.search(name) or _says_so(function))) or OTHERS.search(name):
        return None
    found = parameters(function)
    roles = naming.roles_of(found)
    tables = [each for each in found if TABLES.search(each.lower())]
    # Beside tables, a single argument of any name is what the function turns.
    is_alone = bool(tables) and len(found) == len(tables) + 1
    turns = {"query", "key"} <= roles.keys() or "self" in roles or is_alone
    is_part = not tables and ("rotate" in name or PARTS.search(name))
    weights = [each for each in {*found} - {*roles.values()} if naming.weight(each)[0]]
    if not turns or is_part or weights or {"value", "heads", "mask", "memory"} & roles.keys():
        return None
    call = lambda self, **arguments: function(**arguments)  # noqa: E731
    body = {"__init__": lambda self: None, "__call__": call, "turns": True}
    return class_around(function, object, {}, found, body)


def _says_so(function: Any) -> bool:
    """Return whether the code of a function of any name speaks of rotary positions, and uses sines but no softmax."""
    code = frameworks.source_of(function).lower()
    waves = all(re.search(rf"\b{name}\(", code) for name in ("sin", "cos"))
    return (
        waves
        and bool(naming.ROTARY.search(code))
        and not re.search("softmax|attention|attend|matmul|einsum|linear|dense", code)
    )


def turned_by(tables: Any, vectors: np.ndarray, may_be_angles: bool = False) -> np.ndarray | None:
    """Return vectors (B, T, O) turned by the tables that code returned, or `None` if it returned something else.

    Args:
        tables: Cosines and sines in any order, or angles, each (T, O) or (T, O/2), or complex numbers (T, O/2). They
            may have more rows, which come last, and axes of size 1.
        vectors: Vectors to turn.
        may_be_angles: Whether a single table contains angles. Sines and cosines in turn look like them.

    >>> angles = np.array([[0.0], [np.pi / 2]])
    >>> turned_by((np.cos(angles), np.sin(angles)), np.array([[[1.0, 2.0], [3.0, 4.0]]])).round(9)
    array([[[ 1.,  2.],
            [-4.,  3.]]])
    """
    parts = [frameworks.to_numpy(each) for each in (tables if isinstance(tables, tuple | list) else [tables])]
    in_pairs = len(parts) == 1 and np.iscomplexobj(parts[0])
    parts = [parts[0].real, parts[0].imag] if in_pairs else parts
    _, rows, size = vectors.shape
    half = size // 2
    if len(parts) == 1 and parts[0].shape[-1:] in ((half,), (size,)):
        table = parts[0]
        both = table.ndim > 2 and table.shape[0] == 2 and np.allclose((table**2).sum(axis=0), 1.0, atol=1e-5)
        are_angles = may_be_angles and not table.reshape(-1, table.shape[-1])[0].any()  # at position 0
        parts = [*table] if both else [np.cos(table), np.sin(table)] if are_angles else parts
    if len(parts) != 2 or parts[0].shape != parts[1].shape or parts[0].ndim < 2 or size % 2:
        return None
    cos, sin = (each.reshape(-1, each.shape[-1])[:rows] for each in parts)
    if len(cos) < rows:
        return None
    cos, sin = (sin, cos) if np.allclose(sin[0], 1.0) else (cos, sin)
    if cos.shape[-1] == size:  # each angle twice
        in_pairs = not np.allclose(cos[:, :half], cos[:, half:])
        twice = [(each[:, ::2], each[:, 1::2]) if in_pairs else np.split(each, 2, -1) for each in (cos, sin)]
        if not all(np.allclose(one, other) for one, other in twice):
            return None
        cos, sin = twice[0][0], twice[1][0]
    if cos.shape[-1] != half:
        return None
    return turned(vectors, cos, sin, in_pairs).astype(parts[0].dtype)


def stated_numbers(thing: Any) -> frozenset[float]:
    """Return the numbers in the code of a class or function, variables of its module, and attributes of an object.

    >>> def frequencies(size, base=500_000): ...
    >>> sorted(stated_numbers(frequencies))
    [500000.0]
    """
    code = frameworks.syntax_of(getattr(thing, "__wrapped__", thing if callable(thing) else type(thing)))
    values: list[Any] = [each.value for each in ast.walk(code) if isinstance(each, ast.Constant)]
    values += [] if isinstance(thing, type) else [*getattr(thing, "__dict__", {}).values()]
    around = getattr(sys.modules.get(getattr(thing, "__module__", "")), "__dict__", {})
    values += [around[each.id] for each in ast.walk(code) if isinstance(each, ast.Name) and each.id in around]
    return frozenset(float(each) for each in values if type(each) in (int, float))


def begins_with_sines(tables: Any) -> bool:
    """Return whether the first of several tables contains sines, which are 0 at the first position."""
    return isinstance(tables, tuple | list) and not frameworks.to_numpy(tables[0]).reshape(-1)[0]
