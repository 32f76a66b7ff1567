"""Makes a failing case as small as it can be made and still fail."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from kmha.verify.comparing.cases import Case

# Sizes to try in turn, the smallest first; those of the default case stay pairwise different.
_SIZES: dict[str, tuple[Any, ...]] = {
    "batch": (1, 2),
    "heads": (1, 2),
    "widths": ((1, 1, 0), (2, 3, 0), (2, 3, 4), (6, 8, 0)),
    "key_dim": (1, 4),
    "value_dim": (None, 2),
    "between": (0, 2),
    "output_shape": (None, (2,)),
}


def shrunk(case: Case, fails: Callable[[Case], bool], attempts: int = 200) -> Case:
    """The smallest case found by changing one field at a time for as long as it fails.

    Args:
        case: a failing case.
        fails: whether a case fails.
        attempts: how many cases are tried at the most.

    >>> shrunk(Case(heads=5, use_bias=False, mask="TS"), lambda case: case.mask != "").heads
    1
    """
    while attempts > 0:
        for smaller in _smaller(case):
            # With H = I, the kernels' layout could not be told from their shapes.
            if smaller == case or smaller.heads in smaller.widths:
                continue
            attempts -= 1
            if fails(smaller):
                case = smaller
                break
            if attempts == 0:
                return case
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    plain = Case()
    for field in dataclasses.fields(Case):
        if field.name in _SIZES or field.name in ("seed", "rows", "columns"):
            continue
        value = getattr(plain, field.name)
        if getattr(case, field.name) != value:
            yield _with(case, field.name, value)
    yield from _shorter(case)
    if len(case.paddings) > 1:
        for name in case.paddings:
            yield dataclasses.replace(case, paddings=(name,))
    for name, sizes in _SIZES.items():
        current = getattr(case, name)
        for size in sizes:
            if size == current:
                break
            if _volume(size) < _volume(current):
                yield _with(case, name, size)


def _shorter(case: Case) -> Iterator[Case]:
    """Cases with fewer positions; query and key keep the same number of axes."""
    if len(case.rows) > 1:
        yield dataclasses.replace(case, rows=case.rows[:1], columns=case.columns[:1])
    for name in ("rows", "columns"):
        first, *rest = getattr(case, name)
        for size in range(2, first):  # with a single key, every softmax and most masks look alike
            yield _with(case, name, (size, *rest))


def _with(case: Case, name: str, value: Any) -> Case:
    return dataclasses.replace(case, **{name: value})


def _volume(size: Any) -> int:
    """An order on sizes: the sum of all numbers in them."""
    return sum(size) if isinstance(size, tuple) else int(size or 0)
