"""Compare a candidate's answers with the results of the right computation, of each mistake, and of each pair.

A row with nothing to attend to may have any numbers. It may also be NaN, because a softmax of -∞ alone is NaN in most
code, such as torch's own. If a mistake leaves a row nothing to attend to, NaN in this row fits the mistake. In
float16, where NaN often comes from overflow, such a row must be finite. In training with dropout, the dropout mask
that the candidate drew is found by trying all possible masks.
"""

import contextlib
import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify import tolerance
from kmha.verify.chains.attention import ImpossibleError, State, Trial, run, with_fill
from kmha.verify.diagnosing.verdicts import SourceLine
from kmha.verify.mistakes import BANK, Mistake
from kmha.verify.mistakes.commonness import rank

Changes = Sequence[Mistake]

FLOAT32_INSIDE = 1e-6  # limit for layers that compute a single step in float32
FILL = -1e9  # many layers hide logits with this number instead of -inf
HUGE = 1e20  # an answer above this number has more than FILL in it
FEATURES_DROPPED = 0.8  # a larger share of zeros does not come from dropout
STEPS = 10.0  # adding a fill of up to 1e10 rounds the logits to about 1e-6
USUAL = 10.0  # the largest logit of ordinary size
LOOSE = 1e-4  # a limit above this number hides small differences
EXACT = 1e-10  # distances below this number are rounding alone
FARTHER = 100.0  # an explanation is much further from the numbers if its distance is this many times another's
SHORT = 8  # number of mistakes that are compared on all calls


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """A candidate's answer to a trial.

    Attributes:
        output: Output (B, T, E), or (B, H, T, O) from a core, or `None` if the candidate raised an error.
        scores: Scores (B, H, T, S), or `None` if the candidate returns no scores.
        untouched: Whether the candidate left its inputs unchanged.
        dtype: Dtype that the candidate computed in.
        error: Error that the candidate raised, on one line, or "".
        line: Line of the candidate's code that raised the error, if it was there.
        is_slip: Whether the error is the code's own, such as a wrong name, whatever it was called with.
        scores_alone: Whether the candidate returned the scores alone, from which kmha computed the output.
    """

    output: Any = None
    scores: Any = None
    untouched: bool = True
    dtype: str = "float64"
    error: str = ""
    line: SourceLine | None = None
    is_slip: bool = False
    scores_alone: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class TrialResult:
    """A trial and the candidate's answer to it."""

    trial: Trial
    answer: Answer

    @functools.cached_property
    def right(self) -> State:
        """The right results of all steps."""
        return run(self.trial)

    @functools.cached_property
    def limit(self) -> float:
        """The distance up to which two answers count as the same.

        Many right layers take the root of d_k in float32, so the limit is never stricter than float32. The error of the
        scores grows with the size of the logits, and so does the limit.
        """
        largest = 1.0
        if self.trial.chain == "attention":
            with contextlib.suppress(ImpossibleError):  # some design choice cannot be made with these sizes
                largest = max(1.0, float(np.abs(self.right["scaled"]).max()) / USUAL)
        elif self.trial.name == "large mean":  # normalizations may stay in float32, and take E[x²] - E[x]²
            largest = float(np.mean(self.trial.query) ** 2)
        return min(max(tolerance.relative(self.answer.dtype), FLOAT32_INSIDE) * largest, 0.1)

    @functools.cached_property
    def has_nan(self) -> bool:
        """True if the answer has NaN."""
        return any(array is not None and np.isnan(array).any() for array in (self.answer.output, self.answer.scores))

    @functools.cached_property
    def empty(self) -> np.ndarray:
        """A mask (B, T), True for rows that may have any finite numbers."""
        return self.trial.empty_rows() | self.zeroed

    @functools.cached_property
    def zeroed(self) -> np.ndarray:
        """A mask (B, T), True at padding where the answer is zero, as some encoder layers make it."""
        trial, output = self.trial, self.answer.output
        is_own = trial.chain == "encoder" and not trial.more.get("crossing")
        if not is_own or trial.key_mask is None or np.shape(output) != trial.query.shape:
            return np.zeros((len(trial.query), trial.query.shape[-2]), bool)
        return ~trial.key_mask & ~np.any(output, axis=-1)

    @functools.cached_property
    def fill(self) -> float:
        """The number that hides logits, if it is not -inf: the least of float32 if the answer is huge."""
        finite = np.abs(
            self.answer.output, where=np.isfinite(self.answer.output), out=np.zeros(self.answer.output.shape)
        )
        return float(np.finfo("float32").min) if finite.max(initial=0.0) > HUGE else FILL

    @functools.cached_property
    def distance(self) -> float:
        """The distance from the right answer."""
        return _distance(self, ())

    @property
    def wrong(self) -> bool:
        """True if the distance from the right answer is more than rounding."""
        return self.distance > self.limit


