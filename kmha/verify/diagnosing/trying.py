"""Call a candidate with several calling conventions, and choose the one that suits it best."""

import dataclasses
import enum
import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.choice_search import (
    choices_with_two_mistakes,
    explained_choices,
    fitting_choices,
    nearest_choices,
)
from kmha.verify.diagnosing.conventions import Convention
from kmha.verify.diagnosing.matching import TrialResult, same_weights

ARRANGEMENTS = 3  # number of a block's conventions that are tried with every mistake and with choices


class Fit(enum.IntEnum):
    """How well a convention suits a candidate, worst first."""

    RAISES = 0
    RUNS = 1
    EXPLAINED_BY_TWO = 2
    EXPLAINED = 3
    RIGHT = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Tried:
    """A convention with the results of all calls, or without results if no call gives an output of the right rank."""

    option: Convention
    results: tuple[TrialResult, ...]
    error: str

    @property
    def answered(self) -> list[TrialResult]:
        return [result for result in self.results if not result.answer.error]

    @property
    def takes_masks(self) -> bool:
        """True if a call with a mask ran. Code that is always causal may only run without any."""
        return any(result.trial.mask is not None or result.trial.key_mask is not None for result in self.answered)


Memory = dict[tuple[Convention, int], TrialResult]  # results by convention and id of the trial


def choose_convention(
    candidate: Candidate,
    options: Sequence[Convention],
    drawn: Sequence[Trial],
    memory: Memory | None = None,
    choose: bool = False,
    explain: bool = True,
) -> tuple[Fit, float]:
    """Set the option with which most calls run and agree, the first if several are equally good.

    Args:
        candidate: Candidate.
        options: Conventions to try.
        drawn: Trials to run.
        memory: Results of earlier calls, to which the results of these calls are added.
        choose: Whether to look for a block's design choices too. Otherwise, the options' choices are kept.
        explain: Whether to look for an option that one known mistake explains.

    Returns:
        How well the option suits, and the share of calls that run.
    """
    memory = {} if memory is None else memory
    tried = try_all(candidate, options, drawn, memory)
    running: list[Tried] = []
    for one in tried:
        if one.results and not any(_same(one.answered, other.answered) for other in running):
            running.append(one)
    running = [one for one in running if _have_right_shape(one.answered)] or running
    running = _varied([one for one in running if one.takes_masks] or running)
    if choose:
        return _choose_with_choices(candidate, running, tried, len(drawn))
    right = [one for one in running if matching.explains(one.answered)]
    explained: list[Tried] = []
    if explain and not right:
        most = len(running[0].answered) if running else 0  # an option with which all calls run comes first
        likely = [one for one in running if len(one.answered) == most]
        likely = likely if candidate.chain == "attention" else likely[: 2 * ARRANGEMENTS]
        explained = next(([one] for one in likely if matching.singles(one.answered, candidate.chain)), [])
    for fit, among in ((Fit.RIGHT, right), (Fit.EXPLAINED, explained), (Fit.RUNS, running)):
        if among:
            candidate.use_convention(among[0].option)
            return fit, len(among[0].answered) / len(drawn)
    candidate.use_convention(_most_telling(tried) or options[0])
    return Fit.RAISES, 0.0


def _varied(running: Sequence[Tried]) -> list[Tried]:
    """Return the options, those that most calls run with first, and one of each meaning of True before a second one."""
    before: Counter[str] = Counter()
    order: list[tuple[int, int, Tried]] = []
    for one in running:
        order.append((-len(one.answered), before[one.option.mask_meaning], one))
        before[one.option.mask_meaning] += 1
    return [one for *_, one in sorted(order, key=lambda each: each[:2])]


