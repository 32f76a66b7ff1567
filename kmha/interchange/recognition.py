"""Recognise the layouts that weights can have, from the names and shapes of the weights."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmha.interchange import mapping
from kmha.interchange.errors import LayoutError, listed
from kmha.interchange.layout import Layout
from kmha.interchange.registry import LAYOUTS

# Maximum number of heads to try if the shapes do not determine the number. No model has more.
MOST_HEADS = 256
_MOST_COMPARED = 1_000  # maximum number of names that are compared with those of all layouts, to find the nearest


@dataclasses.dataclass(frozen=True)
class Reading:
    """A layout that fits some weights.

    Attributes:
        layout: Name of the layout.
        prefix: Prefix of all names that is not part of the layout.
        heads: Possible numbers of heads: one number if the shapes determine it, several if `num_heads` is needed.
        same_as: Names of other layouts that read these weights in the same way.
    """

    layout: str
    prefix: str
    heads: tuple[int, ...]
    same_as: tuple[str, ...] = ()

    needs_num_heads = property(lambda self: len(self.heads) > 1)

    def without_prefix(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Return the weights with the names that the layout knows."""
        return {name.removeprefix(self.prefix): array for name, array in weights.items()}


def recognize(weights: Mapping[str, Any], num_heads: int | None = None) -> list[Reading]:
    """Return all readings of the weights that give different results. The list is empty if no layout fits.

    Args:
        weights: Arrays, or anything else that `numpy.asarray` takes, keyed by name.
        num_heads: Number of heads (H), if known. This excludes readings with other numbers.

    >>> kernels = {f"{role}/kernel": np.ones((3, 4, 5)) for role in ("query", "key", "value")}
    >>> kernels["attention_output/kernel"] = np.ones((3, 5, 7))
    >>> [reading.layout for reading in recognize(kernels)]
    ['ours']
    """
    arrays = {name: np.asarray(array) for name, array in weights.items()}
    readings: list[Reading] = []
    for layout in LAYOUTS.values():
        found = _fitting(arrays, layout, num_heads)
        if found is None:
            continue
        twins = (place for place, other in enumerate(readings) if _same(arrays, found, other))
        place = next(twins, None)
        if place is None:
            readings.append(found)
        else:
            readings[place] = dataclasses.replace(readings[place], same_as=(*readings[place].same_as, layout.name))
    return readings


def the_reading(weights: Mapping[str, Any], num_heads: int | None = None) -> Reading:
    """Return the only reading of the weights.

    Raises:
        LayoutError: No layout fits, or several do.
    """
    readings = recognize(weights, num_heads)
    if not readings:
        raise LayoutError(f"No layout fits. {_nearest(weights, num_heads)}")
    if len(readings) > 1:
        names = [found.layout for found in readings]
        raise LayoutError(
            f"The names and shapes fit {len(readings)} layouts, which would compute different things: {listed(names)}. "
            "Choose one of them."
        )
    return readings[0]


def without_prefix(weights: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Return the weights without the prefix that all names have before the layout's own."""
    return next(_unprefixed(weights, layout), ("", dict(weights)))[1]


def _unprefixed(weights: Mapping[str, Any], layout: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield shared prefixes, shortest first, and the weights without them. The first name then matches the layout."""
    first = next(iter(weights), "")
    prefixes = set()
    for item in layout.items:
        starts = (i for i in range(len(first)) if i == 0 or first[i - 1] in "./")
        prefixes |= {first[:start] for start in starts if item.names.match(first[start:]) is not None}
    for prefix in sorted(prefixes, key=len):
        if all(name.startswith(prefix) for name in weights):
            yield prefix, {name.removeprefix(prefix): array for name, array in weights.items()}


def _fitting(arrays: Mapping[str, np.ndarray], layout: Layout, num_heads: int | None) -> Reading | None:
    for prefix, weights in _unprefixed(arrays, layout):
        heads = _fitting_heads(weights, layout, num_heads)
        if heads is not None:
            with contextlib.suppress(LayoutError):  # a constant has another value
                mapping.read(weights, layout, heads[-1] if heads else None)
                return Reading(layout.name, prefix, heads)
    return None


def _fitting_heads(weights: Mapping[str, np.ndarray], layout: Layout, num_heads: int | None) -> tuple[int, ...] | None:
    """Return the possible numbers of heads, `None` if the weights cannot be read, or () if the layout has no heads."""
    try:
        found = mapping.find(weights, layout)
    except LayoutError:
        return None
    with contextlib.suppress(LayoutError):
        of_scopes = mapping.sizes(layout, found, num_heads).values()
        return tuple(sorted({of_scope["H"] for of_scope in of_scopes if "H" in of_scope}))
    possible = []
    for heads in range(1, MOST_HEADS + 1) if num_heads is None else ():
        with contextlib.suppress(LayoutError):
            mapping.sizes(layout, found, heads)
            possible.append(heads)
    return tuple(possible) or None


def _same(arrays: Mapping[str, np.ndarray], one: Reading, other: Reading) -> bool:
    """Return True if two readings give the same canonical weights, for every number of heads that fits."""
    if one.heads != other.heads or one.prefix != other.prefix:
        return False
    weights = one.without_prefix(arrays)
    for heads in one.heads or (None,):
        first, second = (mapping.read(weights, LAYOUTS[each.layout], heads)[0] for each in (one, other))
        if first.keys() != second.keys() or not all(_equal(first[path], second[path]) for path in first):
            return False
    return True


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _nearest(weights: Mapping[str, Any], num_heads: int | None) -> str:
    """Return the error of the layout that knows more of the names than any other layout."""
    step = 1 + (len(weights) - 1) // _MOST_COMPARED
    names = [*weights][::step]
    known = {
        name: sum(any(item.names.match(w, True) is not None for item in layout.items) for w in names)
        for name, layout in LAYOUTS.items()
    }
    name = max(known, key=lambda each: known[each])
    if not known[name]:
        return f"Received the names: {listed(weights)}. Known layouts: {', '.join(LAYOUTS)}."
    try:
        mapping.plan(without_prefix(weights, LAYOUTS[name]), LAYOUTS[name], num_heads)
    except LayoutError as error:
        return f"The nearest is `{name}`: {error}"
    return ""
