"""Find out whether a candidate is random at inference, and where it drops numbers.

Dropout multiplies each number by 0 or by 1 / (1 - p). The quotients of a dropped array and the right array are
therefore two numbers, one of which is 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.crafted_calls import scores_of, showing_scores
from kmha.verify.diagnosing.evidence.source_text import makes_weights_in_call, mentions
from kmha.verify.diagnosing.matching import TrialResult, relative_difference
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.diagnosing.verdicts import Finding

CLOSE = 1e-4  # relative, because some candidates compute in float32
SMALL = 1e-3  # a right number below this share of the largest number gives no reliable quotient
CALLS = 4  # number of calls in which to look for dropped numbers
DROPOUT = "dropout-at-inference"


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return what repeated calls show, or `None` if a repeated call gives the same result.

    The plainest call is repeated, and the call with a dropout rate outside of training.
    """
    for result in _repeated(results):
        again = candidate.answer(result.trial)
        if again.error or _same(again.output, result.answer.output):
            continue
        third = candidate.answer(result.trial)
        if not third.error and _same(third.output, again.output):
            return Finding("Called again with the same inputs, it gives another result from then on.", ("state-kept",))
        return _located(candidate, result)
    return None


def _repeated(results: Sequence[TrialResult]) -> list[TrialResult]:
    usable = [result for result in results if not result.trial.training and not result.answer.error]
    plainest = sorted((result for result in usable if not result.trial.rate), key=plainness)[:1]
    return plainest + [result for result in usable if result.trial.rate][:1]


def _located(candidate: Candidate, result: TrialResult) -> Finding:
    """Describe a random candidate: what it drops, if the quotients show this."""
    where, rate = _dropped_place(candidate, result)
    start = "Called twice with the same inputs, it gives two results"
    if where:
        says = f"{start}: it drops {where} at a rate of about {rate:.2g}, although it is not in training."
        return Finding(says, (DROPOUT,), conclusive=True)
    if makes_weights_in_call(candidate):
        return Finding(f"{start}: it makes new weights in each call.", ("weights-made-in-call",), conclusive=True)
    if result.trial.rate or mentions(candidate, "dropout"):
        return Finding(f"{start}, and it has dropout.", (DROPOUT,), conclusive=True)
    return Finding(
        f"{start}, so something in it is random or changes with each call.", ("random-at-inference",), conclusive=True
    )


def _dropped_place(candidate: Candidate, result: TrialResult) -> tuple[str, float]:
    """Return what the candidate drops, and the rate, or "" if the quotients do not show it."""
    answers = [result.answer, *(candidate.answer(result.trial) for _ in range(CALLS))]
    answers = [answer for answer in answers if not answer.error]
    right = result.right
    if "returned" in right and (rate := _rate([each.scores for each in answers], right["returned"])):
        return "scores", rate
    if rate := _rate([each.output for each in answers], right["output"]):
        return "numbers of its output", rate
    shown = showing_scores(candidate, result.trial)
    if shown is None:
        return "", 0.0
    answers = [candidate.answer(shown) for _ in range(CALLS)]
    scores = run(shown)["scores"] if shown.core else run(shown)["scores"][:, 0]
    if rate := _rate([scores_of(shown, answer) for answer in answers], scores):
        return "scores", rate
    return "", 0.0


def _rate(arrays: Sequence[Any], right: np.ndarray) -> float:
    """Return the dropout rate if all quotients with the right array are 0 or 1 / (1 - rate), else 0."""
    found = [array for array in arrays if array is not None and np.shape(array) == np.shape(right)]
    if not found:
        return 0.0
    sure = np.abs(right) > SMALL * np.abs(right).max()
    with np.errstate(invalid="ignore"):
        quotients = np.concatenate([array[sure] / right[sure] for array in found])
    kept = quotients[np.abs(quotients) > CLOSE]
    if not 0 < kept.size < quotients.size or not np.isfinite(kept).all():
        return 0.0
    factor = float(np.median(kept))
    same = factor > 1 + CLOSE and np.abs(kept - factor).max() <= CLOSE * 10 * factor
    return 1 - 1 / factor if same else 0.0


def _same(left: Any, right: Any) -> bool:
    return relative_difference(left, right) <= CLOSE
