"""Find out which items, positions and heads reach which, by changing one of them and comparing the answers.

An item's answer must not depend on other items, a head's not on other heads, and a position's not on a position that
the mask hides from it.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Trial, run
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.effects import OTHER
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.diagnosing.verdicts import Finding

CHANGED = 1e-7  # relative: a number that changes by less does not depend on what changed
SIZE = 0.5  # size of the change of an input


def find(candidate: Candidate, results: Sequence[TrialResult]) -> list[Finding]:
    """Return what reaches what it must not reach, or does not reach what it must."""
    if candidate.chain == "embedding":
        return []
    usable = [result for result in results if not result.answer.error and not result.trial.rate]
    usable = [result for result in usable if "large" not in result.trial.name and result.trial.dtype == "float64"]
    usable = [result for result in usable if np.shape(result.answer.output) == np.shape(result.right["output"])]
    if not usable:
        return []
    found = list(_between_items(candidate, min(usable, key=plainness)))
    masked = [result for result in usable if result.trial.masked and result.wrong]
    plain = [result for result in usable if not result.trial.masked and result.wrong]
    for result in masked[:1] + plain[:1]:
        found += _between_positions(candidate, result)
    return found


def _between_items(candidate: Candidate, result: TrialResult) -> Iterator[Finding]:
    trial = result.trial
    if len(trial.query) > 1:
        differs = _difference(candidate, result, lambda array: _bumped(array, np.s_[0]))
        if differs is not None and differs[1:].any():
            yield Finding("Item 0 of the batch changes the output of other items, which it must not.")
    if trial.core and trial.query.shape[1] > 1:
        differs = _difference(candidate, result, lambda array: _bumped(array, np.s_[:, 0]))
        if differs is not None and differs[:, 1:].any():
            yield Finding("Head 0 changes the output of other heads, which it must not.")


def _between_positions(candidate: Candidate, result: TrialResult) -> Iterator[Finding]:
    """Yield a finding if a position reaches another rows than in right code."""
    trial = result.trial
    if candidate.chain != "attention":
        return
    reached, wanted = [], []
    for s in range(trial.key.shape[-2]):
        changed = _with_position(trial, s)
        answer = candidate.answer(changed)
        if answer.error or np.shape(answer.output) != np.shape(result.answer.output):
            return
        reached.append(_rows(_differs(answer.output, result.answer.output)))
        wanted.append(_rows(_differs(run(changed)["output"], result.right["output"])))
    leaks, misses = np.array(reached) & ~np.array(wanted), np.array(wanted) & ~np.array(reached)
    hidden = "that the mask hides" if trial.masked else "that it must not see"
    for pairs, verb in (
        (leaks, f"sees position {{s}}, {hidden}"),
        (misses, "does not see position {s}, which it must"),
    ):
        if pairs.any():
            s, item, t = (int(each[0]) for each in np.nonzero(pairs))
            where = f" in item {item}" if len(trial.query) > 1 else ""
            yield Finding(f"In the call “{trial.name}”, position {t}{where} {verb.format(s=s)}.")


def _with_position(trial: Trial, s: int) -> Trial:
    """Return the trial with another key and value at position s."""
    same = trial.query is trial.key
    bumped = {id(array): _bumped(array, np.s_[..., s, :]) for array in (trial.key, trial.value)}
    inputs: dict[str, Any] = {role: bumped[id(getattr(trial, role))] for role in ROLES[1:]}
    return dataclasses.replace(trial, **inputs, **({"query": inputs["key"]} if same else {}))


def _bumped(array: np.ndarray, index: Any) -> np.ndarray:
    other = array.copy()
    other[index] += SIZE * np.random.default_rng(OTHER).normal(size=other[index].shape)
    return other


def _difference(candidate: Candidate, result: TrialResult, of: Any) -> np.ndarray | None:
    """Return where the output changes if `of` changes the inputs, or `None` if there is no answer."""
    answer = candidate.answer(result.trial.with_inputs(of))
    if answer.error or np.shape(answer.output) != np.shape(result.answer.output):
        return None
    return _differs(answer.output, result.answer.output)


def _differs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    scale = float(np.abs(np.nan_to_num(right, posinf=0.0, neginf=0.0)).max())
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        return np.abs(np.nan_to_num(left - right)) > CHANGED * max(scale, 1e-30)


def _rows(differs: np.ndarray) -> np.ndarray:
    """Return the rows (B, T) that differ."""
    return np.asarray(differs.any(-1) if differs.ndim == 3 else differs.any(axis=(1, -1)))
