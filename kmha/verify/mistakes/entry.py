"""The entries of the bank: the `Mistake` class, and `register`, which adds a mistake."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from kmha.verify.chains import CHAINS, Change, chains_with, steps_of


@dataclasses.dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake as a named change of one or more steps of a chain.

    Attributes:
        id: Name, such as "scale-missing".
        says: What the author of the code did, and what to do instead.
        look: Where to look for the mistake, as a phrase to follow "Look at".
        source: Where people make the mistake: a thread with its number, a section of a paper, or a seed.
        changes: Changes, keyed by the names of steps of a chain in `kmha.verify.chains`.
    """

    id: str
    says: str
    look: str
    source: str
    changes: Mapping[str, Change]

    @property
    def step(self) -> str:
        """The first step that the mistake changes."""
        return next(iter(self.changes))

    def chains(self) -> tuple[str, ...]:
        """Return the chains that have all steps that the mistake changes."""
        return chains_with(self.changes)


BANK: dict[str, Mistake] = {}


def register(id: str, says: str, look: str, source: str, **changes: Any) -> None:
    """Put a mistake into the bank.

    Args:
        id: Name that no other mistake has.
        says: What the author of the code did, and what to do instead.
        look: Where to look for the mistake.
        source: Where people make the mistake.
        **changes: Changes, keyed by step: `register(..., scaled=lambda state, right: state["logits"])`.

    Raises:
        ValueError: The id is taken, or no chain has all of the steps.
    """
    if id in BANK:
        raise ValueError(f"the bank already has a mistake {id!r}. Choose another id.")
    new = Mistake(id, says, look, source, changes)
    if not (changes and new.chains()):
        raise ValueError(_no_chain(new))
    BANK[id] = new


def _no_chain(mistake: Mistake) -> str:
    known = set().union(*map(steps_of, CHAINS))
    for step in mistake.changes:
        if step not in known:
            near = difflib.get_close_matches(step, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else f"The steps are {', '.join(sorted(known))}."
            return f"the mistake {mistake.id!r} changes the step {step!r}, which no chain has. {fix}"
    steps = ", ".join(map(repr, mistake.changes)) or "no step"
    return f"the mistake {mistake.id!r} changes {steps}, and no single chain has all of these steps."
