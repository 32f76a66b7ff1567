"""Describe the known mistake that comes nearest, if no known mistake fits all calls."""

from collections.abc import Sequence

from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.evidence.finding import Finding
from kmha.verify.diagnosing.matching import Match, TrialResult

SHARE = 0.5  # smallest share of the wrong calls that a mistake must explain to be mentioned
NAMES = 4  # maximum number of calls to list


def find(results: Sequence[TrialResult], nearest: Match | None) -> Finding | None:
    """Return how many of the wrong calls the nearest mistake explains, and which calls contradict it.

    `None` if it explains less than half of the wrong calls.
    """
    if nearest is None or not nearest.mistakes:
        return None
    fits = {result.trial.name: matching.distance(result, nearest.mistakes) <= result.limit for result in results}
    wrong = [result.trial.name for result in results if result.wrong]
    explained = sum(fits[name] for name in wrong)
    if not explained or explained < SHARE * len(wrong):
        return None
    against = [name for name, fit in fits.items() if not fit]
    shown = "; ".join(against[:NAMES]) + ("; …" if len(against) > NAMES else "")
    ids, total = " and ".join(nearest.ids), sum(fits.values())
    return Finding(
        f"The nearest known mistake, {ids}, explains {total} of {len(results)} calls, {explained} of the {len(wrong)} "
        f"wrong ones. These contradict it: {shown}."
    )
