"""`convert`: weights of one layout to another, by way of the canonical one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.interchange import mapping, recognition
from kmha.interchange.errors import LayoutError, listed
from kmha.interchange.layout import Layout
from kmha.interchange.registry import find


class Converted(dict[str, np.ndarray]):
    """Arrays by name, with what the conversion has to say about them.

    Attributes:
        notes: a sentence for each weight that was folded, left out, or filled with zeros.
        source: the name of the layout that they came from; with "auto" the one that was recognised.
        target: the name of the layout that they have.
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
    """Weights of one layout to another, bit for bit, unless something has to be folded.

    Args:
        weights: arrays by name.
        source: their layout, one of `kmha.interchange.LAYOUTS` or a `Layout`; "auto" for the one that fits.
        target: the layout that they get.
        num_heads: H, where the shapes of `source` leave it open.
        fold: whether weights that `target` has no place for may be folded into others where that is exact; the notes
            say what was done.
        prefix: what the names of the weights begin with; only those are converted. `None`: all weights, and a prefix
            that they have in common does no harm.

    Returns:
        Arrays by name, with the dtypes that they had, and `notes`. They may share memory with `weights`.

    Raises:
        LayoutError: (a ValueError) names are missing or unexpected, a shape does not fit, `num_heads` is needed, no
            layout or several fit, or `target` cannot hold what the weights hold; the message says which, and why.

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
    """Weights of a layout to the canonical one, which `kmha.interchange.canonical` describes; as `convert`."""
    if prefix is not None:
        if not any(name.startswith(prefix) for name in weights):
            raise LayoutError(f"No name begins with {prefix!r}. There are: {listed(weights)}.")
        weights = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
    if source == "auto":
        one = recognition.the_reading(weights, num_heads)
        source, weights = one.layout, one.without_prefix(weights)
    layout = find(source)
    if prefix is None:
        weights = recognition.without_prefix(weights, layout)
    canonical, notes = mapping.read(weights, layout, num_heads)
    return Converted(canonical, notes, layout.name, "canonical")


def from_canonical(weights: Mapping[str, Any], target: str | Layout, *, fold: bool = False) -> Converted:
    """Weights of the canonical layout to another; as `convert`."""
    layout = find(target)
    return Converted(*mapping.write(weights, layout, fold), "canonical", layout.name)
