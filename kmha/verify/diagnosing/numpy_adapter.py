"""The adapter of plain Python classes that compute with NumPy: their weights are arrays among their attributes."""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.adapter import Adapter
from kmha.verify.diagnosing.weights import Slot, Variable

METHODS = ("forward", "call", "__call__")
# Names of arrays that a constructor computes, and that nobody trains.
CONSTANTS = re.compile(r"mask|tri[lu]|pos|(^|[._])pe([._]|$)|sin|cos|freq|angle|cache|grad|encoding")


class NumpyAdapter(Adapter):
    """Adapter of a class without a framework.

    Args:
        layer_class: Class whose instances are called.
    """

    framework = "numpy"

    def __init__(self, layer_class: type) -> None:
        self.method = _method(layer_class) or "__call__"
        self.calls_by_name = self.method != "__call__"

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        return layer_class(**arguments)

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Do nothing, because the constructor makes all weights."""

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        return getattr(layer, self.method)(**arguments)

    def variables(self, layer: Any) -> list[Variable]:
        return [
            Variable(path, array.shape, functools.partial(_assign, holder, key), functools.partial(_read, holder, key))
            for path, holder, key, array in _arrays(layer)
        ]

    def parts(self, layer: Any) -> list[Any]:
        """Return the objects inside a layer."""
        return list({id(holder): holder for _, holder, _, _ in _arrays(layer) if holder is not layer}.values())

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make an object with these weights."""
        lines = [f"layer = {made}"]
        for slot, array in zip(slots, weights, strict=True):
            path = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", slot.variable.path)
            lines.append(f"layer.{path} = {array}")
        return lines


def is_plain(layer_class: type) -> bool:
    """Return whether a class is written in Python with NumPy, and can be called."""
    method = _method(layer_class)
    if method is None or "__init__" not in {name for each in layer_class.__mro__[:-1] for name in vars(each)}:
        return False
    return frameworks.likely_frameworks(getattr(layer_class, method))[0] == "numpy"


def _method(layer_class: type) -> str | None:
    return next((name for name in METHODS if inspect.isfunction(getattr(layer_class, name, None))), None)


def _arrays(owner: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    """Yield the path of each array of weights, with the object, list or dict that has it, its key, and the array."""
    seen = set() if seen is None else seen
    if id(owner) in seen:
        return
    seen.add(id(owner))
    if isinstance(owner, list):
        items: list[tuple[Any, Any]] = list(enumerate(owner))
    elif isinstance(owner, dict):
        items = list(owner.items())
    else:
        items = list(vars(owner).items()) if hasattr(owner, "__dict__") and not isinstance(owner, type) else []
    for key, value in items:
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "f" and value.ndim and not CONSTANTS.search(name.lower()):
                yield name, owner, key, value
        elif isinstance(value, list | dict) or (hasattr(value, "__dict__") and not inspect.isroutine(value)):
            yield from _arrays(value, name, seen)


def _assign(holder: Any, key: Any, array: np.ndarray) -> None:
    if isinstance(holder, list | dict):
        holder[key] = np.array(array)
    else:
        setattr(holder, key, np.array(array))


def _read(holder: Any, key: Any) -> np.ndarray:
    return holder[key] if isinstance(holder, list | dict) else getattr(holder, key)
