"""Plan the calls to an answer. Checks that look at the same call share it."""

import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.course.exercises.exercise import Check, Inputs, small
from kmha.sandbox.sandbox import SIGNATURE, Call
from kmha.sandbox.worker import arrays

# The maximum size in each case of `plan_smallest`. `None` stands for small sizes that are all different.
SMALLEST = (*[1] * 2, *[2] * 8, *[None] * 3)


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedCall(Call):
    """A call, and the input whose elements get a process of their own, if it has one (`Check.apart`)."""

    apart: str = ""

    def parts(self) -> list[Call]:
        """Return the call for each of these elements, or the call itself."""
        if not self.apart:
            return [self]
        return [Call({**self.inputs, self.apart: each}, self.function) for each in self.inputs[self.apart]]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The calls to an answer, and the checks that look at them.

    Attributes:
        calls: The calls.
        indices: For each check, the indices of its calls.
    """

    calls: tuple[PlannedCall, ...]
    indices: tuple[tuple[int, ...], ...]

    def inputs(self, index: int) -> Inputs:
        return self.calls[index].inputs


def plan(checks: Sequence[Check], seed: int) -> Plan:
    """Plan the calls that some checks need. The same seed draws the same inputs."""
    calls: list[PlannedCall] = []
    places: dict[Any, tuple[int, ...]] = {}
    indices = []
    for check in checks:
        key = SIGNATURE if check.layer == "signature" else (check.draw, check.ask, check.apart)
        known = places.get(key, ())
        for time in range(len(known), 1 if key == SIGNATURE else check.times):
            known = (*known, len(calls))
            # Each draw has its own seed, so that adding a check does not change the inputs of the others.
            calls.append(_call(check, np.random.default_rng([seed, len(places) - (key in places), time])))
        places[key] = known
        indices.append(known[: check.times])
        if check.layer == "shape" and check.ones:
            with small(1):
                one = _call(check, np.random.default_rng([seed, [*places].index(key), 1 << 20]))
            indices[-1] += (len(calls),)
            calls.append(one)
    return Plan(tuple(calls), tuple(indices))


def plan_smallest(check: Check, seed: int) -> Plan:
    """Plan calls with small sizes for a check, the smallest first."""
    found = []
    for time, largest in enumerate(SMALLEST):
        with small(largest):
            found.append(_call(check, np.random.default_rng([seed, 1 << 20, time])))
    found.sort(key=lambda call: sum(array.size for array in arrays(call.inputs)))
    return Plan(tuple(found), (tuple(range(len(found))),))


def _call(check: Check, rng: np.random.Generator) -> PlannedCall:
    if check.draw is None:
        return PlannedCall({}, SIGNATURE)
    source = None if check.ask is None else textwrap.dedent(inspect.getsource(check.ask))
    return PlannedCall(check.draw(rng), source, check.apart)
