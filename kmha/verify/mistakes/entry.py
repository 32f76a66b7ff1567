"""What a mistake is, and how the modules of this folder add theirs to the bank."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kmha.verify.chains.attention import ATTENTION, CHAINS, Change


@dataclasses.dataclass(frozen=True, eq=False)
class Mistake:
    """A named change of one step.

    Attributes:
        id: such as "scale-missing".
        says: one plain sentence that says what is wrong.
        look: where to look for it.
        source: where people meet it: a seed, a thread with its number, a section of a paper.
        changes: by the name of a step of a chain in `kmha.verify.chains.attention`, what stands in its place.
    """

    id: str
    says: str
    look: str
    source: str
    changes: Mapping[str, Change]

    @property
    def step(self) -> str:
        """The first step that it changes."""
        return next(iter(self.changes))

    def chains(self) -> tuple[str, ...]:
        """The chains that have its steps; a block has those of the attention inside it too."""
        found = []
        for name, steps in CHAINS.items():
            inside = ATTENTION.keys() if "inside1" in steps else set()
            if self.changes.keys() <= steps.keys() | inside:
                found.append(name)
        return tuple(found)


BANK: dict[str, Mistake] = {}


def mistake(id: str, step: str, says: str, look: str, source: str) -> Callable[[Change], Change]:
    """A decorator: the change below it stands in the place of `step`, and is in the bank."""

    def added(change: Change) -> Change:
        if id in BANK:
            raise ValueError(f"the bank has a mistake `{id}` already: choose another id.")
        BANK[id] = Mistake(id, says, look, source, {step: change})
        return change

    return added


def add(id: str, says: str, look: str, source: str, **changes: Any) -> None:
    """The same for a change that is one expression, or of several steps at once: `add(..., scaled=lambda …)`."""
    for step, change in changes.items():
        mistake(id, step, says, look, source)(change)
        del BANK[id]
    BANK[id] = Mistake(id, says, look, source, changes)
