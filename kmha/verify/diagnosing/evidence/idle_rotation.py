"""Find rotary positions that turn nothing, because code of one position takes each one for the first.

Without positions, attention is right too, so that the numbers do not show it. What turns vectors shows it: a function
whose name says so gives back what it gets, for every position.
"""

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding

SAYS = "Its rotary positions turn nothing: each position is taken for the first, whose angles are 0."


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if functions for rotary positions return their inputs in the calls of all positions."""
    if not getattr(getattr(candidate, "layer_class", None), "counts", False):
        return None
    trial = next((each.trial for each in results if each.trial.query.shape[-2] > 1), None)
    turned = Rotations(candidate.module)
    if trial is not None:
        sys.setprofile(turned)
        try:
            candidate.answer(trial)
        finally:
            sys.setprofile(None)
    if len(turned.idle) < 2 or not all(turned.idle):
        return None
    return Finding(SAYS, ("cache-position-restarts",), conclusive=True)


class Rotations:
    """A profile function that notes for each call of a function that turns vectors if it returned what it got.

    Args:
        module: Name of the module whose functions count.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self.given: dict[int, list[np.ndarray]] = {}  # keyed by the id of the frame
        self.idle: list[bool] = []

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if event == "call" and self._turns(frame):
            self.given[id(frame)] = [array.copy() for array in _arrays(tuple(frame.f_locals.values()))]
        elif event == "return" and id(frame) in self.given:
            given, new = self.given.pop(id(frame)), [*_arrays(result)]
            self.idle += [any(np.array_equal(array, each) for each in given) for array in new]

    def _turns(self, frame: FrameType) -> bool:
        is_own = frame.f_globals.get("__name__") == self.module
        return is_own and naming.ROTARY.search(frame.f_code.co_name.lower()) is not None


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays of two axes or more in a value, or in a tuple of values."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if len(getattr(each, "shape", ())) > 1 and hasattr(each, "dtype"):
            yield np.asarray(frameworks.to_numpy(each))
