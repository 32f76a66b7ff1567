"""Convert weights from one layout to another, through the canonical one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.interchange import mapping, recognition
from kmha.interchange.errors import LayoutError, listed
from kmha.interchange.layout import Layout
from kmha.interchange.registry import find


class Converted(dict[str, np.ndarray]):
    """The converted arrays, keyed by name, with notes about the conversion.

    Attributes:
        notes: A sentence for each weight that was folded, left out, or filled with zeros.
        source: Name of the layout before the conversion, or of the recognised layout if `source` was "auto".
        target: Name of the layout after the conversion.
    """

    def __init__(self, weights: Mapping[str, np.ndarray], notes: list[str], source: str, target: str) -> None:
        super().__init__(weights)
        self.notes, self.source, self.target = notes, source, target


def convert(
    weights: Mapping[str, Any],
    source: str | Layout,
    target: str | Layout,
    *,
    num_heads: int | None = None,
    fold: bool = False,
    prefix: str | None = None,
) -> Converted:
    """Convert weights from one layout to another, bit for bit unless something has to be folded.

    Args:
        weights: Arrays, keyed by name.
        source: Layout of the weights: a name in `kmha.interchange.LAYOUTS`, a `Layout`, or "auto" to recognise it.
        target: Layout to convert to.
        num_heads: Number of heads (H), needed if the shapes do not determine it.
        fold: If True, weights that `target` has no place for are folded into others where that is exact. The
            notes say what was done.
        prefix: Convert only the weights whose names begin with this prefix. `None` converts all weights, and
            ignores a prefix that all names share.

    Returns:
        Arrays, keyed by name, with their original dtypes, and `notes`. The arrays may share memory with `weights`.

    Raises:
        LayoutError: (a ValueError) Names are missing or unexpected, a shape is wrong, `num_heads` is needed, no layout
            or more than one matches, or `target` cannot hold the weights.

    >>> weights = {"W_q.weight": np.ones((6, 4)), "W_k.weight": np.ones((6, 5)), "W_v.weight": np.ones((6, 7))}
    >>> weights["W_o.weight"] = np.ones((6, 6))
    >>> converted = convert(weights, "d2l", "keras", num_heads=3)
    >>> {name: array.shape for name, array in converted.items()}["key/kernel"], converted.notes
    ((5, 3, 2), [])
    """
    goal = find(target)
    canonical = to_canonical(weights, source, num_heads=num_heads, prefix=prefix)
    foreign, notes = mapping.write(canonical, goal, fold)
    return Converted(foreign, canonical.notes + notes, canonical.source, goal.name)


def to_canonical(
    weights: Mapping[str, Any], source: str | Layout, *, num_heads: int | None = None, prefix: str | None = None
) -> Converted:
    """Convert weights to the canonical layout (`kmha.interchange.canonical`). The arguments are those of `convert`."""
    if prefix is not None:
        if not any(name.startswith(prefix) for name in weights):
            raise LayoutError(f"No name begins with {prefix!r}. Received: {listed(weights)}.")
        weights = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
    if source == "auto":
        reading = recognition.the_reading(weights, num_heads)
        source, weights = reading.layout, reading.without_prefix(weights)
    layout = find(source)
    if prefix is None:
        weights = recognition.without_prefix(weights, layout)
    canonical, notes = mapping.read(weights, layout, num_heads)
    return Converted(canonical, notes, layout.name, "canonical")


def from_canonical(weights: Mapping[str, Any], target: str | Layout, *, fold: bool = False) -> Converted:
    """Convert weights from the canonical layout to another. The arguments are those of `convert`."""
    layout = find(target)
    return Converted(*mapping.write(weights, layout, fold), "canonical", layout.name)
