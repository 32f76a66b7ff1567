"""What the sandbox is asked for a set of checks: each call once, whatever number of checks look at its result."""

import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.course.exercises.exercise import Check, Exercise, Inputs, small
from kmha.sandbox.worker import SIGNATURE, arrays

# The largest sizes of the cases among which a smallest is looked for; `None` where all are to be different.
SMALLEST = (*[1] * 2, *[2] * 8, *[None] * 3)


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Questions, and which of them each check looks at.

    Attributes:
        asked: for the sandbox; of every one, `ask` and `inputs`.
        of: for each check, the indices of its questions.
    """

    asked: tuple[dict[str, Any], ...]
    of: tuple[tuple[int, ...], ...]

    def inputs(self, index: int) -> Inputs:
        found: Inputs = self.asked[index]["inputs"]
        return found


def plan(spec: Exercise, seed: int, checks: Sequence[Check] | None = None) -> Plan:
    """The questions of all checks, or of some; the same seed draws the same inputs."""
    asked: list[dict[str, Any]] = []
    places: dict[Any, tuple[int, ...]] = {}
    of = []
    for check in spec.checks if checks is None else checks:
        key = SIGNATURE if check.layer == "signature" else (check.draw, check.ask)
        known = places.get(key, ())
        for time in range(len(known), 1 if key == SIGNATURE else check.times):
            known = (*known, len(asked))
            # The number of a draw stands in its seed, so that one more check leaves the others' inputs as they are.
            asked.append(_question(check, np.random.default_rng([seed, len(places) - (key in places), time])))
        places[key] = known
        of.append(known[: check.times])
    return Plan(tuple(asked), tuple(of))


def smallest(check: Check, seed: int) -> Plan:
    """Cases of a check with small sizes, the smallest first."""
    found = []
    for time, largest in enumerate(SMALLEST):
        with small(largest):
            found.append(_question(check, np.random.default_rng([seed, 1 << 20, time])))
    found.sort(key=lambda question: sum(array.size for array in arrays(question["inputs"])))
    return Plan(tuple(found), (tuple(range(len(found))),))


def _question(check: Check, rng: np.random.Generator) -> dict[str, Any]:
    if check.draw is None:
        return {"ask": SIGNATURE, "inputs": {}}
    source = None if check.ask is None else textwrap.dedent(inspect.getsource(check.ask))
    return {"ask": source, "inputs": check.draw(rng)}
