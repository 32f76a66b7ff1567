"""Find a table of relative positions in a window (Liu et al. 2021, section 3.2) whose entries several offsets share.

kmha sets such a table to zeros, because it is a design choice. What index belongs to which pair of positions is none:
two pairs with other offsets must have other entries, if the table has as many entries as there are offsets.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding

INDEX = re.compile("rel.*(index|idx|indices)$")
WINDOW = re.compile("^_?win(dow)?_?(size|shape)?$")


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if the index of a layer's window gives offsets the same entry, which has room for all."""
    if not hasattr(candidate, "layer_class") or candidate.chain != "attention" or not results:
        return None
    layer: Any = candidate
    held = held_by(layer.make(results[0].trial)[0])
    sides = next((side for name, value in held.items() if WINDOW.search(name) and (side := _sides(value))), None)
    if sides is None:
        return None
    count = int(np.prod([2 * side - 1 for side in sides]))
    shapes = [shape for value in held.values() if isinstance(shape := getattr(value, "shape", None), tuple)]
    for name, index in _indices(held) if any(count in shape for shape in shapes) else ():
        if index.shape != (np.prod(sides),) * 2:
            continue
        if all(_shares(index, _offsets(sides, order)) for order in ("C", "F")):
            says = f"`{name}` has {len(np.unique(index))} entries for {count} offsets in a window {sides}."
            return Finding(says, ("relative-bias-shared",), conclusive=True)
    return None


def held_by(layer: Any) -> Mapping[str, Any]:
    """Return the attributes of a layer, with the buffers and parameters that torch keeps apart."""
    named = [getattr(layer, each)() for each in ("named_buffers", "named_parameters") if hasattr(layer, each)]
    return {**getattr(layer, "__dict__", {}), **{name: each for items in named for name, each in items}}


def _sides(value: Any) -> tuple[int, ...] | None:
    sides = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, tuple | list) else ()
    return sides if len(sides) == 2 and all(isinstance(each, int) for each in sides) else None


def _indices(held: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in held.items():
        if INDEX.search(name.lower()) and hasattr(value, "shape"):
            yield name, np.asarray(frameworks.to_numpy(value))


def _offsets(sides: tuple[int, ...], order: Any) -> np.ndarray:
    """Return a number for the offset of each pair of positions (N, N), with rows ("C") or columns ("F") first."""
    places = np.stack(np.unravel_index(np.arange(np.prod(sides)), sides, order), axis=-1)
    between = places[:, None] - places[None]
    return between[..., 0] * 2 * max(sides) + between[..., 1]


def _shares(index: np.ndarray, offsets: np.ndarray) -> bool:
    """Return whether two pairs of positions with other offsets have the same entry."""
    pairs = np.unique(np.stack([index.ravel(), offsets.ravel()]), axis=1)
    return len(np.unique(pairs[0])) < pairs.shape[1]
