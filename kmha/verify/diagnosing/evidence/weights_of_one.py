"""Find a softmax over an axis of length 1, which the scores (B, S, 1) of additive attention have.

Each weight is then 1, so that the output is the sum of all values.
"""

from collections.abc import Sequence

from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding
from kmha.verify.tolerance import is_close


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if the output of additive attention is the sum of all values in every call without a mask."""
    plain = [each for each in results if not (each.trial.masked or each.answer.error)]
    if candidate.chooses or not plain:
        return None
    for each in plain:
        total = each.trial.value.sum(axis=-2, keepdims=True)
        if not is_close(each.answer.output, total.repeat(each.answer.output.shape[-2], axis=-2), each.answer.dtype):
            return None
    return Finding("Its output is the sum of all values: each weight is 1.", ("softmax-over-one",), conclusive=True)