def distance(result: TrialResult, mistakes: Changes = ()) -> float:
    """Return the distance of the answer from the results of these mistakes, relative to the largest element.

    The distance from a mistake that is impossible with these sizes is infinite.
    """
    return _distance(result, mistakes) if mistakes else result.distance


def _distance(result: TrialResult, mistakes: Changes) -> float:
    if result.answer.output is None:
        return float("inf")
    changes = [mistake.changes for mistake in mistakes]
    try:
        if result.trial.training:
            return _distance_with_dropout(result, changes)
        if result.trial.rate and mistakes:
            return _distance_without_training(result, changes)
        state = run(result.trial, changes, result.right) if changes else result.right
        far = plain = distance_from_state(result, state)
        for added in (False, True) if mistakes and _hides(result, state) else ():
            if far > result.limit:
                filled = with_fill(state, result.fill, added)
                again = plain if filled is state else distance_from_state(result, filled)
                far = min(far, again / STEPS if added and _changes(result, state) else again)
        return far
    except ImpossibleError:
        return float("inf")


def _hides(result: TrialResult, state: State) -> bool:
    """Return whether a position is hidden from another one, by a mask of the call or by one that is always there."""
    return result.trial.masked or not all(np.all(allowed) for allowed in _allowed(state))


def _allowed(state: State) -> Iterator[Any]:
    """Yield what each attention of a chain allows."""
    for part in (state, state.get("inside1"), state.get("inside2")):
        if part and part.get("allowed") is not None:
            yield part["allowed"]


def _changes(result: TrialResult, state: State) -> bool:
    """Return whether mistakes change the output. If not, they explain no more than the right computation does."""
    return relative_difference(np.asarray(state["output"]), result.right["output"]) > EXACT


def same_weights(one: Trial, other: Trial) -> bool:
    """Return whether two trials have identical weights."""
    if one.weights.keys() != other.weights.keys():
        return False
    return all(np.array_equal(array, other.weights[name]) for name, array in one.weights.items())


def distance_from_state(result: TrialResult, state: State) -> float:
    """Return the distance of the answer from the results of a chain."""
    if bool(state["untouched"]) != result.answer.untouched:
        return float("inf")
    empty, is_half = result.empty, result.trial.dtype == "float16"
    blind = np.zeros_like(empty)
    if result.has_nan:
        blind = _blind_rows(state, empty) | (empty & (not is_half))
    far = relative_difference(_with_nan(result.answer.output, state["output"], blind), state["output"], empty, is_half)
    if result.answer.scores is not None and "returned" in state:
        scores = _with_nan(result.answer.scores, state["returned"], blind)
        far = max(far, relative_difference(scores, state["returned"], empty, is_half))
    return far


def _blind_rows(state: State, empty: np.ndarray) -> np.ndarray:
    """Return a boolean mask (B, T), True for rows that see nothing in `state`, but must see something."""
    found = np.zeros(empty.shape, bool)
    for allowed in _allowed(state):
        if np.ndim(allowed) != 4 or allowed.shape[2] != empty.shape[1]:
            continue
        blind = ~allowed.any(-1).all(1)  # (B or 1, T)
        if blind.shape[0] in (1, len(found)):
            found |= blind
    return found & ~empty


def _with_nan(actual: np.ndarray | None, expected: np.ndarray, blind: np.ndarray) -> np.ndarray | None:
    """Return the answer, with the expected numbers in its rows of NaN among the rows `blind` (B, T)."""
    if actual is None or not blind.any() or actual.shape != np.shape(expected) or actual.ndim not in (3, 4):
        return actual
    rows = _rows(blind, actual.shape) & np.isnan(actual).all(axis=-1, keepdims=True)
    return np.where(rows, expected, actual)


def relative_difference(
    actual: np.ndarray | None, expected: np.ndarray, empty: np.ndarray | None = None, is_half: bool = False
) -> float:
    """Return the largest difference relative to the largest expected element.

    The difference is infinite if the shapes, or the places of NaN and infinity, differ. Rows in `empty` may have any
    finite numbers. In float16 (`is_half`), they are NaN or infinite where they are expected to be.
    """
    expected = np.asarray(expected)
    if actual is None or actual.shape != expected.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        difference = np.abs(actual - expected)
    if difference.size and (empty is None or not empty.any()) and np.isfinite(farthest := float(difference.max())):
        return farthest / max(float(np.abs(expected).max()), 1e-30)
    finite = np.isfinite(expected)
    told = np.ones(expected.shape, bool) if empty is None else ~_rows(empty, expected.shape)
    if ((finite != np.isfinite(actual)) & (told | finite | is_half)).any():
        return float("inf")
    compared = finite & told
    if not compared.any():
        return 0.0
    difference = np.abs(np.where(compared, actual, 0.0) - np.where(compared, expected, 0.0))
    largest = float(np.max(np.abs(expected), where=compared, initial=0.0))
    return float(difference.max()) / max(largest, 1e-30)


