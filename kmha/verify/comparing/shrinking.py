"""Shrink a failing case, which means making the case as small as possible while it still fails."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from kmha.verify.comparing.cases import Case

# The sizes to try, smallest first. The sizes of the default case stay pairwise different.
_SIZES: dict[str, tuple[Any, ...]] = {
    "batch": (1, 2),
    "heads": (1, 2),
    "widths": ((1, 1, 0), (2, 3, 0), (2, 3, 4), (6, 8, 0)),
    "key_dim": (1, 4),
    "value_dim": (None, 2),
    "between": (0, 2),
    "output_shape": (None, (2,)),
}


def shrink(case: Case, fails: Callable[[Case], bool], attempts: int = 200) -> Case:
    """Return the smallest failing case that can be found by changing one field at a time.

    Args:
        case: Failing case to start from.
        fails: Function that returns whether a case fails.
        attempts: Maximum number of cases to try.

    >>> shrink(Case(heads=5, use_bias=False, mask="TS"), lambda case: case.mask != "").heads
    1
    """
    while attempts > 0:
        for smaller in _smaller(case):
            # With H = I, the shapes would not show the kernels' layout.
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
    """Yield cases with fewer positions, in which query and key have the same number of axes."""
    if len(case.rows) > 1:
        yield dataclasses.replace(case, rows=case.rows[:1], columns=case.columns[:1])
    for name in ("rows", "columns"):
        first, *rest = getattr(case, name)
        for size in range(2, first):  # with a single key, every softmax and most masks look alike
            yield _with(case, name, (size, *rest))


def _with(case: Case, name: str, value: Any) -> Case:
    return dataclasses.replace(case, **{name: value})


def _volume(size: Any) -> int:
    """Return the sum of all numbers in a size, by which sizes are sorted."""
    return sum(size) if isinstance(size, tuple) else int(size or 0)
