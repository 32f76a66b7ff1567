"""Copies of objects whose attributes may be functions that refer to parts of the object.

`self.mlp = lambda x: m.c_proj(m.c_fc(x))` in a constructor keeps `m`. `copy.deepcopy` copies no function, so that the
copy's function would still call the parts of the original.
"""

import copy
import types
from typing import Any


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
    result = copy.deepcopy(thing, memo)
    for part in [*memo.values()]:  # the memo has everything that was copied, and a list of the originals
        attributes = vars(part) if hasattr(part, "__dict__") and not isinstance(part, type) else {}
        for name, value in [*attributes.items()]:
            if isinstance(value, types.FunctionType) and value.__closure__:
                attributes[name] = _with_copies(value, memo)
    return result


def _with_copies(function: types.FunctionType, memo: dict[int, Any]) -> types.FunctionType:
    """Return a function that refers to the copies of what it refers to."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(types.CellType(memo.get(id(cell.cell_contents), cell.cell_contents)))
        except ValueError:  # the cell is empty
            cells.append(cell)
    code, name, defaults = function.__code__, function.__name__, function.__defaults__
    made = types.FunctionType(code, function.__globals__, name, defaults, tuple(cells))
    made.__kwdefaults__ = function.__kwdefaults__
    return made
