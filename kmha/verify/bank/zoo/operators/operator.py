"""An operator: a named edit of source code, with the mistakes that are right answers where it was applied."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kmha.verify.bank.zoo.operators.source import Edit, Source

Edits = Callable[[Source], Iterator[Edit]]


@dataclasses.dataclass(frozen=True)
class Operator:
    """A kind of edit, which makes a known mistake.

    Attributes:
        name: Name, such as "scale-dropped".
        ids: Mistakes of the bank that are right answers, if an edit does not have its own.
        edits: Function that yields all edits of a source, one mutant each.
        training: Whether the mistake shows in training only.
    """

    name: str
    ids: tuple[str, ...]
    edits: Edits
    training: bool = False


OPERATORS: dict[str, Operator] = {}


def operator(name: str, *ids: str, training: bool = False) -> Callable[[Edits], Edits]:
    """Return a decorator that registers a function as an operator.

    Raises:
        ValueError: The name is taken.
    """

    def register(edits: Edits) -> Edits:
        if name in OPERATORS:
            raise ValueError(f"there is already an operator {name!r}. Choose another name.")
        OPERATORS[name] = Operator(name, ids, edits, training)
        return edits

    return register


def operators(edits: Callable[..., Iterator[Edit]], changes: Mapping[str, tuple[Any, ...]]) -> None:
    """Register one operator for each change that `edits` can make.

    Args:
        edits: Function of (source, change) that yields all edits.
        changes: Each change followed by its mistakes, keyed by the operator's name.
    """
    for name, (change, *ids) in changes.items():
        operator(name, *ids)(functools.partial(edits, change=change))
