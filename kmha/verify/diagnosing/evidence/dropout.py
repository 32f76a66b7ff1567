"""Find out whether a layer drops numbers in training, and only there, if no trial has asked this.

Blocks, embeddings and layers that are already built have no trials with dropout, because their dropout masks cannot be
found by trial. But it shows whether they are random.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult, relative_difference
from kmha.verify.diagnosing.trials import RATE
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.diagnosing.verdicts import Finding

SAME = 1e-6  # relative: results that are closer are the same


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if the layer drops numbers outside of training, or drops none in training."""
    plain = [result for result in results if not result.answer.error and result.trial.dtype == "float64"]
    if not plain or any(result.trial.rate for result in results) or not hasattr(candidate, "make"):
        return None
    result = min(plain, key=plainness)
    rate = RATE if _takes_rate(candidate) else _own_rate(candidate, result.trial)
    if not rate:
        return None
    trial = dataclasses.replace(result.trial, rate=rate)
    if _differs(candidate, trial, result):
        says = f"With a dropout rate of {rate:.2g}, it drops numbers although it is not in training."
        return Finding(says, ("dropout-at-inference",), conclusive=True)
    if candidate.chain == "embedding" or getattr(candidate, "is_in_given_mode", False):
        return None  # what adds an embedding to others may drop numbers of the sum
    training = dataclasses.replace(trial, training=True)
    if _differs(candidate, training, result) is False and _differs(candidate, training, result) is False:
        says = f"With a dropout rate of {rate:.2g}, it gives the same result in training as at inference."
        return Finding(says, ("dropout-never",), conclusive=True)
    return None


def _differs(candidate: Candidate, trial: Trial, result: TrialResult) -> bool | None:
    """Return whether the trial gives another answer than the result, or `None` if it raises an error."""
    answer = candidate.answer(trial)
    return None if answer.error else relative_difference(answer.output, result.answer.output) > SAME


def _takes_rate(candidate: Any) -> bool:
    """Return whether the constructor of the candidate's class takes a dropout rate, which a trial then sets."""
    return isinstance(candidate.thing, type) and "dropout" in candidate.constructor_roles


def _own_rate(candidate: Any, trial: Trial) -> float:
    """Return the largest rate of the dropout sublayers of a layer that is already built, or 0."""
    if isinstance(candidate.thing, type):
        return 0.0
    layer = candidate.make(trial)[0]
    parts = layer.modules() if hasattr(layer, "modules") else getattr(layer, "_flatten_layers", list)()
    sublayers = [part for part in parts if "dropout" in type(part).__name__.lower()]
    rates = [getattr(part, "p", getattr(part, "rate", 0.0)) for part in sublayers]
    return max((rate for rate in rates if isinstance(rate, float)), default=0.0)
