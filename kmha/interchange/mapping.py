"""Apply a layout's table: read foreign weights into the canonical layout, and write them back."""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.interchange import axes, folding
from kmha.interchange.canonical import Weights
from kmha.interchange.errors import MOST_ARRAYS, LayoutError, Made, listed
from kmha.interchange.layout import Constant, Entry, Ignored, Layout, Refused, template

Indices = tuple[tuple[str, int], ...]
Key = tuple[Entry | Constant, Indices]
Sizes = dict[str, axes.Sizes]
# If a weight whose name ends like this is missing, zeros have the same effect.
_ZERO_FILLED = ("/bias", "/beta")


@dataclasses.dataclass
class _Arranged:
    """Foreign arrays, keyed by entry and layer, and then by head (0 unless the entry has one name per head)."""

    arrays: dict[Key, dict[int, np.ndarray]]
    notes: list[str]


def read(weights: Mapping[str, Any], layout: Layout, num_heads: int | None) -> tuple[Weights, list[str]]:
    """Return the canonical weights, and notes about what was left out."""
    found, of_scope = plan(weights, layout, num_heads)
    canonical: Weights = {}
    for key, arrays in found.arrays.items():
        if isinstance(key[0], Constant):
            _check_constant(key, arrays[0])
            continue
        for path, array in _canonical_arrays(key[0], dict(key[1]), arrays, of_scope[scope_in(key)]):
            if path in canonical and canonical[path].tobytes() != array.tobytes():
                name = key[0].names.fill(dict(key[1]))
                raise LayoutError(f"`{name}` must equal the other weight for `{path}` in `{layout.name}`.")
            canonical[path] = array
    if layout.unscaled:
        canonical |= dict(folding.scales(canonical))
    return canonical, [*found.notes, *([layout.note] if layout.note else [])]


def plan(weights: Mapping[str, Any], layout: Layout, num_heads: int | None) -> tuple[_Arranged, Sizes]:
    """Assign the arrays to entries, and solve for the sizes in each scope. Only names and shapes are read."""
    found = find(weights, layout)
    return found, sizes(layout, found, num_heads)


def find(weights: Mapping[str, Any], layout: Layout) -> _Arranged:
    """Assign each array to an entry of the layout by name. Raise a LayoutError if names are missing or unexpected."""
    found = _find(weights, layout)
    active = {group for item, _ in found.arrays for group in item.groups}
    expected = entries_for(layout, active, counts([indices for _, indices in found.arrays]))
    missing = [name for key in expected for name in _missing(key, found.arrays.get(key, {}))]
    if missing:
        raise LayoutError(f"Missing for the layout `{layout.name}`: {listed(missing)}. Received: {listed(weights)}.")
    return found


def _find(weights: Mapping[str, Any], layout: Layout) -> _Arranged:
    found, unexpected = _Arranged(defaultdict(dict), []), []
    for name, array in weights.items():
        matches = ((item, item.names.match(name)) for item in layout.items)
        item, values = next((match for match in matches if match[1] is not None), (None, None))
        if item is None or values is None:
            unexpected.append(name)
        elif isinstance(item, Refused):
            raise LayoutError(f"`{name}` cannot be represented: {item.why}")
        elif isinstance(item, Ignored):
            found.notes.append(f"`{name}` is left out: {item.why}")
        else:
            indices = tuple((letter, values[letter]) for letter in item.indices)
            head = values[item.heads] if isinstance(item, Entry) and item.heads else 0
            found.arrays[item, indices][head] = np.asarray(array)
    if unexpected:
        names = [item.name for item in layout.items if not isinstance(item, Ignored | Refused)]
        raise LayoutError(
            f"Unexpected for the layout `{layout.name}`: {listed(unexpected)}. It has: {listed(names, 30)}. "
            "`kmha.interchange.recognize` finds the layout that fits, and `prefix=` selects a part of a larger model."
        )
    return found


def counts(found: Collection[Indices]) -> dict[str, int]:
    """Return the number of layers for each letter that counts layers.

    A name can contain any number, so a count is limited to one more than the number of names found.
    """
    largest: dict[str, int] = {}
    for indices in found:
        for letter, index in indices:
            largest[letter] = max(largest.get(letter, 0), index + 1)
    return {letter: min(count, len(found) + 1) for letter, count in largest.items()}


def entries_for(layout: Layout, active: set[str], layers: Mapping[str, int]) -> Iterator[Key]:
    """Yield the entries and constants whose groups are active, for every layer, but at least for the first layer."""
    for item in layout.items:
        if isinstance(item, Entry | Constant) and active.issuperset(item.groups):
            numbers = ([(letter, number) for number in range(layers.get(letter, 1))] for letter in item.indices)
            yield from ((item, indices) for indices in itertools.product(*numbers))


