"""A function around a layer, such as `lambda x: layer(Tensor(x)).data`, as an object that holds the layer."""

import inspect
from typing import Any

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import parameters
from kmha.verify.diagnosing.copies import with_copies
from kmha.verify.diagnosing.layer_adapters import is_layer
from kmha.verify.diagnosing.plain_adapter import is_plain_layer, is_weights
from kmha.verify.diagnosing.with_parameters import class_around


def as_object(function: Any) -> Any | None:
    """Return an object that holds the layers that a function refers to, and is called as the function is.

    The layers are objects of plain classes, or dicts and lists of weights. `None` if the function refers to none.
    """
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        return None
    held = _held(plain)
    if not held:
        return None

    def construct(self: Any) -> None:
        vars(self).update(held)

    def call(self: Any, **arguments: Any) -> Any:
        return with_copies(plain, {id(held[name]): getattr(self, name) for name in held})(**arguments)

    return class_around(function, object, {}, parameters(function), {"__init__": construct, "__call__": call})()


def _held(function: Any, seen: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the layers that a function refers to, itself or through other functions, keyed by name."""
    found: dict[str, Any] = {}
    seen = (*seen, function)
    for name, value in frameworks.around(function).items():
        if inspect.isfunction(value):
            found |= {} if value in seen else _held(value, seen)
        elif is_weights(value) if isinstance(value, dict | list) else is_plain_layer(value) and not is_layer(value):
            found[name] = value
    return found
