"""The entries of the bank: the `Mistake` class, and `register`, which adds a mistake."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from kmha.verify.chains import CHAINS, Change, chains_with, steps_of

# They show only in rows with nothing to attend to, or where logits differ by a thousand or more (BERT adds -10,000), or
# where exp overflows (in float32 from logits of 88, which scaled products do not reach), or at padding, which a mask
# hides, or where weights are exchanged with other code, or where features differ by no more than the epsilon of a
# normalization.
HARMLESS = (
    "embedding-padding-all-zero",
    *("mask-empty-row-nan", "mask-adds-10000", "mask-fills-10000", "mask-number-in-thousands", "scale-after-mask"),
    *("heads-size-first", "merge-size-first"),
    *("norm-swapped-1-2", "norm-swapped-1-last", "norm-swapped-2-last", "norm-epsilon-outside"),
    *("rotary-backwards", "softmax-overflow"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake as a named change of one or more steps of a chain.

    Attributes:
        id: Name, such as "scale-missing".
        says: What the author of the code did, and what to do instead.
        look: Where to look for the mistake, as a phrase to follow "Look at".
        source: Where people make the mistake: a thread with its number, a section of a paper, or a seed.
        changes: Changes, keyed by the names of steps of a chain in `kmha.verify.chains`. A mistake without changes has
            no numbers of its own, and `kmha.verify.diagnosing.evidence` finds it in another way.
    """

    id: str
    says: str
    look: str
    source: str
    changes: Mapping[str, Change]

    @property
    def harmless(self) -> bool:
        """True if code with this mistake alone is called right, with a remark."""
        return self.id in HARMLESS

    @property
    def step(self) -> str:
        """The first step that the mistake changes, or "" if it changes none."""
        return next(iter(self.changes), "")

    def chains(self) -> tuple[str, ...]:
        """Return the chains that have all steps that the mistake changes, or none if it changes no steps."""
        return chains_with(self.changes) if self.changes else ()


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
    new = Mistake(id, says, look, source, changes)
    _check_id(id)
    if not (changes and new.chains()):
        raise ValueError(_no_chain(new))
    BANK[id] = new


def register_without_numbers(id: str, says: str, look: str, source: str) -> None:
    """Put a mistake into the bank that gives other numbers in each call or layer, so that no chain computes it.

    Raises:
        ValueError: The id is taken.
    """
    _check_id(id)
    BANK[id] = Mistake(id, says, look, source, {})


def _check_id(id: str) -> None:
    if id in BANK:
        raise ValueError(f"the bank already has a mistake {id!r}. Choose another id.")


def _no_chain(mistake: Mistake) -> str:
    known = set().union(*map(steps_of, CHAINS))
    for step in mistake.changes:
        if step not in known:
            near = difflib.get_close_matches(step, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else f"The steps are {', '.join(sorted(known))}."
            return f"the mistake {mistake.id!r} changes the step {step!r}, which no chain has. {fix}"
    steps = ", ".join(map(repr, mistake.changes)) or "no step"
    return f"the mistake {mistake.id!r} changes {steps}, and no single chain has all of these steps."