def _missing(key: Key, arrays: Mapping[int, np.ndarray]) -> list[str]:
    item, indices = key
    heads = item.heads if isinstance(item, Entry) else ""
    numbers = range(min(max(arrays, default=0), len(arrays)) + 1)
    return [item.names.fill(dict(indices) | {heads: number}) for number in numbers if number not in arrays]


def _fact(key: Key, arrays: Mapping[int, np.ndarray]) -> axes.Fact:
    """Return the equation for the shape of an entry's array. Arrays of single heads are stacked first."""
    item, indices = key
    if isinstance(item, Constant):
        return axes.Fact(item.names.fill(dict(indices)), axes.parse_side(item.axes), arrays[0].shape)
    shape = arrays[0].shape
    if item.heads:
        label = item.names.fill(dict(indices) | {item.heads: 0})
        for number, array in arrays.items():
            if array.shape != shape:
                other = item.names.fill(dict(indices) | {item.heads: number})
                raise LayoutError(f"`{label}` and `{other}` must have one shape. Received: {shape} and {array.shape}.")
        shape = (len(arrays), *shape)
    return axes.Fact(item.names.fill(dict(indices)), item.pattern.foreign, shape, len(item.packed))


def scope_in(key: Key) -> str:
    """Return the scope of an entry in one layer."""
    item, indices = key
    return template(item.scope).fill(dict(indices))


def sizes(layout: Layout, found: _Arranged, num_heads: int | None) -> Sizes:
    """Return the sizes of the letters in each scope. Raise a LayoutError if sizes conflict or `num_heads` is needed."""
    if num_heads is not None and (not isinstance(num_heads, int | np.integer) or num_heads < 1):
        raise LayoutError(f"`num_heads` must be a positive integer. Received: {num_heads!r}.")
    by_scope: dict[str, list[axes.Fact]] = defaultdict(list)
    for key, arrays in found.arrays.items():
        by_scope[scope_in(key)].append(_fact(key, arrays))
    given = {} if num_heads is None else {"H": num_heads}
    try:
        solved = {scope: axes.solve(of_scope, given) for scope, of_scope in by_scope.items()}
    except LayoutError as error:
        given_heads = "" if num_heads is None else f" Received num_heads={num_heads}."
        raise LayoutError(f"These weights do not have the layout `{layout.name}`: {error}{given_heads}") from None
    for scope, of_scope in by_scope.items():
        check_rules(layout, scope, solved[scope])
        unsolved = axes.unsolved(of_scope, solved[scope])
        if unsolved:
            shapes = "; ".join(f"`{fact.label}` {fact.shape} is {axes.text(fact.axes)}" for fact in of_scope[:4])
            raise LayoutError(
                f"The shapes of the layout `{layout.name}` do not determine the number of heads ({shapes}). Give "
                f"`num_heads`. Unknown: {', '.join(unsolved)}."
            )
    return solved


