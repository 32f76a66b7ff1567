"""Find objects below a layer, with the paths of attributes that lead to them."""

from collections.abc import Iterator
from typing import Any

# Keras' own lists. Their items are also found as separate attributes, except in a `Sequential`.
KERAS_OWN = (
    "_layers",
    "_functional",
    *("_trainable_variables", "_non_trainable_variables", "_trainable_weights", "_non_trainable_weights"),
    "_metrics",
    "_losses",
)


def walk(
    owner: Any, layer: type, wanted: type | tuple[type, ...], path: str = "", seen: Any = None
) -> Iterator[tuple[str, Any]]:
    """Yield all objects of type `wanted` below `owner`, each with its attribute path.

    Args:
        owner: Object to begin with.
        layer: Type of the objects whose attributes are searched, beside lists, tuples and dicts.
        wanted: Type or types of the objects to find, such as variables.
        path: Path of `owner`.
        seen: Ids of the objects that have been searched.
    """
    seen = set() if seen is None else seen
    if id(owner) in seen:
        return
    seen.add(id(owner))
    if isinstance(owner, wanted):
        yield path, owner
    elif isinstance(owner, list | tuple | dict):
        for name, item in owner.items() if isinstance(owner, dict) else enumerate(owner):
            yield from walk(item, layer, wanted, f"{path}.{name}", seen)
    elif isinstance(owner, layer):
        own = {name: number for number, name in enumerate(KERAS_OWN)}
        for name, value in sorted(vars(owner).items(), key=lambda item: own.get(item[0], -1)):
            if isinstance(value, (layer, list, tuple, dict, wanted)) and not name.startswith("_self_"):
                inner = name.strip("_")
                yield from walk(value, layer, wanted, f"{path}.{inner}" if path else inner, seen)


def inside(owner: Any, layer: type) -> list[Any]:
    """Return all layers inside a layer, through attributes, lists, tuples and dicts, each once."""
    found: dict[int, Any] = {}
    waiting = [owner]
    while waiting:
        one = waiting.pop()
        if isinstance(one, layer) and one is not owner:
            if id(one) in found:
                continue
            found[id(one)] = one
        if isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, layer):
            waiting += vars(one).values()
    return list(found.values())
