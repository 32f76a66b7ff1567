"""How well the bank works: is every mistake named, alone and in pairs, and is nothing right accused?

A mistake is made on purpose in the reference's chain, and the diagnosis sees the numbers alone. Mistakes that are the
same function in a configuration are listed together, and count as named if theirs is in the list: see `same.py`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kmha.verify.bank import right_layers, separation
from kmha.verify.bank.indistinguishable import expected
from kmha.verify.bank.indistinguishable_blocks import expected_in_block
from kmha.verify.chains.attention import ImpossibleError, Trial, run
from kmha.verify.diagnosing import matching, trials, trials_blocks
from kmha.verify.diagnosing.measuring import Answer, Asked
from kmha.verify.diagnosing.subject_functions import FunctionSubject
from kmha.verify.diagnosing.trials_blocks import BlockAccepts
from kmha.verify.mistakes import Mistake


@dataclasses.dataclass(frozen=True)
class Found:
    """What came back of what was made.

    Attributes:
        named: how many were named, alone.
        of: how many were made.
        missed: what was not named, and what was named in its place.
        listed: how many, beside these, came back together with one that is the same function there.
    """

    named: int
    of: int
    missed: tuple[str, ...]
    listed: int = 0

    @property
    def share(self) -> float:
        return self.named / self.of if self.of else 1.0


def together(each: Sequence[Found]) -> Found:
    """The sum."""
    missed = tuple(name for one in each for name in one.missed)
    return Found(sum(one.named for one in each), sum(one.of for one in each), missed, sum(one.listed for one in each))


def pretend(drawn: Sequence[Trial], mistakes: Sequence[Mistake], rng: np.random.Generator) -> list[Asked]:
    """The answers of a candidate that makes these mistakes, with a draw of its own where scores are dropped."""
    return [Asked(trial, _answer(trial, mistakes, rng)) for trial in drawn]


def _answer(trial: Trial, mistakes: Sequence[Mistake], rng: np.random.Generator) -> Answer:
    try:
        state = run(separation.with_dropout(trial, rng), [mistake.changes for mistake in mistakes])
    except ImpossibleError as error:
        return Answer(raised=str(error))
    scores = state.get("returned")
    return Answer(np.asarray(state["output"]), scores, bool(state["untouched"]), trial.dtype)


def made(chain: str) -> list[Mistake]:
    """The mistakes of a chain; of a block, those that are not the attention's inside it."""
    return [one for one in matching.candidates(chain) if chain == "attention" or "attention" not in one.chains()]


def singles(seed: int, chain: str = "attention", progress: Callable[[str], None] = lambda _: None) -> Found:
    """Every mistake of a chain alone, made by a random candidate.

    Left out is what cannot be made, or changes nothing, in what such a candidate can be called with.
    """
    rng = np.random.default_rng(seed)
    drawn, same = _draw(chain, seed)
    named, listed, missed = 0, 0, []
    for mistake in made(chain):
        progress(mistake.id)
        asked = [one for one in pretend(drawn, [mistake], rng) if not one.answer.raised]
        if not asked or matching.explains(asked):
            continue
        others = _mistaken_for(asked, mistake, chain)
        if not others:
            named += 1
        elif all(any({mistake.id, other} <= set(group) for group in same) for other in others):
            listed += 1
        else:
            missed.append(f"{mistake.id} ({', '.join(others)})")
    return Found(named, named + len(missed), tuple(missed), listed)


def _draw(chain: str, seed: int) -> tuple[list[Trial], list[tuple[str, ...]]]:
    """The trials of a random candidate of a chain, and which mistakes are the same function for it."""
    if chain != "attention":
        accepts = BlockAccepts(chain)
        return trials_blocks.draw_block(seed, accepts), expected_in_block(accepts)
    configuration = separation.random(seed)
    rng = np.random.default_rng(seed)
    sizes = trials.draw_sizes(rng, configuration.accepts, configuration.use_bias)
    drawn = trials.draw(seed, configuration.accepts, sizes, core=configuration.core)
    return drawn, list(expected(configuration))


def _mistaken_for(asked: Sequence[Asked], mistake: Mistake, chain: str) -> list[str]:
    """The others that explain it too; or that nothing does."""
    if not matching.explains(asked, [mistake]):
        return ["not found"]
    return [one.id for one in matching.candidates(chain) if one is not mistake and matching.explains(asked, [one])]


def pairs(count: int, seed: int, progress: Callable[[str], None] = lambda _: None) -> Found:
    """Random pairs of the attention's mistakes that can be made together and do not hide one another."""
    rng = np.random.default_rng(seed)
    bank = matching.candidates("attention")
    named, missed, of = 0, [], 0
    while of < count:
        first, second = (bank[index] for index in rng.choice(len(bank), 2, replace=False))
        drawn = _draw("attention", int(rng.integers(10**6)))[0]
        asked = pretend(drawn, [first, second], rng)
        if any(one.answer.raised for one in asked) or not _two(asked):
            continue
        progress(f"{first.id} and {second.id}")
        of += 1
        found = {frozenset(match.ids) for match in matching.pairs(asked, "attention")}
        if frozenset((first.id, second.id)) in found:
            named += 1
        else:
            missed.append(f"{first.id} + {second.id}")
    return Found(named, of, tuple(missed))


def _two(asked: Sequence[Asked]) -> bool:
    """Whether the two are distinguishable: no single mistake, nor none, explains both together."""
    return not any(
        matching.explains(asked, each) for each in ((), *([one] for one in matching.candidates("attention")))
    )


def rights(count: int, seed: int, progress: Callable[[int], None] = lambda _: None) -> Found:
    """Right layers, written in every usual way, in random configurations: how many are found right."""
    named, missed = 0, []
    for number in range(count):
        way = right_layers.WAYS[number % len(right_layers.WAYS)]
        subject: Any = FunctionSubject(right_layers.attention(way), ", ".join(way), {})
        rng = np.random.default_rng((seed, number))
        asked = [Asked(trial, subject.answer(trial)) for trial in subject.draw(number, subject.sizes(rng))]
        if matching.explains(asked):
            named += 1
        else:
            missed.append(f"{', '.join(way)} (number {number})")
        progress(number + 1)
    return Found(named, count, tuple(missed))