def _rows(empty: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Broadcast `empty` (B, T) to (B, T, E) or (B, H, T, ·). If a mistake gives other axes, no row is empty."""
    if len(shape) == 4 and (shape[0], shape[-2]) != empty.shape == (shape[1], shape[-2]):
        return np.broadcast_to(empty[None, :, :, None], shape)  # scores with the heads first
    if (shape[0], shape[-2]) != empty.shape:
        return np.zeros(shape, bool)
    return np.broadcast_to(empty[:, :, None] if len(shape) == 3 else empty[:, None, :, None], shape)


def _distance_without_training(result: TrialResult, changes: Sequence) -> float:
    """Compare a trial outside of training. A mistake may drop scores nevertheless, with an unknown dropout mask."""
    state = run(result.trial, changes)
    far = distance_from_state(result, state)
    nothing = np.zeros((len(result.trial.query), 1, result.trial.query.shape[-2], result.trial.key.shape[-2]))
    dropping = run(with_kept(result.trial, nothing), changes)
    if far <= result.limit or np.array_equal(dropping["output"], state["output"], equal_nan=True):
        return far
    return _distance_with_dropout(result, changes)


def with_kept(trial: Trial, kept: np.ndarray) -> Trial:
    """Return the trial with these dropout factors, which only a mistake uses outside of training."""
    if trial.training:
        return dataclasses.replace(trial, kept=kept)
    return dataclasses.replace(trial, more={**trial.more, "kept": kept})


def _distance_with_dropout(result: TrialResult, changes: Sequence) -> float:
    """Compare a trial with dropout, without knowing the dropout mask.

    Each row (b, t) of one head may have kept any of its S scores, so all 2^S possible masks are tried. If every row has
    kept everything, the candidate drops nothing, which is wrong. It is no mistake to drop features of the output as
    well as scores, or instead of scores.
    """
    trial, answer = result.trial, result.answer
    if np.ndim(answer.output) not in (3, 4):
        return float("inf")
    shape = (len(trial.query), 1, 1, trial.key.shape[-2])  # without T, because a mistake may exchange T and S
    ways = list(itertools.product((0.0, 1 / (1 - trial.rate)), repeat=shape[-1]))
    states = [run(with_kept(trial, np.broadcast_to(np.array(bits), shape)), changes) for bits in ways]
    # The distances are (2^S, B, T). The last mask keeps everything.
    distances = np.stack([_row_distances(answer, state) for state in states])
    drawn = (distances[-1] > result.limit).any() or (distances <= result.limit).all()
    far = float(distances.min(axis=0).max()) if drawn else float("inf")
    zeros = np.asarray(answer.output) == 0.0
    if far <= result.limit or not 0.0 < zeros.mean() < FEATURES_DROPPED:
        return far
    features = np.where(zeros, 0.0, 1 / (1 - trial.rate))
    states.append(run(with_kept(trial, np.ones(shape)), changes))
    distances = np.stack([_row_distances(answer, state, features) for state in states])
    return min(far, float(distances.min(axis=0).max()))


def _row_distances(answer: Answer, state: State, features: np.ndarray | None = None) -> np.ndarray:
    """Return the distances (B, T) of each row of output and scores from the results in `state`.

    The expected output is multiplied by `features`, if given.
    """
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
        if (actual.shape[0], actual.shape[-2]) != far.shape:  # the rows do not correspond, so compare whole arrays
            return far if np.allclose(actual, expected) else np.full(far.shape, np.inf)
        difference = np.abs(np.nan_to_num(actual - expected, nan=np.inf)) / max(float(np.abs(expected).max()), 1e-30)
        far = np.maximum(far, difference.max(-1) if actual.ndim == 3 else difference.max(axis=(1, -1)))
    return far


@dataclasses.dataclass(frozen=True)
class Match:
    """Mistakes whose results are the candidate's numbers, or come nearest to them.

    Attributes:
        mistakes: Mistakes of the explanation, or an empty tuple for the right computation.
        distance: Largest distance over the trials, relative to the largest element.
        trials: Number of trials that the mistakes explain.
        because: Evidence that names the mistakes instead of equal numbers, as a sentence, or "".
    """

    mistakes: tuple[Mistake, ...]
    distance: float
    trials: int
    because: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(mistake.id for mistake in self.mistakes)

    @property
    def harmless(self) -> bool:
        """True for an explanation by mistakes with which code is called right, with a remark."""
        return bool(self.mistakes) and all(mistake.harmless for mistake in self.mistakes)


def shown(id: str, because: str) -> Match:
    """Return the match of a mistake that calls show without a reference."""
    return Match((BANK[id],), float("nan"), 0, because)


def judge(results: Sequence[TrialResult], mistakes: Changes = ()) -> Match:
    """Return how well these mistakes explain the answers."""
    distances = [distance(result, mistakes) for result in results]
    explained = sum(far <= result.limit for far, result in zip(distances, results, strict=True))
    return Match(tuple(mistakes), max(distances, default=0.0), explained)


def explains(results: Iterable[TrialResult], mistakes: Changes = ()) -> bool:
    """Return whether the results of these mistakes are the answers of all trials, up to rounding."""
    return all(distance(result, mistakes) <= result.limit for result in results)


def mistakes_of(chain: str) -> list[Mistake]:
    """Return all mistakes of a chain."""
    return [mistake for mistake in BANK.values() if chain in mistake.chains()]


def singles(results: Sequence[TrialResult], chain: str) -> list[Match]:
    """Return the single mistakes that explain the answers of all trials, the likeliest first."""
    return likeliest_first([judge(results, [one]) for one in mistakes_of(chain) if explains(results, [one])], results)


def ranked(results: Sequence[TrialResult], chain: str) -> tuple[list[Match], Match | None]:
    """Return the single mistakes that explain all answers, and the best mistake that does not explain all.

    Three calls, preferably calls with wrong answers, decide which mistakes are compared on all calls.
    """
    order = sorted(results, key=lambda result: (not result.wrong, result.trial.rate, result.trial.query.size))
    found: list[tuple[int, float, Mistake]] = []
    for mistake in mistakes_of(chain):
        far = [(distance(result, [mistake]), result.limit) for result in order[:3]]
        found.append((-sum(each <= limit for each, limit in far), max(each for each, _ in far), mistake))
    found.sort(key=lambda each: each[:2])
    short = [mistake for index, (hits, _, mistake) in enumerate(found) if index < SHORT or -hits == len(order[:3])]
    matches = sorted((judge(order, [mistake]) for mistake in short), key=lambda match: (-match.trials, match.distance))
    fitting = likeliest_first([match for match in matches if match.trials == len(order)], results)
    return fitting, next((match for match in matches if match.trials < len(order)), None)


def likeliest_first(fitting: Sequence[Match], results: Sequence[TrialResult]) -> list[Match]:
    """Return explanations that fit all trials, the likeliest first.

    An explanation that is much further from the numbers than another is left out. A mistake in a kind of mask that no
    trial has comes last. Otherwise, the commoner mistake comes first.
    """
    nearest = min((match.distance for match in fitting), default=0.0)
    trials = [result.trial for result in results]
    given = {
        "mask": any(trial.mask is not None for trial in trials),
        "causal": any(trial.causal for trial in trials),
        "padding": any(trial.key_mask is not None for trial in trials),
    }

    def key(match: Match) -> tuple[Any, ...]:
        absent = [id for id in match.ids if not given.get(id.partition("-")[0], True)]
        return len(absent), sorted(map(rank, match.mistakes), reverse=True)

    return sorted((match for match in fitting if match.distance <= max(EXACT, FARTHER * nearest)), key=key)


def raising_first(fitting: Sequence[Match], results: Sequence[TrialResult]) -> list[Match]:
    """Return explanations that fit equally well, those that raise an error in the candidate's raising calls first."""
    raised = [result.trial for result in results if result.answer.error]
    return sorted(fitting, key=lambda match: sum(_is_possible(trial, match.mistakes) for trial in raised))


def explains_errors(match: Match, results: Sequence[TrialResult]) -> bool:
    """Return whether code with these mistakes raises an error in most of the raising calls, and in no others."""
    possible = [_is_possible(result.trial, match.mistakes) for result in results]
    raised = [bool(result.answer.error) for result in results]
    return sum(raised) < 2 * possible.count(False) and all(map(operator.or_, possible, raised))


def _is_possible(trial: Trial, mistakes: Changes) -> bool:
    """Return whether code with these mistakes can run with the trial's sizes."""
    try:
        run(trial, [mistake.changes for mistake in mistakes])
    except ImpossibleError:
        return False
    return True