def check_rules(layout: Layout, scope: str, sizes: Mapping[str, Any]) -> None:
    """Raise a LayoutError if the sizes break a rule of the layout."""
    for rule in layout.rules:
        sides = [side.partition("//")[::2] for side in rule.equation.split("=")]
        letters = {letter for side in sides for product in side for letter in product.split()}
        if letters <= sizes.keys():
            left, right = (_product(side[0], sizes) // _product(side[1], sizes) for side in sides)
            if left != right:
                shown = ", ".join(f"{letter}={sizes[letter]}" for letter in sorted(letters))
                where = f" in `{scope}`" if scope else ""
                raise LayoutError(f"`{layout.name}` requires {rule.equation}{where}: {rule.why} Received: {shown}.")


def _product(letters: str, sizes: Mapping[str, Any]) -> int:
    return math.prod(sizes[letter] for letter in letters.split())


def _canonical_arrays(
    entry: Entry, indices: dict[str, int], arrays: Mapping[int, np.ndarray], sizes: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    array = np.stack([arrays[number] for number in range(len(arrays))]) if entry.heads else arrays[0]
    array = entry.pattern.to_canonical(array, {**sizes, "P": len(entry.packed)})
    if not entry.packed:
        yield entry.paths.fill(indices), array
    for number, role in enumerate(entry.packed):
        yield entry.paths.fill(indices | {"P": role}), array[number]


def _check_constant(key: Key, array: np.ndarray) -> None:
    constant, indices = key
    if isinstance(constant, Constant) and not np.all(array == constant.value):
        name = constant.names.fill(dict(indices))
        raise LayoutError(f"All of `{name}` must be {constant.value}: {constant.why}")


def write(weights: Mapping[str, Any], layout: Layout, fold: bool = False) -> tuple[Weights, list[str]]:
    """Return the foreign weights, and notes about what was folded, left out or filled with zeros."""
    canonical, notes = folding.fit({path: np.asarray(array) for path, array in weights.items()}, layout, fold)
    keys = list(_entries_needed(canonical, layout))
    paths = [path for key in keys for path in _paths_of(key) if not f"/{path}".endswith(_ZERO_FILLED)]
    missing = [path for path in paths if path not in canonical]
    if missing:
        raise LayoutError(f"Missing for the layout `{layout.name}`: {listed(missing)}. Received: {listed(canonical)}.")
    sizes, dtypes = _canonical_sizes(keys, canonical, layout)
    foreign: Weights = {}
    made = Made(canonical)
    for key in keys:
        scope = scope_in(key)
        if isinstance(key[0], Constant):
            name = key[0].names.fill(dict(key[1]))
            shape = axes.shape_of(axes.parse_side(key[0].axes), sizes[scope])
            foreign[name] = _filled(name, shape, key[0].value, dtypes[scope], made)
            continue
        arrays = []
        for path in _paths_of(key):
            if path in canonical:
                arrays.append(canonical[path])
            else:
                shape = axes.shape_of(_axes_of_one(key), sizes[scope])
                arrays.append(_filled(path, shape, 0, dtypes[scope], made))
                why = f"`{layout.name}` needs it: it is filled with zeros, which change nothing."
                notes.append(f"`{path}` is missing, and {why}")
        foreign.update(_foreign_arrays(key, arrays, sizes[scope]))
        if len(foreign) > MOST_ARRAYS:
            raise LayoutError(
                f"The layout `{layout.name}` would have more than {MOST_ARRAYS:,} arrays. Convert a part of the model, "
                "with `prefix=`, or to a layout that keeps the heads in one array, such as `ours`."
            )
    return foreign, notes


def _filled(name: str, shape: tuple[int, ...], value: float, dtype: np.dtype, made: Made) -> np.ndarray:
    """Return an array with one value. The sizes may be those of a file that nobody vouches for."""
    made.add(name, math.prod(shape) * dtype.itemsize)
    return np.full(shape, value, dtype) if value else np.zeros(shape, dtype)


def _entries_needed(canonical: Weights, layout: Layout) -> Iterator[Key]:
    """Yield the entries that the canonical weights need, in the layout's order."""
    groups: set[str] = set()
    indices = []
    for path in canonical:
        for entry in layout.entries:
            values = entry.paths.match(path)
            if values is not None and (not entry.packed or values["P"] in entry.packed):
                groups.update(entry.groups)
                indices.append(tuple((letter, int(values[letter])) for letter in entry.indices))
    return entries_for(layout, groups, counts(indices))


def _paths_of(key: Key) -> list[str]:
    item, indices = key
    if isinstance(item, Constant):
        return []
    return [item.paths.fill(dict(indices) | {"P": role}) for role in item.packed or ("",)]


def _canonical_sizes(keys: list[Key], canonical: Weights, layout: Layout) -> tuple[Sizes, dict[str, np.dtype]]:
    """Return the sizes of the letters, and the dtype, for each scope."""
    facts: dict[str, list[tuple[axes.Fact, Entry]]] = defaultdict(list)
    dtypes: dict[str, np.dtype] = {}
    for key in keys:
        for path in _paths_of(key):
            if path in canonical and isinstance(key[0], Entry):
                facts[scope_in(key)].append((axes.Fact(path, _axes_of_one(key), canonical[path].shape), key[0]))
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


def _axes_of_one(key: Key) -> axes.Axes:
    """Return the canonical axes of a single weight, without the axis P of a packed array."""
    return tuple(axis for axis in key[0].pattern.canonical if axis != ("P",)) if isinstance(key[0], Entry) else ()


def _foreign_arrays(key: Key, arrays: list[np.ndarray], sizes: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    entry, indices = key
    if isinstance(entry, Constant):
        return
    array = np.stack(arrays) if entry.packed else arrays[0]
    array = entry.pattern.to_foreign(array, {**sizes, "P": len(arrays)})
    if not entry.heads:
        yield entry.names.fill(dict(indices)), array
        return
    for number, of_head in enumerate(array[: MOST_ARRAYS + 1]):  # `write` refuses more
        yield entry.names.fill(dict(indices) | {entry.heads: number}), of_head
