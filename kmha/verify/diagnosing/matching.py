"""Which mistakes give the numbers that a candidate gave? All of the bank are tried alone, then in pairs."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify import tolerance
from kmha.verify.chains.attention import ImpossibleError, State, Trial, run
from kmha.verify.mistakes import BANK, Mistake

Changes = Sequence[Mistake]

FLOAT32_INSIDE = 1e-6
FILL = -1e9  # what many hide with, in place of -inf
FEATURES_DROPPED = 0.8  # more zeros than that are no draw of dropout
STEPS = 10.0  # what is added in place of it, up to 1e10, rounds logits to some 1e-6
USUAL = 10.0  # the largest of logits of ordinary size
LOOSE = 1e-4
SHORT = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What a candidate gave for a trial.

    Attributes:
        output: (B, T, E), or (B, H, T, O) of a core; `None` where it raised.
        scores: (B, H, T, S), or `None` where it returns none.
        untouched: whether it left its inputs as they were.
        dtype: what it computed in.
        error: its error, in place of all these.
    """

    output: Any = None
    scores: Any = None
    untouched: bool = True
    dtype: str = "float64"
    error: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class TrialResult:
    """A trial and the candidate's answer to it."""

    trial: Trial
    answer: Answer

    @functools.cached_property
    def right(self) -> State:
        """All steps' right results."""
        return run(self.trial)

    @functools.cached_property
    def limit(self) -> float:
        """The distance up to which two results are the same.

        Many a right layer takes the root of d_k in float32, so no more than that is result for; and an error of logits
        is one of scores in proportion to the logits' size.
        """
        largest = 1.0
        if self.trial.chain == "attention":
            largest = max(1.0, float(np.abs(self.right["scaled"]).max()) / USUAL)
        return min(max(tolerance.relative(self.answer.dtype), FLOAT32_INSIDE) * largest, 0.1)

    @functools.cached_property
    def distance(self) -> float:
        """The distance from right."""
        return _distance(self, ())

    @property
    def wrong(self) -> bool:
        """Whether that is more than rounding."""
        return self.distance > self.limit


def distance(result: TrialResult, mistakes: Changes = ()) -> float:
    """How far the answer is from what these mistakes give: relative to the largest element; 0 is the same.

    A mistake that is impossible with these sizes is infinitely far away.
    """
    return _distance(result, mistakes) if mistakes else result.distance


def _distance(result: TrialResult, mistakes: Changes) -> float:
    if result.answer.output is None:
        return float("inf")
    changes = [mistake.changes for mistake in mistakes]
    try:
        if result.trial.training:
            return _with_dropout(result, changes)
        if result.trial.rate and mistakes:
            return _without_training(result, changes)
        far = from_state(result, run(result.trial, changes) if changes else result.right)
        for added in (False, True) if mistakes and result.trial.masked else ():
            if far > result.limit:
                filled = dataclasses.replace(result.trial, fill=FILL, added=added)
                far = min(far, from_state(result, run(filled, changes)) / (STEPS if added else 1))
        return far
    except ImpossibleError:
        return float("inf")


def same_weights(one: Trial, other: Trial) -> bool:
    """Whether two trials have the very same weights."""
    if one.weights.keys() != other.weights.keys():
        return False
    return all(np.array_equal(array, other.weights[name]) for name, array in one.weights.items())


def from_state(result: TrialResult, state: State) -> float:
    """The same from the results of a chain."""
    if bool(state["untouched"]) != result.answer.untouched:
        return float("inf")
    empty = result.trial.empty_rows()
    far = apart(result.answer.output, state["output"], empty)
    if result.answer.scores is not None and "returned" in state:
        far = max(far, apart(result.answer.scores, state["returned"], empty))
    return far


def apart(actual: np.ndarray | None, expected: np.ndarray, empty: np.ndarray | None = None) -> float:
    """The largest difference relative to the largest expected element; infinite for another shape, or other NaNs."""
    expected = np.asarray(expected)
    if actual is None or actual.shape != expected.shape:
        return float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return float("inf")
    compared = finite if empty is None else finite & ~_rows(empty, expected.shape)
    if not compared.any():
        return 0.0
    difference = np.abs(np.where(compared, actual, 0.0) - np.where(compared, expected, 0.0))
    largest = float(np.max(np.abs(expected), where=compared, initial=0.0))
    return float(difference.max()) / max(largest, 1e-30)


