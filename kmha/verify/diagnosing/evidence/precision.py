"""Find out whether a candidate computes its softmax in float16 or bfloat16.

Scores from such a softmax are numbers of that dtype, whatever dtype they are converted to afterwards.
"""

from collections.abc import Sequence

import numpy as np

from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.crafted_calls import scores_of, showing_scores
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.diagnosing.verdicts import Finding

ROUNDING = 2e-2  # relative: the most that half precision changes in ordinary calls


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if the answers are nearly right, and the scores are numbers of half precision."""
    plain = [result for result in results if not result.trial.rate and result.trial.dtype == "float64"]
    plain = [result for result in plain if "large" not in result.trial.name and not result.answer.error]
    if not plain or not any(result.wrong for result in plain):
        return None
    if not all(result.distance <= ROUNDING for result in plain):
        return None
    result = min(plain, key=plainness)
    scores = result.answer.scores
    if scores is None or scores.shape != np.shape(result.right.get("returned", ())):
        shown = showing_scores(candidate, result.trial)
        scores = None if shown is None else scores_of(shown, candidate.answer(shown))
    dtype = "" if scores is None else _dtype(scores)
    if not dtype:
        return None
    says = f"Its scores are all numbers of {dtype}, and its answers are right up to the rounding of this dtype."
    return Finding(says, ("softmax-in-half-precision",), conclusive=True)


def _dtype(scores: np.ndarray) -> str:
    """Return the half-precision dtype that represents all scores exactly, or "".

    >>> _dtype(np.array([0.25, 1 / 3])), _dtype(np.array([0.25, 1 / 3], "float16").astype("float64"))
    ('', 'float16')
    """
    numbers = np.asarray(scores, "float64")
    informative = np.unique(numbers[(numbers != 0) & (numbers != 1)])
    if informative.size < 2 or not np.isfinite(numbers).all():
        return ""
    if np.array_equal(numbers.astype("float16").astype("float64"), numbers):
        return "float16"
    bits = numbers.astype("float32").view("uint32")
    exact = np.array_equal(numbers.astype("float32").astype("float64"), numbers)
    return "bfloat16" if exact and not (bits & 0xFFFF).any() else ""
