"""Name a mistake that explains only some of the calls.

A candidate may compute attention in two ways, for example a faster one if nobody asks for scores. A mistake in one of
the two explains all wrong calls, while the other calls are right. If no mistake does, the nearest one is described.
"""

from collections.abc import Sequence

from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.matching import LOOSE, Match, TrialResult
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.verdicts import Finding
from kmha.verify.mistakes import Mistake
from kmha.verify.mistakes.commonness import rank

MOST = 3  # if more mistakes than these explain the wrong calls, the calls do not tell mistakes apart
NAMES = 4  # maximum number of calls to list
FEWEST = 3  # smallest number of calls without a mask that name a mistake
SHARE = 0.5  # smallest share of the wrong calls that the nearest mistake must explain to be described


def find(results: Sequence[TrialResult], chain: str) -> list[Finding]:
    """Return the mistakes that explain all wrong calls equally well, if the other calls are right."""
    wrong = [result for result in results if result.wrong]
    if len(wrong) == len(results) or not any(result.limit < LOOSE and not result.trial.training for result in wrong):
        return []
    hardest = sorted(wrong, key=lambda result: (result.trial.rate, result.limit, result.trial.query.size))
    fitting = [mistake for mistake in matching.mistakes_of(chain) if matching.explains(hardest, [mistake])]
    if not 0 < len(fitting) <= MOST:
        return []
    against = {mistake.id: len(_contradicting(results, mistake)) for mistake in fitting}
    best = sorted((one for one in fitting if against[one.id] == min(against.values())), key=rank)
    shown = _listed([result.trial.name for result in wrong])
    says = (
        f"It explains all {len(wrong)} wrong calls ({shown}), and the other {len(results) - len(wrong)} are right, so "
        "the candidate computes attention in two ways, one of which is wrong."
    )
    return [Finding(says, (mistake.id,), conclusive=True) for mistake in best]


def unmasked(results: Sequence[TrialResult], chain: str) -> Finding | None:
    """Return the mistake, or the pair of mistakes, that explains all calls without a mask, if all of these are wrong.

    Then the calls with masks have one more mistake, or kmha does not know how to pass the mask.
    """
    plain = [result for result in results if not (result.trial.masked or result.trial.training)]
    if len(plain) < FEWEST or len(plain) == len(results) or not all(result.wrong for result in plain):
        return None
    found = matching.singles(plain, chain) or find_pairs(plain, chain)
    if not found:
        return None
    same = "this mistake gives" if len(found[0].ids) == 1 else "these mistakes give"
    says = (
        f"Without a mask, {same} the same numbers in all {len(plain)} calls. With a mask, something else differs too."
    )
    return Finding(says, found[0].ids, conclusive=True)


def _contradicting(results: Sequence[TrialResult], mistake: Mistake) -> list[TrialResult]:
    return [result for result in results if matching.distance(result, [mistake]) > result.limit]


def nearest(results: Sequence[TrialResult], closest: Match | None) -> Finding | None:
    """Return how many of the wrong calls the nearest mistake explains, and which calls contradict it.

    `None` if it explains less than half of the wrong calls.
    """
    if closest is None or not closest.mistakes:
        return None
    fits = {result.trial.name: matching.distance(result, closest.mistakes) <= result.limit for result in results}
    wrong = [result.trial.name for result in results if result.wrong]
    explained = sum(fits[name] for name in wrong)
    if not explained or explained < SHARE * len(wrong):
        return None
    against = [name for name, fit in fits.items() if not fit]
    ids, total = " and ".join(closest.ids), sum(fits.values())
    return Finding(
        f"The nearest known mistake, {ids}, explains {total} of {len(results)} calls, {explained} of the {len(wrong)} "
        f"wrong ones. These contradict it: {_listed(against)}."
    )


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names[:NAMES]) + ("; …" if len(names) > NAMES else "")
