"""Copies of objects whose attributes may be functions that refer to parts of the object.

`self.mlp = lambda x: m.c_proj(m.c_fc(x))` in a constructor keeps `m`. `copy.deepcopy` copies no function, so that the
copy's function would still call the parts of the original.
"""

import copy
import types
from collections.abc import Iterator
from typing import Any

from kmha.verify.diagnosing import frameworks


def copied(thing: Any) -> Any:
    """Return a deep copy whose functions refer to its own parts.

    >>> class Layer:
    ...     def __init__(self):
    ...         part = self.part = [1]
    ...         self.read = lambda: part
    >>> layer = copied(Layer())
    >>> layer.read() is layer.part
    True
    """
    memo: dict[int, Any] = {}
    for each in _delegating(thing, set()):
        memo[id(each)] = made = object.__new__(type(each))
        vars(made).update(copy.deepcopy(vars(each), memo))
    result = copy.deepcopy(thing, memo)
    for part in [*memo.values()]:  # the memo has everything that was copied, and a list of the originals
        attributes = vars(part) if hasattr(part, "__dict__") and not isinstance(part, type) else {}
        for name, value in [*attributes.items()]:
            if isinstance(value, types.FunctionType) and (value.__closure__ or value.__defaults__):
                attributes[name] = with_copies(value, memo)
    return result


def _delegating(thing: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the objects below a thing that take `__deepcopy__` from an array they hold, whose copy would be an array.

    Their class gets all attributes that it lacks from the array by `__getattr__`.
    """
    if id(thing) in seen or isinstance(thing, type | types.ModuleType | types.FunctionType):
        return
    seen.add(id(thing))
    own = vars(thing) if type(thing).__dictoffset__ else {}
    by_class = not hasattr(type(thing), "__getattr__") or hasattr(type(thing), "__deepcopy__")
    if own and not by_class and hasattr(thing, "__deepcopy__"):
        yield thing
        return
    inside = thing if isinstance(thing, list | tuple) else (thing if isinstance(thing, dict) else own).values()
    for each in inside:
        yield from _delegating(each, seen)


def with_copies(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    """Return a function that refers to the copies of what it refers to, itself or through other functions.

    Args:
        function: Function that refers to something.
        memo: Copies, keyed by the ids of their originals. Copies of functions are added.
    """
    held = frameworks.around(function)
    nearby = frameworks.named_nearby(function)
    named = [name for name, each in nearby.items() if name not in held and _has_copy(each, memo)]
    scope = {**function.__globals__} if named else function.__globals__
    names, before = function.__code__.co_freevars, function.__closure__ or ()
    cells = {n: types.CellType() if n in held else cell for n, cell in zip(names, before, strict=True)}
    made = types.FunctionType(function.__code__, scope, function.__name__, None, tuple(cells.values()))
    memo[id(function)] = made
    for name, each in held.items():
        cells[name].cell_contents = _copy_of(each, memo)
    scope.update({name: _copy_of(scope[name], memo) for name in named})
    made.__defaults__ = tuple(_copy_of(each, memo) for each in function.__defaults__ or ())
    made.__kwdefaults__ = {name: _copy_of(each, memo) for name, each in (function.__kwdefaults__ or {}).items()}
    return made


def _copy_of(value: Any, memo: dict[int, Any]) -> Any:
    """Return the copy of something that has one, or of a function that refers to something with one, or the value."""
    if id(value) in memo:
        return memo[id(value)]
    return with_copies(value, memo) if _has_copy(value, memo) else value


def _has_copy(value: Any, memo: dict[int, Any]) -> bool:
    """Return whether something has a copy, or is a function that refers to something with one."""
    if id(value) in memo or not isinstance(value, types.FunctionType):
        return id(value) in memo
    called = frameworks.called_by(value)
    return any(id(each) in memo for one in called for each in frameworks.referred_to(one).values())