def _rows(empty: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(B, T) laid along the axes of (B, T, E) or (B, H, T, ·); none where a mistake gives other axes."""
    if (shape[0], shape[-2]) != empty.shape:
        return np.zeros(shape, bool)
    return np.broadcast_to(empty[:, :, None] if len(shape) == 3 else empty[:, None, :, None], shape)


def _without_training(result: TrialResult, changes: Sequence) -> float:
    """Nothing is to be dropped; a mistake that drops all the same has kept what nobody knows."""
    state = run(result.trial, changes)
    far = from_state(result, state)
    nothing = np.zeros((len(result.trial.query), 1, result.trial.query.shape[-2], result.trial.key.shape[-2]))
    dropping = run(keeping(result.trial, nothing), changes)
    if far <= result.limit or np.array_equal(dropping["output"], state["output"], equal_nan=True):
        return far
    return _with_dropout(result, changes)


def keeping(trial: Trial, kept: np.ndarray) -> Trial:
    """With what is kept in training, or by a mistake that drops without it."""
    if trial.training:
        return dataclasses.replace(trial, kept=kept)
    return dataclasses.replace(trial, more={**trial.more, "kept": kept})


def with_some_dropped(trial: Trial) -> Trial:
    """With one of the draws that a candidate could have made: every other score is kept."""
    columns = trial.key.shape[-2]
    kept = np.where(np.arange(columns) % 2, 0.0, 1 / (1 - trial.rate))
    return keeping(trial, np.broadcast_to(kept, (len(trial.query), 1, 1, columns)))


def _with_dropout(result: TrialResult, changes: Sequence) -> float:
    """Every row (b, t) of one head may have kept any of the scores: all 2^S are tried.

    That every row has kept everything is no draw: a candidate that does so drops nothing. But one may drop features
    of its output, besides or instead: that is no mistake.
    """
    trial, answer = result.trial, result.answer
    if np.ndim(answer.output) not in (3, 4):
        return float("inf")
    shape = (len(trial.query), 1, 1, trial.key.shape[-2])  # for any number of rows: a mistake may exchange T and S
    ways = list(itertools.product((0.0, 1 / (1 - trial.rate)), repeat=shape[-1]))
    states = [run(keeping(trial, np.broadcast_to(np.array(bits), shape)), changes) for bits in ways]
    # (2^S, B, T), the last way is to keep everything
    distances = np.stack([_row_distances(answer, state) for state in states])
    drawn = (distances[-1] > result.limit).any() or (distances <= result.limit).all()
    far = float(distances.min(axis=0).max()) if drawn else float("inf")
    zeros = np.asarray(answer.output) == 0.0
    if far <= result.limit or not 0.0 < zeros.mean() < FEATURES_DROPPED:
        return far
    features = np.where(zeros, 0.0, 1 / (1 - trial.rate))
    states.append(run(keeping(trial, np.ones(shape)), changes))
    distances = np.stack([_row_distances(answer, state, features) for state in states])
    return min(far, float(distances.min(axis=0).max()))


def _row_distances(answer: Answer, state: State, features: np.ndarray | None = None) -> np.ndarray:
    """(B, T) of the answer: how far each row of output and scores is; the output is multiplied by `features`."""
    given = np.shape(answer.output)
    far = np.zeros((given[0], given[-2]))
    output = state["output"]
    if features is not None and np.shape(output) == features.shape:
        output = output * features
    for actual, expected in ((answer.output, output), (answer.scores, state.get("returned"))):
        if actual is None or expected is None:
            continue
        if actual.shape != np.shape(expected):
            return np.full(far.shape, np.inf)
        if (actual.shape[0], actual.shape[-2]) != far.shape:  # such rows are nobody's: all or none is the same
            return far if np.allclose(actual, expected) else np.full(far.shape, np.inf)
        difference = np.abs(np.nan_to_num(actual - expected, nan=np.inf)) / max(float(np.abs(expected).max()), 1e-30)
        far = np.maximum(far, difference.max(-1) if actual.ndim == 3 else difference.max(axis=(1, -1)))
    return far


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


def judge(results: Sequence[TrialResult], mistakes: Changes = ()) -> Match:
    """How well these mistakes explain the answers."""
    distances = [distance(one, mistakes) for one in results]
    explained = sum(far <= one.limit for far, one in zip(distances, results, strict=True))
    return Match(tuple(mistakes), max(distances, default=0.0), explained)


def explains(results: Iterable[TrialResult], mistakes: Changes = ()) -> bool:
    """Whether the mistakes give the answers of all trials to rounding; the first that they do not ends it."""
    return all(distance(one, mistakes) <= one.limit for one in results)


def mistakes_of(chain: str) -> list[Mistake]:
    """All mistakes of a chain."""
    return [mistake for mistake in BANK.values() if chain in mistake.chains()]


def singles(results: Sequence[TrialResult], chain: str) -> list[Match]:
    """The mistakes that explain everything, each alone."""
    return [judge(results, [one]) for one in mistakes_of(chain) if explains(results, [one])]


def ranked(results: Sequence[TrialResult], chain: str) -> tuple[list[Match], Match | None]:
    """The mistakes that explain everything, each alone, and the best of those that do not.

    A few of the calls that went wrong say which mistakes are worth a look at all calls.
    """
    order = sorted(results, key=lambda one: (not one.wrong, one.trial.rate, one.trial.query.size))
    found: list[tuple[int, float, Mistake]] = []
    for mistake in mistakes_of(chain):
        far = [(distance(one, [mistake]), one.limit) for one in order[:3]]
        found.append((-sum(each <= limit for each, limit in far), max(each for each, _ in far), mistake))
    found.sort(key=lambda each: each[:2])
    short = [mistake for index, (hits, _, mistake) in enumerate(found) if index < SHORT or -hits == len(order[:3])]
    matches = sorted((judge(order, [mistake]) for mistake in short), key=lambda match: (-match.trials, match.distance))
    fitting = [match for match in matches if match.trials == len(order)]
    return fitting, next((match for match in matches if match.trials < len(order)), None)


def pairs(results: Sequence[TrialResult], chain: str) -> list[Match]:
    """The pairs that explain everything. Both mistakes must be needed, and the order of two of one step counts."""
    hardest = sorted(results, key=lambda one: (bool(one.trial.rate), not one.wrong, one.trial.query.size))
    found = []
    for first, second in _possible_pairs(hardest, chain):
        if explains(hardest, [first, second]):
            found.append(judge(results, [first, second]))
    return found


@dataclasses.dataclass(frozen=True)
class _Alone:
    """Of a mistake alone: the trials that it changes, and those of them that it explains."""

    seen: frozenset[int]
    explained: frozenset[int]


def _possible_pairs(results: Sequence[TrialResult], chain: str) -> Iterator[tuple[Mistake, Mistake]]:
    """The pairs that may explain: where only one of the two shows, that one must explain by itself."""
    wrong = {index for index, one in enumerate(results) if one.wrong}
    alone = {mistake: _alone(results, mistake) for mistake in mistakes_of(chain)}
    useful = {mistake: found for mistake, found in alone.items() if found is not None and found.seen}
    for (first, one), (second, other) in itertools.combinations(useful.items(), 2):
        if not wrong <= one.seen | other.seen:
            continue
        if not (one.seen - other.seen <= one.explained and other.seen - one.seen <= other.explained):
            continue
        yield first, second
        if first.changes.keys() & second.changes.keys():
            yield second, first


def _alone(results: Sequence[TrialResult], mistake: Mistake) -> _Alone | None:
    """`None` for a mistake that is impossible in a trial which has an answer: it was not made."""
    seen, explained, large = set(), set(), set()
    for index, one in enumerate(results):
        trial = with_some_dropped(one.trial) if one.trial.rate else one.trial
        try:
            wrong = run(trial, [mistake.changes])
        except ImpossibleError:
            return None
        right = run(trial) if one.trial.rate else one.right
        same = Answer(right["output"], right.get("returned") if one.answer.scores is not None else None)
        shows = from_state(TrialResult(trial, same), wrong) > one.limit
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
