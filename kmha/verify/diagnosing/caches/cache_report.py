"""The sentences of a report on a key/value cache, which replace those on a layer."""

import math
from typing import TYPE_CHECKING

from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.verdicts import KNOWN, RAISES, RIGHT, UNJUDGED
from kmha.verify.wording import ended

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

ADVICE = (
    "kmha may have called it wrongly. Say how it is decoded with and without its cache, in a kmha.verify.Decoding, and "
    "diagnose that."
)

IF_APPENDED = ", if the caller appends what a call returns"
IF_NOT = " Does the caller pass it on as it is? Then return the keys and values of all positions."

ONE_BY_ONE = (
    "It takes one position in each call, so that kmha compared these with causal attention over the whole sequence."
)
ONLY_THESE = (
    "kmha knows classes of one position that only attend to it and to all before it. If it also does something else, "
    "such as adding positions, diagnose its attention alone."
)
RIGHT_ALONE = "Without its cache it is right."
ALONE = "Without its cache it is compared with nothing: kmha takes its numbers as right."


def how_sure(found: "Diagnosis") -> str:
    """Return a sentence on the evidence for the verdict on a cache."""
    answered = [result for result in found.results if not result.answer.error]
    count = f"{len(answered)} of {len(found.results)}" if found.errors else f"all {len(answered)}"
    if found.verdict == RIGHT or (found.verdict == UNJUDGED and not found.wrong):
        worst = max((result.distance for result in answered), default=0.0)
        same = f"decoding with its cache gives the numbers of decoding without it in {count} runs"
        alone = "" if found.verdict == RIGHT else ", but kmha has compared nothing else"
        return f"{same}, to within {max(worst, 1e-16):.0e}{alone}."
    if found.verdict == KNOWN and math.isnan(found.matches[0].distance):
        return (
            f"each decoded position depends on the tokens that it would depend on with this mistake, in {count} runs. "
            "The numbers do not tell more."
        )
    if found.verdict == KNOWN:
        others = f". So do {len(found.matches) - 1} others" if found.matches[1:] else ""
        return (
            f"this mistake in its cache gives the same numbers in {count} runs, to within "
            f"{max(found.matches[0].distance, 1e-16):.0e}{others}."
        )
    if found.verdict == RAISES:
        return ended(next(iter(found.errors.values()), "every call raises an error"))
    if found.verdict == UNJUDGED:
        return "decoding with its cache and without it differs, and kmha does not know all arguments of its call."
    return (
        f"decoding with its cache differs from decoding without it in {len(found.wrong)} of {len(answered)} runs, and "
        "no known mistake explains this."
    )


def remark(found: "Diagnosis") -> str:
    """Return a sentence on a cache for the report of a layer that is right without it."""
    judged = "Its cache is right" if found.verdict == RIGHT else "Its cache could not be judged"
    appends = _decoding(found).appends
    return f"{judged}{IF_APPENDED if appends else ''}: {how_sure(found)}{IF_NOT if appends else ''}"


def details(found: "Diagnosis") -> list[str]:
    """Return how kmha called the cache."""
    decoding = _decoding(found)
    return [f"kmha decoded with {decoding.says}, in {decoding.dtype}."] if decoding.says else []


def _decoding(found: "Diagnosis") -> Decoding:
    decoding: Decoding = found.candidate.decoding  # type: ignore[attr-defined] # a `CacheCandidate`
    return decoding
