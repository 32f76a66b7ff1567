"""Find the pairs of mistakes that explain a candidate's answers."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError, Trial, run
from kmha.verify.diagnosing.matching import (
    LOOSE,
    Answer,
    Match,
    TrialResult,
    distance,
    distance_from_state,
    explains,
    judge,
    likeliest_first,
    mistakes_of,
    with_kept,
)
from kmha.verify.mistakes import Mistake
from kmha.verify.mistakes.commonness import COMMON

EACH = 2  # number of trials of each kind that decide which pairs are compared on all trials
BLOCKS = ("encoder", "decoder")  # chains with so many mistakes that one of a pair must be common


def find_pairs(results: Sequence[TrialResult], chain: str) -> list[Match]:
    """Return the pairs of mistakes that explain the answers of all trials.

    Both mistakes of a pair must be needed. If both change the same step, both orders are tried. In a block, which has
    many more mistakes, one of the two must be common.
    """
    hardest = sorted(results, key=lambda result: (bool(result.trial.rate), not result.wrong, result.trial.query.size))
    found = []
    for first, second in _possible_pairs(_decisive(hardest), chain):
        if explains(hardest, [first, second]):
            found.append(judge(results, [first, second]))
    return likeliest_first(found, results)


def _decisive(hardest: Sequence[TrialResult]) -> list[TrialResult]:
    """Return a few trials of each kind, which decide which pairs are compared on all trials."""
    kinds: dict[Any, list[TrialResult]] = {}
    for result in hardest:
        trial = result.trial
        masks = trial.mask is not None, trial.causal, trial.key_mask is not None, trial.query_mask is not None
        kind = result.wrong, masks, bool(trial.rate), trial.training, result.limit > LOOSE
        kinds.setdefault(kind, []).append(result)
    return [result for found in kinds.values() for result in found[:EACH]]


@dataclasses.dataclass(frozen=True)
class _Effect:
    """The effect of a single mistake on the trials.

    Attributes:
        seen: Indices of the trials whose answer the mistake makes wrong.
        explained: Indices of the trials in `seen` that the mistake alone explains.
        touched: Indices of the trials in which the mistake changes any number, also in rows that see nothing. With
            another mistake, such numbers may reach other rows.
    """

    seen: frozenset[int]
    explained: frozenset[int]
    touched: frozenset[int]


def _possible_pairs(results: Sequence[TrialResult], chain: str) -> Iterator[tuple[Mistake, Mistake]]:
    """Yield the pairs of mistakes that together may explain all wrong answers.

    If only one of the two mistakes changes the numbers of a trial, this mistake alone must explain the answer. A right
    answer is also possible if both change the same step, because one mistake may replace what the other did.
    """
    right_answers = {index for index, result in enumerate(results) if not result.wrong}
    wrong = {index for index, result in enumerate(results) if result.wrong}
    rights = [_right(result) for result in results]
    effects = {mistake: _effect(results, rights, mistake) for mistake in mistakes_of(chain)}
    useful = {mistake: found for mistake, found in effects.items() if found is not None and found.seen}
    for (first, left), (second, right) in itertools.combinations(useful.items(), 2):
        if chain in BLOCKS and first.id not in COMMON and second.id not in COMMON:
            continue
        if not wrong <= left.seen | right.seen:
            continue
        shared = first.changes.keys() & second.changes.keys()
        more = right_answers if shared else set()
        if left.seen - right.touched <= left.explained | more and right.seen - left.touched <= right.explained | more:
            yield first, second
            if shared:
                yield second, first


def _right(result: TrialResult) -> TrialResult:
    """Return the right answer to a result's trial, after some scores are dropped if it has dropout."""
    trial = with_some_dropped(result.trial) if result.trial.rate else result.trial
    right = run(trial)
    return TrialResult(trial, Answer(right["output"], None if result.answer.scores is None else right.get("returned")))


def _effect(results: Sequence[TrialResult], rights: Sequence[TrialResult], mistake: Mistake) -> _Effect | None:
    """Return the effect of a mistake, or `None` if it is impossible in a trial that has an answer."""
    seen, explained, touched, large = set(), set(), set(), set()
    for index, (result, right) in enumerate(zip(results, rights, strict=True)):
        try:
            wrong = run(right.trial, [mistake.changes], right.right)
        except ImpossibleError:
            return None
        shows = distance_from_state(right, wrong) > result.limit
        if shows or not np.array_equal(wrong["output"], right.answer.output, equal_nan=True):
            touched.add(index)
        if not shows and result.limit > LOOSE:
            large.add(index)
        if shows:
            seen.add(index)
            # In training, the numbers depend on what was dropped, which is found later, for the pair.
            if result.trial.rate or result.limit > LOOSE or distance(result, [mistake]) <= result.limit:
                explained.add(index)
    if seen:  # large logits may hide a mistake that shows in a pair
        seen |= large
        explained |= large
        touched |= large
    return _Effect(frozenset(seen), frozenset(explained), frozenset(touched))


def with_some_dropped(trial: Trial) -> Trial:
    """Return the trial with a fixed dropout mask that drops the scores of every second key."""
    columns = trial.key.shape[-2]
    kept = np.where(np.arange(columns) % 2, 0.0, 1 / (1 - trial.rate))
    return with_kept(trial, np.broadcast_to(kept, (len(trial.query), 1, 1, columns)))
