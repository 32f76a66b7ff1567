"""Measure how many mistakes of the bank the diagnosis names, single and in pairs, and how many right layers it accuses.

Each mistake is made on purpose in the reference's chain, and the diagnosis sees only the numbers. Mistakes that compute
the same function in a configuration (`indistinguishable.py`) are counted separately: the diagnosis names all of them.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kmha.verify.bank import right_layers
from kmha.verify.bank.indistinguishable import Configuration, expected, expected_in_block
from kmha.verify.chains import caches
from kmha.verify.chains.attention import ImpossibleError, Trial, run
from kmha.verify.diagnosing import block_trials, matching, trials
from kmha.verify.diagnosing.block_trials import BlockAccepts
from kmha.verify.diagnosing.caches.cache_candidate import draw_trials
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.matching import Answer, TrialResult
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.mistakes import Mistake


@dataclasses.dataclass(frozen=True)
class Tally:
    """The number of candidates whose mistake was named.

    Attributes:
        named: Number of candidates for which exactly their mistake was named.
        of: Number of candidates, without the `listed` candidates.
        missed: Mistakes that were not named, each with what was named instead.
        listed: Number of candidates for which other mistakes that compute the same function were named as well.
    """

    named: int
    of: int
    missed: tuple[str, ...]
    listed: int = 0

    @property
    def share(self) -> float:
        return self.named / self.of if self.of else 1.0


def total(tallies: Sequence[Tally]) -> Tally:
    """Return one tally that adds up several tallies."""
    missed = tuple(name for tally in tallies for name in tally.missed)
    named, of, listed = (sum(getattr(tally, name) for tally in tallies) for name in ("named", "of", "listed"))
    return Tally(named, of, missed, listed)


def random_configuration(seed: int) -> Configuration:
    """Draw the configuration of a random candidate.

    >>> random_configuration(1) == random_configuration(1)
    True
    """
    rng = np.random.default_rng(seed)
    flags = ("cross", "mask", "causal", "padding", "query_padding", "training", "wide", "heads", "half", "value")
    drawn = dict(zip(flags, (rng.random(len(flags)) < 0.6).tolist(), strict=True))
    drawn["query_padding"] &= drawn["padding"]
    core, scores, use_bias = (rng.random(3) < (0.25, 0.5, 0.7)).tolist()
    return Configuration(seed, Accepts(**drawn), core, scores, use_bias)


def with_dropout(trial: Trial, rng: np.random.Generator) -> Trial:
    """Return the trial with a random draw of the scores that dropout keeps, or would keep in training."""
    if not trial.rate:
        return trial
    shape = (trial.query.shape[0], trial.heads, trial.query.shape[-2], trial.key.shape[-2])
    return matching.with_kept(trial, (rng.random(shape) >= trial.rate) / (1 - trial.rate))


def simulate(drawn: Sequence[Trial], mistakes: Sequence[Mistake], rng: np.random.Generator) -> list[TrialResult]:
    """Return the answers of a simulated candidate that makes these mistakes and draws its own dropout."""
    return [TrialResult(trial, _answer(trial, mistakes, rng)) for trial in drawn]


def _answer(trial: Trial, mistakes: Sequence[Mistake], rng: np.random.Generator) -> Answer:
    try:
        state = run(with_dropout(trial, rng), [mistake.changes for mistake in mistakes])
    except ImpossibleError as error:
        return Answer(error=str(error))
    scores = state.get("returned")
    return Answer(np.asarray(state["output"]), scores, bool(state["untouched"]), trial.dtype)


def own_mistakes(chain: str) -> list[Mistake]:
    """Return the mistakes of a chain. For a block, leave out the mistakes of the attention inside it."""
    return [one for one in matching.mistakes_of(chain) if chain == "attention" or "attention" not in one.chains()]


def singles(seed: int, chain: str = "attention", progress: Callable[[str], None] = lambda _: None) -> Tally:
    """Tally the diagnoses of a random candidate that makes each single mistake of a chain in turn.

    A mistake is left out if it cannot be made, or changes nothing, with the arguments that the candidate takes.
    """
    rng = np.random.default_rng(seed)
    drawn, same = _draw(chain, seed)
    named, listed, missed = 0, 0, []
    for mistake in own_mistakes(chain):
        progress(mistake.id)
        results = [result for result in simulate(drawn, [mistake], rng) if not result.answer.error]
        if not results or matching.explains(results):
            continue
        others = _mistaken_for(results, mistake, chain)
        if not others:
            named += 1
        elif all(any({mistake.id, other} <= set(group) for group in same) for other in others):
            listed += 1
        else:
            missed.append(f"{mistake.id} ({', '.join(others)})")
    return Tally(named, named + len(missed), tuple(missed), listed)


def _draw(chain: str, seed: int) -> tuple[list[Trial], list[tuple[str, ...]]]:
    """Return the trials of a random candidate of a chain, and the groups of mistakes that are one function for it."""
    if chain == caches.NAME:
        return _draw_cache(np.random.default_rng(seed)), []
    if chain != "attention":
        accepts = BlockAccepts(chain)
        return block_trials.draw_block(seed, accepts), expected_in_block(accepts)
    configuration = random_configuration(seed)
    return configuration.draw(np.random.default_rng(seed)), list(expected(configuration))


def _draw_cache(rng: np.random.Generator) -> list[Trial]:
    """Return the trials of a cache of attention with random weights."""
    weights = trials.draw_weights(rng, trials.Sizes(0, 0, 0, 2, 6, 6, 3, 6))
    attend = caches.WeightsAttend(weights)
    return list(draw_trials(rng, attend, lambda rng, batch, length: rng.normal(size=(batch, length, 6))))


def _mistaken_for(results: Sequence[TrialResult], mistake: Mistake, chain: str) -> list[str]:
    """Return the ids of the other mistakes that the diagnosis finds, or say that it does not find the mistake."""
    found = [one for (one,) in (match.mistakes for match in matching.singles(results, chain))]
    return [one.id for one in found if one is not mistake] if mistake in found else ["not found"]


def pairs(count: int, seed: int, progress: Callable[[str], None] = lambda _: None) -> Tally:
    """Tally the diagnoses of random pairs of attention mistakes that are possible together and both visible."""
    rng = np.random.default_rng(seed)
    bank = matching.mistakes_of("attention")
    named, missed, of = 0, [], 0
    while of < count:
        first, second = (bank[index] for index in rng.choice(len(bank), 2, replace=False))
        drawn = _draw("attention", int(rng.integers(10**6)))[0]
        results = simulate(drawn, [first, second], rng)
        if any(result.answer.error for result in results) or not _need_two(results):
            continue
        progress(f"{first.id} and {second.id}")
        of += 1
        found = {frozenset(match.ids) for match in find_pairs(results, "attention")}
        if frozenset((first.id, second.id)) in found:
            named += 1
        else:
            missed.append(f"{first.id} + {second.id}")
    return Tally(named, of, tuple(missed))


def _need_two(results: Sequence[TrialResult]) -> bool:
    """Return whether neither a single mistake nor the right computation explains the answers."""
    singles = ([mistake] for mistake in matching.mistakes_of("attention"))
    return not any(matching.explains(results, mistakes) for mistakes in ((), *singles))


def rights(count: int, seed: int, progress: Callable[[int], None] = lambda _: None) -> Tally:
    """Tally the diagnoses of correct layers, written in every usual way, in random configurations."""
    named, missed = 0, []
    for number in range(count):
        way = right_layers.WAYS[number % len(right_layers.WAYS)]
        candidate = FunctionCandidate(right_layers.attention(way), ", ".join(way), {})
        rng = np.random.default_rng((seed, number))
        drawn = candidate.draw(number, candidate.sizes(rng))
        results = [TrialResult(trial, candidate.answer(trial)) for trial in drawn]
        if matching.explains(results):
            named += 1
        else:
            missed.append(f"{', '.join(way)} (number {number})")
        progress(number + 1)
    return Tally(named, count, tuple(missed))
