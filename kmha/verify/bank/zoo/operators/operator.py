"""An operator: a named edit of source code, with the mistakes that are right answers where it was applied."""

import dataclasses
from collections.abc import Callable, Iterator

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
