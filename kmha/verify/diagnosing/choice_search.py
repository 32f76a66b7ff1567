"""Find the design choices of a candidate: compare its answers with a reference that makes them."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.choices import CHOICES, combinations
from kmha.verify.choices.attention import LINEAR, NORMS, NULL, norms_by_place
from kmha.verify.diagnosing import matching, naming
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.source_text import mentions, stated_bases
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.pairs import find_pairs

LIKELY = 6  # number of combinations of choices that are tried with every mistake
MOST = 40  # the same for the likeliest arrangement of weights
INPUT, HEADS, OF_HEADS, OUTPUT = NORMS
# What a normalization may normalize, for each place that its path tells.
BY_PLACE = {
    "query": (HEADS, INPUT),
    "key": (HEADS, INPUT),
    "context": (INPUT,),
    "output": (OUTPUT, OF_HEADS),
    "": (INPUT, OUTPUT, HEADS),
}
SLOPES = r"alibi|slopes?\b|linear.?bias"
ONE_MORE = r"softmax_?(1|one|plus_?one)\b|quiet_?(softmax|attention)"  # names of the softmax with one more in its sum
# What docstrings and comments say of logits that have no scale on purpose, as in T5 and SAGAN.
UNSCALED = r"\bt5\b|sagan|unscaled|(not|never) scaled|\b(no|without) (a )?scal(e|ing)"
OF_T5 = r"\.relative_attention_bias\b"  # the name of its table
GROUPS = ("rotary positions", "own residual connection")  # decisions that need no further weights


def with_choices(
    answered: Sequence[TrialResult], ids: Sequence[str], epsilon: float | None = None
) -> list[TrialResult]:
    """Return the same answers, compared with the reference that makes these choices."""
    changes = tuple(CHOICES[id].changes for id in ids)
    more = {} if epsilon is None else {"norm_epsilon": epsilon}
    return [
        TrialResult(dataclasses.replace(each.trial, choices=changes, more={**each.trial.more, **more}), each.answer)
        for each in answered
    ]


def distance_with(answered: Sequence[TrialResult], ids: Sequence[str], epsilon: float) -> float | None:
    """Return the distance of the first answer that the choices do not make right, or `None` if they make all right."""
    try:
        wrong = next((each for each in with_choices(answered, ids, epsilon) if each.wrong), None)
        return None if wrong is None else wrong.distance
    except ImpossibleError:  # the sizes do not allow the choices
        return float("inf")


def _has_heads_first(result: TrialResult) -> bool:
    scores, right = result.answer.scores, np.shape(result.right["returned"])
    return scores is not None and scores.ndim == 4 and scores.shape == (right[1], right[0], *right[2:]) != right


def attention_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the combinations of choices that attention may make, each with an epsilon of its normalizations."""
    if not candidate.chooses:
        return
    extras = [extra for extra in answered[0].trial.more.get("extras", ()) if extra.array.size > 1]
    null = [extra for extra in extras if NULL.search(extra.path.lower())]
    averaged = any(result.answer.scores is not None and result.answer.scores.ndim == 3 for result in answered)
    swapped = any(_has_heads_first(result) for result in answered)
    groups = {*GROUPS}
    groups |= {"null key"} if null else set()
    groups |= {*NORMS} if len(extras) > len(null) else set()
    groups |= {"returned scores"} if averaged or swapped else set()
    groups |= {"linear biases"} if mentions(candidate, SLOPES) else set()
    groups |= {"softmax"} if mentions(candidate, ONE_MORE) else set()
    unscaled = candidate.says(UNSCALED) or mentions(candidate, OF_T5)
    groups |= {"scale of the logits"} if unscaled else set()
    groups |= {LINEAR} if mentions(candidate, r"\belu\b") else set()
    trial = answered[0].trial
    if mentions(candidate, naming.ROTARY.pattern):
        trial = dataclasses.replace(trial, more={**trial.more, "bases": stated_bases(candidate)})
    for ids in combinations("attention", trial, groups=groups):
        if (averaged and "scores-averaged" not in ids) or (swapped and "scores-heads-first" not in ids):
            continue
        normalizes = any(CHOICES[id].group in NORMS for id in ids)
        for epsilon in candidate.epsilons() if normalizes else (candidate.convention.norm_epsilon,):
            yield ids, epsilon


