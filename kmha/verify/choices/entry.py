"""The design choices: the `Choice` class, and `register`, which adds a choice."""

import dataclasses
import difflib
import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from kmha.verify.chains import Change, Trial, chains_with


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """A design choice as a named change of one or more steps of a chain.

    Attributes:
        id: Name, such as "pre-norm".
        group: Name of the decision. A layer makes at most one choice of each group.
        says: The choice as a phrase of a report, such as "pre-norm".
        changes: Changes, keyed by the names of steps of a chain in `kmha.verify.chains`.
        suits: Function that returns whether a layer can make the choice, judged by a trial's weights.
    """

    id: str
    group: str
    says: str
    changes: dict[str, Change]
    suits: Callable[[Trial], bool] = lambda trial: True

    def chains(self) -> tuple[str, ...]:
        """Return the chains that have all steps that the choice changes."""
        return chains_with(self.changes)


CHOICES: dict[str, Choice] = {}


def register(
    id: str, group: str, says: str, suits: Callable[[Trial], bool] = lambda trial: True, **changes: Any
) -> None:
    """Add a design choice, with the attributes of `Choice`.

    Raises:
        ValueError: The id is taken, or no chain has all of the steps.
    """
    if id in CHOICES:
        raise ValueError(f"there is already a choice {id!r}. Use another id.")
    new = Choice(id, group, says, changes, suits)
    if not (changes and new.chains()):
        raise ValueError(f"the choice {id!r} changes {', '.join(changes) or 'no step'}, and no chain has these steps.")
    CHOICES[id] = new


def checked(ids: Sequence[str], chain: str = "") -> tuple[str, ...]:
    """Return the ids of choices, after a check that each exists, and that a chain has it if one is given.

    Raises:
        ValueError: There is no such choice.

    >>> checked(["post-norm"], "encoder")
    ('post-norm',)
    >>> checked(["prenorm"])
    Traceback (most recent call last):
    ValueError: expected the id of a design choice, such as pre-norm or post-norm. Received: 'prenorm'.
    """
    known = [choice.id for choice in CHOICES.values() if not chain or _is_own(choice, chain)]
    for id in ids:
        if id not in known:
            near, of = difflib.get_close_matches(id, known, 2) or known[:2], f" of {chain}" if chain else ""
            raise ValueError(f"expected the id of a design choice{of}, such as {' or '.join(near)}. Received: {id!r}.")
    return tuple(ids)


def makes(chain: str, id: str) -> bool:
    """Return whether a chain can make a choice.

    >>> makes("encoder", "post-norm"), makes("attention", "post-norm")
    (True, False)
    """
    return _is_own(CHOICES[id], chain)


def combinations(
    chain: str, trial: Trial | None = None, expected: Sequence[str] = (), groups: Container[str] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the ids of all combinations of a chain's choices, with at most one of each group, the fewest choices first.

    A block makes its own choices only, and not those of attention.

    Args:
        chain: Name of the chain.
        trial: Trial that the choices must suit. By default, all choices are combined.
        expected: Ids of choices that must be made. A choice that the reference makes anyway needs no id.
        groups: Groups whose choices are combined. By default, all groups.

    >>> from kmha.verify.choices import combinations
    >>> next(combinations("encoder"))
    ()
    """
    made: dict[str, list[str | None]] = {}
    for choice in CHOICES.values():
        if groups is not None and choice.group not in groups:
            continue
        if _is_own(choice, chain) and (trial is None or choice.suits(trial)):
            made.setdefault(choice.group, [None]).append(choice.id)
    for id in expected:
        suits = trial is None or CHOICES[id].suits(trial)
        made[CHOICES[id].group] = [id if suits else None]
    combined = (tuple(id for id in ids if id is not None) for ids in itertools.product(*made.values()))
    yield from sorted(combined, key=len)


def _is_own(choice: Choice, chain: str) -> bool:
    """Return whether a chain can make a choice. A block does not make the choices of the attention inside it."""
    return chain in choice.chains() and (chain == "attention" or "attention" not in choice.chains())
