"""Weights that a layer reaches under two names, because one sublayer object stands in two places.

`self.wk = self.wq` and `[Head()] * n` share weights that should be separate. Right code gives one sublayer two names
too, for instance as an attribute and in a `Sequential`. So a second name counts only if it means another projection, or
another item of a list.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.weights import Variable

DEPTH = 4  # maximum number of attributes that lead to a shared sublayer


def with_shared(layer: Any, variables: Sequence[Variable]) -> list[Variable]:
    """Return the variables, and after them those that share their arrays under another name."""
    return with_other_names(variables, _places(layer).values())


def with_other_names(variables: Sequence[Variable], places: Iterable[Sequence[str]]) -> list[Variable]:
    """Return the variables, and after them those that share their arrays under another name.

    A variable with another name cannot be set, so that it keeps what is set under the first name.

    Args:
        variables: Variables of a layer.
        places: Paths of each sublayer that has several. The first is the one in the paths of its variables.
    """
    found = list(variables)
    for paths in places:
        for path in paths[1:]:
            shared = [each for each in variables if each.path.startswith(f"{paths[0]}.")]
            again = [f"{path}{each.path.removeprefix(paths[0])}" for each in shared]
            found += [
                dataclasses.replace(each, path=name, assign=keep)
                for each, name in zip(shared, again, strict=True)
                if _is_another(each.path, name)
            ]
    return found


def keep(_: Any) -> None:
    """Set nothing: the array was set under its first name, or the layer has none."""


def _is_another(path: str, other: str) -> bool:
    """Return whether two names of one weight mean different weights.

    >>> _is_another("wq.weight", "wk.weight"), _is_another("heads.0.wq.weight", "heads.1.wq.weight")
    (True, True)
    >>> _is_another("fc1.weight", "net.0.weight")
    False
    """
    roles = naming.weight(path)[0], naming.weight(other)[0]
    numbered = re.sub(r"\d+", "#", path) == re.sub(r"\d+", "#", other)
    return numbered or (None not in roles and roles[0] != roles[1])


def _places(layer: Any) -> dict[int, list[str]]:
    """Return the paths of each sublayer that has several, keyed by the sublayer's identity."""
    found: dict[int, list[str]] = {}
    for path, part in _parts(layer, "", DEPTH):
        found.setdefault(id(part), []).append(path)
    return {key: paths for key, paths in found.items() if len(paths) > 1}


def _parts(owner: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the sublayers below `owner` with their paths, as often as they occur."""
    if not depth:
        return
    for name, part in _attributes(owner):
        inner = f"{path}.{name}" if path else name
        if isinstance(part, list | tuple):
            yield from _parts(part, inner, depth)
        elif hasattr(part, "parameters") or hasattr(part, "trainable_weights"):
            yield inner, part
            yield from _parts(part, inner, depth - 1)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, list | tuple):
        yield from ((str(number), part) for number, part in enumerate(owner))
    elif hasattr(owner, "_modules"):
        yield from owner._modules.items()
    else:
        named = vars(owner).items() if hasattr(owner, "__dict__") else ()
        for name, part in named:  # Keras' own lists and functions are private too
            if not name.startswith("_") or hasattr(part, "get_config"):
                yield name.strip("_"), part
