"""From the canonical layout to a foreign one."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmha.interchange import axes, folding
from kmha.interchange.canonical import Weights
from kmha.interchange.errors import LayoutError, listed
from kmha.interchange.layout import Constant, Entry, Layout
from kmha.interchange.reading import Key, Sizes, check_rules, counts, entries_for, scope_in

# What stands for a missing weight without changing the result, by the end of its path.
FILLS = {"bias": 0.0, "beta": 0.0}


def write(weights: Mapping[str, Any], layout: Layout, fold: bool = False) -> tuple[Weights, list[str]]:
    """The foreign weights, and what was folded, left out or filled on the way."""
    canonical, notes = folding.fit({path: np.asarray(array) for path, array in weights.items()}, layout, fold)
    keys = list(_entries(canonical, layout))
    missing = [path for key in keys for path in _paths(key) if path not in canonical and not _fill(path)]
    if missing:
        raise LayoutError(f"Missing for the layout `{layout.name}`: {listed(missing)}. Given: {listed(canonical)}.")
    sizes, dtypes = _sizes(keys, canonical, layout)
    foreign: Weights = {}
    for key in keys:
        scope = scope_in(key)
        if isinstance(key[0], Constant):
            shape = axes.shape_of(axes.parse_side(key[0].axes), sizes[scope])
            foreign[key[0].names.fill(dict(key[1]))] = np.full(shape, key[0].value, dtypes[scope])
            continue
        arrays = []
        for path in _paths(key):
            if path not in canonical:
                notes.append(f"`{path}` is not there, and `{layout.name}` needs it: zeros, which change nothing.")
            arrays.append(canonical[path] if path in canonical else _zeros(key, sizes[scope], dtypes[scope]))
        foreign.update(_parts(key, arrays, sizes[scope]))
    return foreign, notes


def _entries(canonical: Weights, layout: Layout) -> Iterator[Key]:
    """The entries that the canonical weights need, in the layout's order."""
    groups: set[str] = set()
    indices = []
    for path in canonical:
        for entry in layout.entries:
            values = entry.paths.match(path)
            if values is not None and (not entry.packed or values["P"] in entry.packed):
                groups.update(entry.groups)
                indices.append(tuple((letter, int(values[letter])) for letter in entry.indices))
    return entries_for(layout, groups, counts(indices))


def _paths(key: Key) -> list[str]:
    item, indices = key
    if isinstance(item, Constant):
        return []
    return [item.paths.fill(dict(indices) | {"P": role}) for role in item.packed or ("",)]


def _sizes(keys: list[Key], canonical: Weights, layout: Layout) -> tuple[Sizes, dict[str, np.dtype]]:
    """The sizes of the letters and the dtype, by scope."""
    facts: dict[str, list[tuple[axes.Fact, Entry]]] = defaultdict(list)
    dtypes: dict[str, np.dtype] = {}
    for key in keys:
        for path in _paths(key):
            if path in canonical and isinstance(key[0], Entry):
                sides = key[0].pattern.canonical
                of_one = tuple(axis for axis in sides if axis != ("P",))
                facts[scope_in(key)].append((axes.Fact(path, of_one, canonical[path].shape), key[0]))
                dtypes.setdefault(scope_in(key), canonical[path].dtype)
    sizes: Sizes = {}
    for scope, of_scope in facts.items():
        sizes[scope] = {}
        for fact, entry in of_scope:
            try:
                sizes[scope] = axes.solve([fact], sizes[scope])
            except LayoutError as error:
                raise LayoutError(f"`{layout.name}` cannot hold these sizes: {error} {entry.why}".strip()) from None
        check_rules(layout, scope, sizes[scope])
    return sizes, dtypes


def _fill(path: str) -> bool:
    return path.rsplit("/", 1)[-1] in FILLS


def _zeros(key: Key, sizes: Mapping[str, Any], dtype: np.dtype) -> np.ndarray:
    sides = key[0].pattern.canonical if isinstance(key[0], Entry) else ()
    return np.zeros(axes.shape_of(tuple(axis for axis in sides if axis != ("P",)), sizes), dtype)


def _parts(key: Key, arrays: list[np.ndarray], sizes: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    entry, indices = key
    if isinstance(entry, Constant):
        return
    array = np.stack(arrays) if entry.packed else arrays[0]
    array = entry.pattern.to_foreign(array, {**sizes, "P": len(arrays)})
    if not entry.heads:
        yield entry.names.fill(dict(indices)), array
        return
    for number, of_head in enumerate(array):
        yield entry.names.fill(dict(indices) | {entry.heads: number}), of_head
