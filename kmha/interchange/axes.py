"""Axis patterns such as "(H O) I -> H I O": the conversion of an array between two layouts, as data.

A pattern works in both directions: from left to right it converts a foreign layout to the canonical one, and from right
to left it converts back. A pattern only reshapes and transposes, so no bit of a number changes. The notation is that of
einops: a letter is an axis, letters in parentheses are merged into one axis (the last letter varies fastest), `()` is
an axis of size one, and `...`, at the end of both sides, is one or more axes that stay as they are.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kmha.interchange.errors import LayoutError

Axes = tuple[tuple[str, ...], ...]
# The size of each letter. The size of "..." is a tuple.
Sizes = dict[str, Any]

_REST = (("...",),)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A parsed pattern. Each side is a tuple of axes, and each axis is a tuple of letters."""

    foreign: Axes
    canonical: Axes

    def to_canonical(self, array: np.ndarray, sizes: Mapping[str, Any]) -> np.ndarray:
        """Return the array with the axes of the pattern's right side.

        >>> parse("(H O) I -> H I O").to_canonical(np.arange(6).reshape(6, 1), {"H": 2, "O": 3, "I": 1}).tolist()
        [[[0, 1, 2]], [[3, 4, 5]]]
        """
        return _rearranged(array, self.foreign, self.canonical, sizes)

    def to_foreign(self, array: np.ndarray, sizes: Mapping[str, Any]) -> np.ndarray:
        return _rearranged(array, self.canonical, self.foreign, sizes)


@dataclasses.dataclass(frozen=True)
class Fact:
    """An equation between the axes and the shape of one array."""

    label: str  # name of the array in errors
    axes: Axes
    shape: tuple[int, ...]
    packed: int = 0  # size of the axis P: number of weights that are packed into the array

    def mismatch(self, known: Mapping[str, Any]) -> str:
        known = {**known, "P": self.packed}
        sizes = ", ".join(f"{letter}={known[letter]}" for letter in sorted(_letters([self])) if letter in known)
        found = f"`{self.label}` has the shape {self.shape}, which does not fit the axes {text(self.axes)}"
        return f"{found} with {sizes}." if sizes else f"{found}."


@functools.cache
def parse(pattern: str) -> Pattern:
    """Parse a pattern such as "(H O) I -> H I O".

    Raises:
        ValueError: The two sides have different letters, or one side repeats a letter.

    >>> parse("(H O) I -> H I O").foreign
    (('H', 'O'), ('I',))
    """
    foreign, _, canonical = pattern.partition("->")
    sides = parse_side(foreign), parse_side(canonical)
    letters = [sorted(letter for axis in side for letter in axis) for side in sides]
    if letters[0] != letters[1] or len(set(letters[0])) < len(letters[0]):
        raise ValueError(
            f"Both sides of `->` must have the same letters, and no letter may be repeated on a side. "
            f"Received: {pattern!r}."
        )
    return Pattern(*sides)


def parse_side(side: str) -> Axes:
    """Parse one side of a pattern, such as "(H O) I".

    Raises:
        ValueError: The text contains something besides letters, pairs of parentheses and `...`.
    """
    if re.sub(_AXIS, "", side).strip():
        raise ValueError(f"Each axis must be a letter, a group such as `(H O)`, or a final `...`. Received: {side!r}.")
    return tuple((letter,) if letter else tuple(group.split()) for group, letter in re.findall(_AXIS, side))


_AXIS = r"\(([^)]*)\)|(\w|\.\.\.)"


def text(axes: Axes) -> str:
    """Return the axes as text.

    >>> text((("H", "O"), ("I",)))
    '(H O) I'
    """
    return " ".join(axis[0] if len(axis) == 1 else f"({' '.join(axis)})" for axis in axes)


def solve(facts: Iterable[Fact], known: Mapping[str, Any]) -> Sizes:
    """Return the sizes of all letters that the shapes determine, and the `known` sizes.

    Raises:
        LayoutError: A shape does not match its axes.

    >>> sizes = solve([Fact("weight", parse_side("(H O) I"), (6, 5))], {"H": 2})
    >>> [sizes[letter] for letter in "HOI"]
    [2, 3, 5]
    """
    facts, sizes = list(facts), dict(known)
    before = -1
    while before < len(sizes):
        before = len(sizes)
        for fact in facts:
            _solve_one(fact, sizes)
    return sizes


def unsolved(facts: Iterable[Fact], sizes: Mapping[str, Any]) -> list[str]:
    """Return the letters that the shapes do not determine."""
    return sorted(_letters(facts) - sizes.keys() - {"P"})


def _solve_one(fact: Fact, sizes: Sizes) -> None:
    axes, shape = fact.axes, fact.shape
    if 0 in shape:  # it makes all other sizes free, and arrays are made from these
        raise LayoutError(
            f"`{fact.label}` has the shape {shape}. An axis of size 0 holds no weights. Save the weights again."
        )
    if axes[-1:] == _REST:
        axes, shape, rest = axes[:-1], shape[: len(axes) - 1], shape[len(axes) - 1 :]
        if not rest or sizes.setdefault("...", rest) != rest:
            raise LayoutError(fact.mismatch(sizes))
    if len(axes) != len(shape):
        raise LayoutError(fact.mismatch(sizes))
    known = {**sizes, "P": fact.packed}
    for axis, size in zip(axes, shape, strict=True):
        unknown = [letter for letter in axis if letter not in known]
        product = math.prod(known[letter] for letter in axis if letter in known)
        if len(unknown) == 1 and product and size % product == 0:
            known[unknown[0]] = sizes[unknown[0]] = size // product
        elif (not unknown and product != size) or len(unknown) == 1:
            raise LayoutError(fact.mismatch(sizes))


def _letters(facts: Iterable[Fact]) -> set[str]:
    return {letter for fact in facts for axis in fact.axes for letter in axis}


def shape_of(axes: Axes, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of an array with these axes.

    >>> shape_of(parse_side("(H O) ..."), {"H": 2, "O": 3, "...": (5, 7)})
    (6, 5, 7)
    """
    rest = sizes["..."] if axes[-1:] == _REST else ()
    front = axes[:-1] if rest else axes
    return (*(math.prod(sizes[letter] for letter in axis) for axis in front), *rest)


def _rearranged(array: np.ndarray, source: Axes, target: Axes, sizes: Mapping[str, Any]) -> np.ndarray:
    rest = sizes["..."] if source[-1:] == _REST else ()
    letters, target_letters = (
        [letter for axis in side for letter in axis if letter != "..."] for side in (source, target)
    )
    order = [letters.index(letter) for letter in target_letters] + [len(letters) + axis for axis in range(len(rest))]
    apart = array.reshape([*(sizes[letter] for letter in letters), *rest]).transpose(order)
    return np.ascontiguousarray(apart.reshape(shape_of(target, sizes)))
