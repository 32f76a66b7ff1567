"""Explain a grade: name the mistake in an answer, and find the smallest case that shows it.

The mistake is named by the exercise's first wrong answer that gives the same results. For an exercise that is
attention itself, every mistake in the bank of `kmha.verify` is compared too. If none gives the same results, a wrong
answer that agrees in parts names the mistake, or else its kind does.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kmha.course.exercises.exercise import Check
from kmha.course.exercises.master import STUB
from kmha.course.exercises.source_documents import describe
from kmha.course.judging.comparing import same, where
from kmha.course.judging.kinds import failed_checks, kind_of_mistake, missing_return
from kmha.course.judging.locked_cache import LockedCache
from kmha.course.judging.marking import FORM, Grade, NamedMistake, SmallestCase, bounded, problem
from kmha.course.judging.partial import evidence
from kmha.course.judging.running import Answer, Runner
from kmha.sandbox.sandbox import SIGNATURE, STARTUP, CallResult

TOLERANCE = 1e-6  # relative tolerance within which results are the same
SHARE = 0.25  # share of the time limit that the small cases may take: a slow answer must not take it twice
_BANK = LockedCache(64)
Results = Sequence[CallResult]


def explain(
    grade: Grade,
    runner: Runner,
    answer: Answer,
    results: Results,
    expected: Results,
    tell: Callable[[str], None] = lambda _: None,
) -> Grade:
    """Return the grade of an answer with the mistake's name and a small case, if they can be found."""
    if _is_unwritten(results):
        return grade
    mistake = (
        (None if runner.item.released else missing_return(answer.code, runner.item.master.solution))
        or runner.recorded_mistake(results, expected, tolerances_of(runner))
        or named_mistake(runner, results, expected, tell)
        or _mistake_in_parts(grade, runner, results, expected)
        or kind_of_mistake(grade, runner.plan, results, expected)
    )
    tell("looking for the smallest case")
    check = _first_failed(grade, runner, results)
    case = None if check is None else _smallest_case(runner, answer, check)
    return dataclasses.replace(grade, mistake=mistake, case=case)


def _is_unwritten(results: Results) -> bool:
    """Return whether the last call raised the stub's error, or was never reached: then there is nothing to explain."""
    error = (results[-1].error if results else None) or {}
    kind, says = error.get("kind"), str(error.get("says"))
    return kind == "" or (kind == "NotImplementedError" and says in STUB)


def named_mistake(
    runner: Runner, results: Results, expected: Results, tell: Callable[[str], None] = lambda _: None
) -> NamedMistake | None:
    """Return the first known mistake that gives the same results for every call, or `None`."""
    tolerances = tolerances_of(runner)
    pairs = zip(results, runner.plan.calls, strict=True)
    has_values = any(result.error is None and call.function != SIGNATURE for result, call in pairs)
    for number, wrong in enumerate(runner.spec.wrong, 1):  # the first time, each takes as long as an answer
        tell(f"comparing it with known mistake {number} of {len(runner.spec.wrong)}")
        ran = runner.wrong(wrong)
        if ran.error is not None or _all_equal(ran.results, expected, [min(TOLERANCE, each) for each in tolerances]):
            continue
        # Two answers that only raise errors look alike whatever the cause, unless the messages are the same.
        if _all_equal(results, ran.results, tolerances) and (
            has_values or _messages(results) == _messages(ran.results)
        ):
            return NamedMistake(wrong.id, wrong.says, describe(wrong.source))
    for mistake, outputs in _BANK.get((runner.item, runner.seed), lambda: list(bank_outputs(runner))):
        plain = [each for each in zip(results, outputs, tolerances, strict=True) if each[1] is not None]
        if plain and all(ran.error is None and same(ran.value, output, limit) for ran, output, limit in plain):
            return NamedMistake(mistake.id, mistake.says, describe(mistake.source))
    return None


