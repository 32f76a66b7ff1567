"""The adapter of plain Python classes that compute with NumPy: their weights are arrays among their attributes."""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.adapter import Adapter
from kmha.verify.diagnosing.calling import METHODS
from kmha.verify.diagnosing.weights import Slot, Variable

# Names of arrays that a constructor computes, and that nobody trains.
CONSTANTS = re.compile(r"mask|tri[lu]|pos|(^|[._])pe([._]|$)|sin|cos|freq|angle|cache|grad|encoding")


@dataclasses.dataclass(frozen=True)
class Place:
    """A place that holds an array of weights.

    Attributes:
        path: Names and indices that lead to the array, separated by dots.
        code: Python code that leads from a layer to the array, such as ".heads[0].kernel".
        holder: Object, list or dict that holds the array.
        key: Name, index or key of the array in `holder`.
    """

    path: str
    code: str
    holder: Any
    key: Any

    def read(self) -> np.ndarray:
        items = isinstance(self.holder, list | dict)
        found: np.ndarray = self.holder[self.key] if items else getattr(self.holder, self.key)
        return found

    def assign(self, array: np.ndarray) -> None:
        if isinstance(self.holder, list | dict):
            self.holder[self.key] = np.array(array)
        else:
            setattr(self.holder, self.key, np.array(array))


class NumpyAdapter(Adapter):
    """Adapter of a class without a framework.

    Args:
        layer_class: Class whose instances are called.
    """

    framework = "numpy"

    def __init__(self, layer_class: type) -> None:
        self.method = _method(layer_class) or "__call__"
        self.calls_by_name = self.method != "__call__"
        self.codes: dict[str, str] = {}  # code that leads from a layer to each array, keyed by path

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        return layer_class(**arguments)

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Do nothing, because the constructor makes all weights."""

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        return getattr(layer, self.method)(**arguments)

    def variables(self, layer: Any) -> list[Variable]:
        places = list(_places(layer))
        self.codes = {place.path: place.code for place in places}
        return [Variable(place.path, place.read().shape, place.assign, place.read) for place in places]

    def parts(self, layer: Any) -> list[Any]:
        """Return the objects inside a layer."""
        holders = (place.holder for place in _places(layer))
        return list({id(holder): holder for holder in holders if holder is not layer}.values())

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make an object with these weights."""
        arrays = zip(slots, weights, strict=True)
        return [f"layer = {made}", *(f"layer{self.codes[slot.variable.path]} = {array}" for slot, array in arrays)]


def is_plain(layer_class: type) -> bool:
    """Return whether a class is written in Python with NumPy, and can be called."""
    method = _method(layer_class)
    if method is None or "__init__" not in {name for each in layer_class.__mro__[:-1] for name in vars(each)}:
        return False
    return frameworks.likely_frameworks(getattr(layer_class, method))[0] == "numpy"


def _method(layer_class: type) -> str | None:
    return next((name for name in METHODS if inspect.isfunction(getattr(layer_class, name, None))), None)


def _places(owner: Any, path: str = "", code: str = "", seen: set[int] | None = None) -> Iterator[Place]:
    """Yield the places of all arrays of weights below an object, list or dict."""
    seen = set() if seen is None else seen
    if id(owner) in seen:
        return
    seen.add(id(owner))
    items: Iterable[tuple[Any, Any]] = getattr(owner, "__dict__", {}).items() if not isinstance(owner, type) else ()
    if isinstance(owner, list | dict):
        items = enumerate(owner) if isinstance(owner, list) else owner.items()
    for key, value in list(items):
        name = f"{path}.{key}" if path else str(key)
        place = Place(name, f"{code}[{key!r}]" if isinstance(owner, list | dict) else f"{code}.{key}", owner, key)
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "f" and value.ndim and not CONSTANTS.search(name.lower()):
                yield place
        elif isinstance(value, list | dict) or (hasattr(value, "__dict__") and not inspect.isroutine(value)):
            yield from _places(value, name, place.code, seen)
