"""The kind of a difference between results and the expected ones, for mistakes that no exercise lists.

Every sentence is a fact about the results of all calls: the right arrays in another order, an axis that is missing, or
one of `kmha.course.judging.relations`.

>>> received, expected = np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(3, 2).T
>>> kind_of_difference([({}, received, expected)])[1]
'Your result has its axes in another order: axis 1 of yours should be axis 0.'
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from kmha.course.judging.comparing import has_text, same
from kmha.course.judging.relations import Case, Found, equal, relation, rich

MOST_AXES = 5
MOST_CHANCE = 3  # so few booleans agree by chance
LARGE_NEGATIVE = -100.0  # what is added to logits to hide them is below this
Triple = tuple[Mapping[str, Any], Any, Any]  # the inputs, the result, and the expected result of a call


def kind_of_difference(triples: Sequence[Triple], tolerance: float = 1e-6) -> Found:
    """Return an id and a sentence for the kind of the first difference, or `None`.

    Args:
        triples: Inputs, result and expected result of each call of one check.
        tolerance: Relative tolerance within which results are the same.
    """
    wrong = [triple for triple in triples if not same(triple[1], triple[2], tolerance)]
    if not wrong:
        return None
    if all(received is None for _, received, _ in wrong):
        return None if wrong[0][2] is None else RETURNED_NOTHING
    for path, parts in _nodes("", wrong):
        differing = [part for part in parts if not same(part[1], part[2], tolerance)]
        if differing and (found := _kind(path, differing)) is not None:
            return found
    return None


def _kind(path: str, triples: Sequence[Triple]) -> Found:
    if not isinstance(triples[0][2], Mapping | tuple | list):
        found = _wrapped(triples) if not path else None
        return found or _leaf(path or "your result", triples)
    whole = not path or re.fullmatch(r"result\['[^']*'\]", path)  # a check puts several calls into a dict
    for rule in (_parts_exchanged, _one_part, _part_missing) if whole else ():
        if (found := rule(triples)) is not None:
            return found
    return _keys(path, triples)


RETURNED_NOTHING = (
    "returned-nothing",
    "Your function returned nothing (None). A function without `return` computes its result and drops it.",
)


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list)


def _parts_exchanged(triples: Sequence[Triple]) -> Found:
    if not all(_is_list(one) and _is_list(other) and 2 <= len(other) == len(one) <= 4 for _, one, other in triples):
        return None
    for order in permutations(range(len(triples[0][2]))):
        if all(same(tuple(one), tuple(other[index] for index in order)) for _, one, other in triples):
            first = next(place for place, index in enumerate(order) if place != index)
            return "results-in-another-order", (
                "You return the right results in another order: your "
                f"result[{first}] is what result[{order[first]}] should be."
            )
    return None


def _one_part(triples: Sequence[Triple]) -> Found:
    for index in range(len(triples[0][2]) if _is_list(triples[0][2]) else 0):
        if all(_is_list(other) and same(one, other[index]) for _, one, other in triples):
            several = len(triples[0][2])
            all_of = "Return both results." if several == 2 else f"Return all {several} results."
            return "one-result-only", f"You return only result[{index}]. {all_of}"
    return None


def _part_missing(triples: Sequence[Triple]) -> Found:
    _, first, wanted = triples[0]
    if not _is_list(first) or not _is_list(wanted) or len(first) != len(wanted) - 1:
        return None
    for index in range(len(wanted)):
        if all(
            _is_list(one) and _is_list(other) and same(tuple(one), (*other[:index], *other[index + 1 :]))
            for _, one, other in triples
        ):
            return (
                "one-result-missing",
                f"You return {len(first)} results instead of {len(wanted)}: result[{index}] is missing.",
            )
    return None


def _wrapped(triples: Sequence[Triple]) -> Found:
    for index in range(len(triples[0][1]) if _is_list(triples[0][1]) and not _is_list(triples[0][2]) else 0):
        if all(_is_list(one) and len(one) > index and same(one[index], other) for _, one, other in triples):
            several = len(triples[0][1])
            return "too-many-results", f"You return {several} results in a {type(triples[0][1]).__name__}; return one."
    return None


def _keys(path: str, triples: Sequence[Triple]) -> Found:
    _, received, expected = triples[0]
    if not isinstance(received, Mapping) or not isinstance(expected, Mapping):
        return None
    missing = [key for key in expected if key not in received]
    extra = [key for key in received if key not in expected]
    if not missing and not extra:
        return None
    parts = [f"lacks {', '.join(map(repr, missing[:5]))}"] if missing else []
    parts += [f"has {', '.join(f'{key!r:.40}' for key in extra[:5])}, which nobody asked for"] if extra else []
    return "dict-keys", f"{f'`{path}`' if path else 'Your dict'} {' and '.join(parts)}."


def _nodes(path: str, triples: Sequence[Triple]) -> Iterator[tuple[str, list[Triple]]]:
    """Yield the results, and then each part that all of them have, with its path."""
    yield path, list(triples)
    wanted = triples[0][2]
    keys: list[Any] = []
    if isinstance(wanted, Mapping):
        keys = [key for key in wanted if all(isinstance(one, Mapping) and key in one for _, one, _ in triples)]
    elif _is_list(wanted) and all(_is_list(each) and len(each) == len(wanted) for _, *both in triples for each in both):
        keys = list(range(len(wanted)))
    for key in keys:
        if all(isinstance(other, type(wanted)) for _, _, other in triples):
            inner = [(inputs, one[key], other[key]) for inputs, one, other in triples]
            yield from _nodes(f"{path or 'result'}[{key!r}]", inner)


def _leaf(path: str, triples: Sequence[Triple]) -> Found:
    cases = []
    for inputs, one, other in triples:
        if has_text(one):
            return None
        try:
            received, expected = np.asarray(one), np.asarray(other)
        except ValueError:  # lists of unequal lengths
            return None
        if received.dtype.kind not in "biuf" or expected.dtype.kind not in "biuf":
            return None
        cases.append(Case(inputs, received, expected))
    subject = "Your result" if path == "your result" else f"`{path}`"
    same_shape = [case for case in cases if case.received.shape == case.expected.shape]
    if len(same_shape) == len(cases):
        numbers = _numbers_for_booleans(cases)
        return relation(path, cases) if numbers is None else (numbers[0], f"{subject} {numbers[1]}")
    other_shape = [case for case in cases if case.received.shape != case.expected.shape]
    for rule in (
        *(_axes_of_one, _axes_permuted, _reshaped, _reduced, _repeated, _repeated_in_place, _not_reduced, _places_more),
        _sizes_permuted,
    ):
        if (found := rule(other_shape)) is not None:
            return found[0], f"{subject} {found[1]}"
    return None


def _numbers_for_booleans(cases: Sequence[Case]) -> Found:
    """Find a mask of numbers: 1 and 0, either way round, or what is added to logits."""
    if any(case.expected.dtype.kind != "b" or case.received.dtype.kind == "b" for case in cases):
        return None
    if sum(case.expected.size for case in cases) <= MOST_CHANCE:
        return None
    if all(equal(case.received, case.expected) for case in cases):
        return "numbers-for-booleans", (
            "has the numbers 1 and 0 where True and False are asked for. A comparison gives booleans, and "
            "`.astype(bool)` makes them of numbers."
        )
    has_both = any(case.expected.any() for case in cases) and not all(case.expected.all() for case in cases)
    if has_both and all(equal(case.received, ~case.expected) for case in cases):
        return "numbers-for-booleans-inverted", (
            "has the number 1 where False is right, and 0 where True is right. Exchange them, and make them booleans."
        )
    hidden = np.concatenate([case.received[~case.expected] for case in cases])
    shown = np.concatenate([case.received[case.expected] for case in cases])
    if hidden.size and shown.size and not shown.any() and np.all(hidden < LARGE_NEGATIVE):
        return "addends-for-booleans", (
            f"has {hidden[0]:.4g} where False is right, and 0 where True is right. Such a mask is added to logits. "
            "Here, True and False are asked for."
        )
    return None


def _axes_of_one(cases: Sequence[Case]) -> Found:
    if not all(equal(np.squeeze(case.received), np.squeeze(case.expected)) for case in cases):
        return None
    case = cases[0]
    more = case.received.ndim - case.expected.ndim
    many = "one axis of size 1 too few" if more < 0 else "its axis of size 1 at another place"
    many = "one axis of size 1 too many" if more > 0 else many
    return (
        "axis-of-size-one",
        f"has the right numbers, but {many}. Its shape is {case.received.shape}, expected {case.expected.shape}.",
    )


def _axes_permuted(cases: Sequence[Case]) -> Found:
    axes = cases[0].expected.ndim
    if any(case.received.ndim != case.expected.ndim for case in cases) or not 2 <= axes <= MOST_AXES:
        return None
    for order in permutations(range(axes)):
        if all(equal(case.received, np.transpose(case.expected, order)) for case in cases):
            place = next(place for place, index in enumerate(order) if place != index)
            mine = order.index(place)
            return (
                "axes-in-another-order",
                f"has its axes in another order: axis {mine} of yours should be axis {place}.",
            )
    return None


def _reshaped(cases: Sequence[Case]) -> Found:
    if all(equal(case.received.ravel(), case.expected.ravel()) for case in cases):
        return "another-shape", (
            f"has the right numbers in the right order, but the shape {cases[0].received.shape}, expected "
            f"{cases[0].expected.shape}."
        )
    return None


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "summed over": np.sum, "averaged over": np.mean, "combined with `all` over": np.all,
    "combined with `any` over": np.any, "the largest along": np.max, "the smallest along": np.min,
}  # fmt: skip


def _reduced(cases: Sequence[Case]) -> Found:
    """Find an axis that is missing, because the received array combines what the expected one keeps apart."""
    if any(case.received.ndim != case.expected.ndim - 1 for case in cases):
        return None
    for axis in range(cases[0].expected.ndim):
        for says, function in _REDUCTIONS.items():
            if function in (np.all, np.any) and any(case.expected.dtype.kind != "b" for case in cases):
                continue
            if all(equal(case.received, function(case.expected, axis=axis)) for case in cases):
                return "axis-combined", f"lacks axis {axis}: yours is {says} that axis. Keep the places of it apart."
        for place in (0, -1):
            if all(equal(case.received, case.expected.take(place, axis)) for case in cases):
                which = "first" if place == 0 else "last"
                return "axis-one-place", f"lacks axis {axis}: yours holds only its {which} place."
    return None


def _repeated(cases: Sequence[Case]) -> Found:
    if any(case.received.ndim != case.expected.ndim + 1 for case in cases):
        return None
    for axis in range(cases[0].received.ndim):
        if all(
            equal(case.received, np.broadcast_to(np.expand_dims(case.expected, axis), case.received.shape))
            if case.received.shape[:axis] + case.received.shape[axis + 1 :] == case.expected.shape
            else False
            for case in cases
        ):
            return "axis-repeated", f"has one axis too many, axis {axis}: it repeats the right result."
    return None


def _repeated_in_place(cases: Sequence[Case]) -> Found:
    """Find axes that should have the size 1, and along which the right array is repeated."""
    if any(case.received.ndim != case.expected.ndim for case in cases):
        return None
    axes = [axis for axis in range(cases[0].expected.ndim) if all(case.expected.shape[axis] == 1 for case in cases)]
    axes = [axis for axis in axes if any(case.received.shape[axis] > 1 for case in cases)]
    for case in cases:
        sizes = [case.received.shape[axis] if axis in axes else size for axis, size in enumerate(case.expected.shape)]
        if case.received.shape != tuple(sizes) or not equal(case.received, np.broadcast_to(case.expected, sizes)):
            return None
    return "axis-repeated", (
        f"has the right numbers, but repeats them along axis {axes[0]}, which should have the size 1. Broadcasting "
        "repeats them where that is needed."
    )


_NOT_REDUCED: dict[str, Callable[..., Any]] = {
    "the sum over": np.sum, "the mean over": np.mean, "the largest number along": np.max,
    "the smallest number along": np.min,
}  # fmt: skip


def _not_reduced(cases: Sequence[Case]) -> Found:
    """Find an axis that should have been summed over, or the like."""
    if any(case.received.ndim != case.expected.ndim + 1 or case.expected.dtype.kind == "b" for case in cases):
        return None
    if not rich(cases):
        return None
    for axis in range(cases[0].received.ndim):
        for says, function in _NOT_REDUCED.items():
            if all(case.received.size and equal(function(case.received, axis=axis), case.expected) for case in cases):
                return "axis-not-combined", f"has one axis too many, axis {axis}. Take {says} that axis."
    return None


def _places_more(cases: Sequence[Case]) -> Found:
    """Find axes that end too early or too late, if all places that both arrays have are right."""
    if any(case.received.ndim != case.expected.ndim or not case.expected.ndim for case in cases):
        return None
    more = {tuple(np.subtract(case.received.shape, case.expected.shape).tolist()) for case in cases}
    sizes = more.pop()
    counts = {each for each in sizes if each}
    if more or len(counts) != 1:
        return None
    compared = 0
    for case in cases:
        both = tuple(slice(min(pair)) for pair in zip(case.received.shape, case.expected.shape, strict=True))
        compared += case.received[both].size
        if not equal(case.received[both], case.expected[both]):
            return None
    if compared <= MOST_CHANCE:
        return None
    many = counts.pop()
    axes = [str(axis) for axis, each in enumerate(sizes) if each]
    places = f"{abs(many)} place{'s' if abs(many) > 1 else ''}"
    much = f"{places} too many" if many > 0 else f"{places} too few"
    return "places-at-the-end", (
        f"has {much} at the end of {'axis' if len(axes) == 1 else 'axes'} {' and '.join(axes)}. "
        "The places before are right."
    )


def _sizes_permuted(cases: Sequence[Case]) -> Found:
    """Find sizes in another order, if no other axes have the same size."""
    for case in cases:
        received, expected = case.received.shape, case.expected.shape
        if len(set(expected)) < len(expected) or sorted(received) != sorted(expected):
            return None
    order = {tuple(case.received.shape.index(size) for size in case.expected.shape) for case in cases}
    if len(order) != 1:
        return None
    place, mine = next((place, mine) for place, mine in enumerate(order.pop()) if place != mine)
    return "sizes-in-another-order", (
        f"has the right sizes in another order, {cases[0].received.shape} instead of {cases[0].expected.shape}: "
        f"axis {mine} of yours should be axis {place}. Its numbers differ too."
    )
