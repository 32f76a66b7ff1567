"""Which mistakes give the numbers that a candidate gave? All of the bank are tried alone, then in pairs."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.diagnosing.measuring import Answer, Asked, Changes, distance, from_state, with_some_dropped
from kmha.verify.mistakes import BANK, Mistake

LOOSE = 1e-4


@dataclasses.dataclass(frozen=True)
class Match:
    """Mistakes that give the candidate's numbers, or come nearest to them.

    Attributes:
        mistakes: none for the right computation.
        distance: the largest over the trials, relative to the largest element.
        trials: how many of the trials they explain.
    """

    mistakes: tuple[Mistake, ...]
    distance: float
    trials: int

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(mistake.id for mistake in self.mistakes)


def judge(asked: Sequence[Asked], mistakes: Changes = ()) -> Match:
    """How well these mistakes explain the answers."""
    distances = [distance(one, mistakes) for one in asked]
    explained = sum(far <= one.limit for far, one in zip(distances, asked, strict=True))
    return Match(tuple(mistakes), max(distances, default=0.0), explained)


def explains(asked: Iterable[Asked], mistakes: Changes = ()) -> bool:
    """Whether the mistakes give the answers of all trials to rounding; the first that they do not ends it."""
    return all(distance(one, mistakes) <= one.limit for one in asked)


def candidates(chain: str) -> list[Mistake]:
    """All mistakes of a chain."""
    return [mistake for mistake in BANK.values() if chain in mistake.chains()]


def singles(asked: Sequence[Asked], chain: str) -> list[Match]:
    """The mistakes that explain everything, each alone."""
    return [judge(asked, [one]) for one in candidates(chain) if explains(asked, [one])]


SHORT = 8


def ranked(asked: Sequence[Asked], chain: str) -> tuple[list[Match], Match | None]:
    """The mistakes that explain everything, each alone, and the best of those that do not.

    A few of the calls that went wrong say which mistakes are worth a look at all calls.
    """
    order = sorted(asked, key=lambda one: (not one.wrong, one.trial.rate, one.trial.query.size))
    found: list[tuple[int, float, Mistake]] = []
    for mistake in candidates(chain):
        far = [(distance(one, [mistake]), one.limit) for one in order[:3]]
        found.append((-sum(each <= limit for each, limit in far), max(each for each, _ in far), mistake))
    found.sort(key=lambda each: each[:2])
    short = [mistake for index, (hits, _, mistake) in enumerate(found) if index < SHORT or -hits == len(order[:3])]
    matches = sorted((judge(order, [mistake]) for mistake in short), key=lambda match: (-match.trials, match.distance))
    fitting = [match for match in matches if match.trials == len(order)]
    return fitting, next((match for match in matches if match.trials < len(order)), None)


def pairs(asked: Sequence[Asked], chain: str) -> list[Match]:
    """The pairs that explain everything. Both mistakes must be needed, and the order of two of one step counts."""
    hardest = sorted(asked, key=lambda one: (bool(one.trial.rate), not one.wrong, one.trial.query.size))
    found = []
    for first, second in _possible_pairs(hardest, chain):
        if explains(hardest, [first, second]):
            found.append(judge(asked, [first, second]))
    return found


@dataclasses.dataclass(frozen=True)
class _Alone:
    """Of a mistake alone: the trials that it changes, and those of them that it explains."""

    seen: frozenset[int]
    explained: frozenset[int]


def _possible_pairs(asked: Sequence[Asked], chain: str) -> Iterator[tuple[Mistake, Mistake]]:
    """The pairs that may explain: where only one of the two shows, that one must explain by itself."""
    wrong = {index for index, one in enumerate(asked) if one.wrong}
    alone = {mistake: _alone(asked, mistake) for mistake in candidates(chain)}
    useful = {mistake: found for mistake, found in alone.items() if found is not None and found.seen}
    for (first, one), (second, other) in itertools.combinations(useful.items(), 2):
        if not wrong <= one.seen | other.seen:
            continue
        if not (one.seen - other.seen <= one.explained and other.seen - one.seen <= other.explained):
            continue
        yield first, second
        if first.changes.keys() & second.changes.keys():
            yield second, first


def _alone(asked: Sequence[Asked], mistake: Mistake) -> _Alone | None:
    """`None` for a mistake that is impossible in a trial which has an answer: it was not made."""
    seen, explained, large = set(), set(), set()
    for index, one in enumerate(asked):
        trial = with_some_dropped(one.trial) if one.trial.rate else one.trial
        try:
            wrong = run(trial, [mistake.changes])
        except ImpossibleError:
            return None
        right = run(trial) if one.trial.rate else one.right
        same = Answer(right["output"], right.get("returned") if one.answer.scores is not None else None)
        shows = from_state(Asked(trial, same), wrong) > one.limit
        if not shows and one.limit > LOOSE:
            large.add(index)
        if shows:
            seen.add(index)
            # What it gives in training hangs on what was dropped: that is found out for the pair.
            if one.trial.rate or one.limit > LOOSE or distance(one, [mistake]) <= one.limit:
                explained.add(index)
    if seen:  # large logits may hide what shows in a pair
        seen |= large
        explained |= large
    return _Alone(frozenset(seen), frozenset(explained))