def unlikeliness(ids: Sequence[str], answered: Sequence[TrialResult]) -> int:
    """Return how many things speak against choices of attention, judged by the names of the weights of normalizations.

    Against them speaks a normalization that they leave out, one too many, one elsewhere, and RMSNorm with a shift.
    """
    extras = [extra for extra in answered[0].trial.more.get("extras", ()) if extra.array.size > 1]
    places = norms_by_place(extras)
    norms = [CHOICES[id].group for id in ids if CHOICES[id].group in NORMS]
    weights = [extra for mine in places.values() for extra in mine]
    owners = {extra.path.rpartition(".")[0] for extra in weights}
    against = max(len(norms) - len(owners), 0) + sum(not {*BY_PLACE[place]} & {*norms} for place in places)
    against += sum(not any(norm in BY_PLACE[place] for place in places) for norm in norms)
    shifted = any(extra.shifts(one_of_two=True) for extra in weights)
    return against + (sum(id.startswith("rms-") for id in ids) if shifted else 0)


def fitting_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return the design choices that make the answers of a block right, the fewest choices first, or `None`.

    The candidate's answers do not depend on the choices, so each trial is called once.
    """
    for ids in combinations(candidate.chain, answered[0].trial, candidate.expected):
        if matching.explains(with_choices(answered, ids)):
            return ids
    return None


def explained_choices(
    candidate: Candidate, answered: Sequence[TrialResult], further: bool = False
) -> tuple[str, ...] | None:
    """Return the likely design choices with which one known mistake explains the answers, or `None`.

    All choices of an embedding are tried. Of a block's, those nearest to the answers are, or `further` ones, the
    likeliest first: many choices that the block does not make can come nearer to wrong answers than the right ones.
    """
    likely = candidate.likely_choices(answered[0].trial)
    near = sorted(likely, key=lambda ids: matching.judge(with_choices(answered[:1], ids)).distance)
    different: dict[Any, tuple[str, ...]] = {}  # choices that change nothing in these calls are tried once
    for ids in near:
        different.setdefault(_reference(answered, ids), ids)
    nearest, count = [*different.values()], len(different) if candidate.chain == "embedding" else LIKELY
    tried = [*dict.fromkeys([*nearest[:count], likely[0]])]
    if further:
        others = {*nearest[count:]}
        tried = [ids for ids in likely if ids in others][: MOST - count]
    for ids in tried:
        if matching.singles(with_choices(answered, ids), candidate.chain):
            # The mistake may be another activation.
            shorter = tuple(id for id in ids if id in candidate.expected or CHOICES[id].group != "activation")
            return shorter if matching.singles(with_choices(answered, shorter), candidate.chain) else ids
    return None


def _reference(answered: Sequence[TrialResult], ids: Sequence[str]) -> tuple[bytes, ...]:
    """Return the right outputs with these choices, or nothing if the choices are impossible with these sizes."""
    try:
        return tuple(each.right["output"].tobytes() for each in with_choices(answered, ids))
    except ImpossibleError:
        return ()


def choices_with_two_mistakes(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return an embedding's likely design choices with which two known mistakes explain the answers, or `None`."""
    likely = candidate.likely_choices(answered[0].trial) if candidate.chain == "embedding" else []
    return next((ids for ids in likely if find_pairs(with_choices(answered, ids), candidate.chain)), None)


def nearest_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...]:
    """Return the likely design choices that come nearest to the answers."""
    likely = candidate.likely_choices(answered[0].trial)
    return min(likely, key=lambda ids: matching.judge(with_choices(answered[:1], ids)).distance)
