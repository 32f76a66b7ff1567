"""Name a mistake that a candidate makes in some calls only, because it computes attention in two ways.

A layer may take a faster way if nobody asks for scores, for example. A mistake in one of the two ways explains all
wrong calls, while the other calls are right.
"""

from collections.abc import Sequence

from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.evidence.finding import Finding
from kmha.verify.diagnosing.matching import LOOSE, TrialResult
from kmha.verify.mistakes import Mistake
from kmha.verify.mistakes.commonness import rank

MOST = 3  # if more mistakes than these explain the wrong calls, the calls do not tell mistakes apart
NAMES = 4  # maximum number of calls to list


def find(results: Sequence[TrialResult], chain: str) -> Finding | None:
    """Return the mistake that explains all wrong calls, if the other calls are right."""
    wrong = [result for result in results if result.wrong]
    if len(wrong) == len(results) or not any(result.limit < LOOSE and not result.trial.rate for result in wrong):
        return None
    hardest = sorted(wrong, key=lambda result: (result.trial.rate, result.limit, result.trial.query.size))
    fitting = [mistake for mistake in matching.mistakes_of(chain) if matching.explains(hardest, [mistake])]
    if not 0 < len(fitting) <= MOST:
        return None
    best = min(fitting, key=lambda mistake: (len(_contradicting(results, mistake)), rank(mistake)))
    names = [result.trial.name for result in wrong]
    shown = "; ".join(names[:NAMES]) + ("; …" if len(names) > NAMES else "")
    return Finding(
        f"It explains all {len(wrong)} wrong calls ({shown}), and the other {len(results) - len(wrong)} are right, so "
        "the candidate computes attention in two ways, one of which is wrong.",
        (best.id,),
        conclusive=True,
    )


def _contradicting(results: Sequence[TrialResult], mistake: Mistake) -> list[TrialResult]:
    return [result for result in results if matching.distance(result, [mistake]) > result.limit]