def _choose_with_choices(
    candidate: Candidate, running: Sequence[Tried], tried: Sequence[Tried], count: int
) -> tuple[Fit, float]:
    """Set the option and the design choices of a block that suit it best."""
    first, few = running[:1], running[:ARRANGEMENTS]
    for fit, found, among in (
        (Fit.RIGHT, fitting_choices, running),
        (Fit.EXPLAINED, explained_choices, few),
        (Fit.EXPLAINED, functools.partial(explained_choices, further=True), first),
        (Fit.EXPLAINED_BY_TWO, choices_with_two_mistakes, few),
        (Fit.RUNS, nearest_choices, few),
    ):
        for one in among:
            ids = found(candidate, one.answered)
            if ids is not None:
                candidate.use_convention(dataclasses.replace(one.option, choices=ids))
                return fit, len(one.answered) / count
    candidate.use_convention(_most_telling(tried) or tried[0].option)
    return Fit.RAISES, 0.0


def try_all(candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial], memory: Memory) -> list[Tried]:
    """Call the candidate with each option, until one makes all calls right.

    A mask whose shape and dtype no call runs with is not tried again with another meaning of True.
    """
    found: list[Tried] = []
    refused: set[Convention] = set()
    runs_in = ""  # float32 is only for candidates that cannot compute in float64
    for option in options:
        if runs_in and option.dtype != runs_in:
            continue
        form = dataclasses.replace(option, mask_meaning="", padding_meaning="", choices=(), causal=False)
        if form in refused:
            continue
        candidate.use_convention(option)
        results = [remembered(candidate, trial, memory) for trial in drawn]
        answered = [result for result in results if not result.answer.error]
        refused |= set() if answered else {form}
        error = next((each.answer.error for each in results if each.answer.error), "")
        if not answered or not has_right_rank(answered):
            found.append(Tried(option, (), error))
            continue
        if not all(np.isnan(each.answer.output).all() for each in answered):
            runs_in = option.dtype
        found.append(Tried(option, tuple(results), error))
        if len(answered) == len(drawn) and matching.explains(answered):
            break
    return found


def remembered(candidate: Candidate, trial: Trial, memory: Memory) -> TrialResult:
    """Evaluate a trial, or take the answer from `memory`. Answers do not depend on what the reference does."""
    plain = dataclasses.replace(candidate.convention, causal=False, choices=(), norm_epsilon=0.0)
    if (plain, id(trial)) not in memory:
        memory[plain, id(trial)] = candidate.evaluate(trial)
        return memory[plain, id(trial)]
    return TrialResult(candidate.adapted(trial), memory[plain, id(trial)].answer)


def _most_telling(tried: Sequence[Tried]) -> Convention | None:
    """Return the first option whose error is not about dtypes, such as "expected Float but found Double"."""
    telling = [one.option for one in tried if not re.search("dtype|double|float", one.error.lower())]
    return telling[0] if telling else tried[0].option if tried else None


def has_right_rank(results: Sequence[TrialResult]) -> bool:
    """Return whether any output has the right rank. Otherwise, the mask was broadcast along new axes."""
    outputs = ((result.answer.output, result.trial.query) for result in results)
    return any(output is not None and output.ndim == query.ndim for output, query in outputs)


def _have_right_shape(results: Sequence[TrialResult]) -> bool:
    """Return whether all outputs have the query's positions. Otherwise, a mask made more of them, which were merged."""
    return all(np.shape(result.answer.output)[:-1] == result.trial.query.shape[:-1] for result in results)


def _same(results: Sequence[TrialResult], other: Sequence[TrialResult]) -> bool:
    """Return whether two options give the same answers to the same calls, so that one option can be skipped."""
    return len(results) == len(other) and all(
        (one.trial.causal, one.trial.choices) == (another.trial.causal, another.trial.choices)
        and same_weights(one.trial, another.trial)
        and np.array_equal(one.answer.output, another.answer.output, equal_nan=True)
        for one, another in zip(results, other, strict=True)
    )


def is_plain_call(trial: Trial) -> bool:
    """Return whether a trial has no masks besides the causal mask that every decoder layer has."""
    padded = trial.key_mask is not None or trial.query_mask is not None
    return not (padded or trial.mask is not None or (trial.causal and trial.chain != "decoder"))


def usual_trials(drawn: Iterable[Trial]) -> list[Trial]:
    """Return the trials without dropout, float16 or extreme values."""
    return [trial for trial in drawn if not trial.rate and trial.dtype == "float64" and "large" not in trial.name]