def _mistake_in_parts(grade: Grade, runner: Runner, results: Results, expected: Results) -> NamedMistake | None:
    """Return the known mistake that the calls of a failed check show most clearly, or `None`.

    The first failed check that shows one counts: where an answer makes two mistakes, a later check may show one alone.
    An answer that passes a check which a mistake must fail does not make that mistake.
    """
    tolerances = tolerances_of(runner)
    passed = [
        index
        for outcome, each in zip(grade.outcomes, runner.plan.indices, strict=True)
        if outcome.problem is None and outcome.check.layer not in FORM and outcome.check.judge is None
        for index in each
    ]
    possible = [
        (wrong, ran.results)
        for wrong in runner.spec.wrong
        if (ran := runner.wrong(wrong)).error is None
        and all(_equal(ran.results[index], expected[index], tolerances[index]) for index in passed)
    ]
    where = ""
    for check, indices in failed_checks(grade, runner.plan):
        shown = [evidence(indices, results, of_wrong, expected, tolerances) for _, of_wrong in possible]
        if most := max(shown, default=0.0):
            best, _ = possible[shown.index(most)]
            return NamedMistake(best.id, best.says + where.format(check.says), describe(best.source))
        where = " This shows in the check “{}”."
    return None


def tolerances_of(runner: Runner) -> list[float]:
    """Return for each call the largest tolerance of its checks, since equal mistakes can round differently.

    If some of them compare elements, only these count.
    """
    pairs = list(zip(runner.spec.checks, runner.plan.indices, strict=True))
    exact = [(check, indices) for check, indices in pairs if check.judge is None and check.layer not in FORM]

    def largest(index: int, of: Sequence[tuple[Check, tuple[int, ...]]]) -> float:
        return max((check.tolerance for check, indices in of if index in indices), default=0.0)

    return [largest(index, exact) or largest(index, pairs) for index in range(len(runner.plan.calls))]


def _all_equal(results: Results, others: Results, tolerances: Sequence[float]) -> bool:
    return all(_equal(*each) for each in zip(results, others, tolerances, strict=True))


def _equal(one: CallResult, other: CallResult, tolerance: float) -> bool:
    if one.error is not None or other.error is not None:
        # The same mistake in other code can have another error message, so only the exception's class counts.
        return (one.error or {}).get("kind") == (other.error or {}).get("kind")
    return one.changed == other.changed and same(one.value, other.value, tolerance)


def _messages(results: Results) -> list[str]:
    return [str((result.error or {}).get("says")) for result in results]


def bank_outputs(runner: Runner) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each mistake of the bank with its output for each call (`None` if the call has its own `function`)."""
    spec = runner.spec
    if spec.bank is None:
        return
    from kmha.verify.chains.attention import ImpossibleError, run
    from kmha.verify.mistakes import BANK

    calls = runner.plan.calls
    trials = [None if call.function is not None else spec.bank(call.inputs) for call in calls]
    right = [None if trial is None else spec.bank_result(run(trial)) for trial in trials]
    for mistake in BANK.values():
        if "attention" not in mistake.chains():
            continue
        try:
            outputs = [None if trial is None else spec.bank_result(run(trial, [mistake.changes])) for trial in trials]
        except ImpossibleError:
            continue
        if not all(same(one, other) for one, other in zip(outputs, right, strict=True)):
            yield mistake, outputs


def _first_failed(grade: Grade, runner: Runner, results: Results) -> Check | None:
    """Return the first check whose values failed, if it makes plain calls and one of them returned a value."""
    for outcome, indices in zip(grade.outcomes, runner.plan.indices, strict=True):
        check = outcome.check
        if outcome.problem and check.draw and check.layer not in FORM:
            has_values = any(results[index].error is None for index in indices)
            return check if check.ask is None and has_values else None
    return None


def _smallest_case(runner: Runner, answer: Answer, check: Check) -> SmallestCase | None:
    """Return the smallest case of a check that the answer fails."""
    cases, expected = runner.smallest(check)
    if expected is None:
        return None
    quick = dataclasses.replace(answer, seconds=SHARE * runner.limit(answer))
    ran = runner.run(quick, cases, startup=STARTUP / 2)
    for index, result in enumerate(bounded(ran.results, expected, also_arrays=True) if ran.error is None else ()):
        inputs, right = cases.inputs(index), expected[index].value
        if result.error is None and problem(check, inputs, result, right) is not None:
            place = None
            with contextlib.suppress(Exception):  # an untrusted result can be anything
                place = where(result.value, right, check.tolerance)
            return SmallestCase(inputs, result.value, place)
    return None
