"""Grade an answer: run it, compare its results with the solution's, mark it, and explain what is wrong."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from kmha.course.errors import CourseError
from kmha.course.exercises.content import Item, ReleasedItem, UnknownExerciseError
from kmha.course.exercises.exercise import LIBRARIES
from kmha.course.judging.explaining import explain
from kmha.course.judging.kinds import kind_of_error
from kmha.course.judging.marking import Grade, bounded, mark
from kmha.course.judging.policy import violation
from kmha.course.judging.released import NO_CHECKS, ReleasedRunner
from kmha.course.judging.running import Answer, Runner, needed_files
from kmha.sandbox.control_characters import visible
from kmha.sandbox.errors import SandboxError, StoppedError
from kmha.sandbox.sandbox import Sandbox, TaskResult
from kmha.sandbox.worker import error_record


def judge(
    item: Item,
    code: str,
    sandbox: Sandbox,
    *,
    seed: int,
    files: Mapping[str, str] | None = None,
    explained: bool = True,
    seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Grade:
    """Grade an answer.

    Args:
        item: The exercise. An exercise of a released course is graded on its recorded inputs.
        code: Text of the answer.
        sandbox: A sandbox that imports the libraries of the exercise.
        seed: Seed of the inputs.
        files: The learner's other files, keyed by name. The answer can import the files that the exercise needs.
        explained: Whether to name the mistake and look for a small case that shows it.
        seconds: Time limit. Default: the exercise's own.
        tell: Function that is called with each step, if somebody waits. Then an endless loop is also looked for first.

    Raises:
        BrokenExerciseError: The exercise's own solution fails.
        UnknownExerciseError: The record of a released exercise is damaged.
    """
    answer = Answer(code, needed_files(item, files or {}), seconds)
    if not isinstance(item, ReleasedItem):
        return judge_with(Runner(item, sandbox, seed), answer, explained, tell)
    try:
        return judge_with(ReleasedRunner(item, sandbox), answer, explained, tell)
    except (CourseError, SandboxError, StoppedError):
        raise
    except Exception as error:  # recorded results can be anything, and are trusted when results are compared with them
        reason = f"{type(error).__name__}: {visible(str(error))[:200]}"
        raise UnknownExerciseError(f"{item.id} cannot be checked: {reason}. Download the course again.") from error


def judge_with(
    runner: Runner, answer: Answer, explained: bool = True, tell: Callable[[str], None] | None = None
) -> Grade:
    """Grade an answer as `judge` does, with a runner."""
    # Without warnings of NumPy: results can hold any numbers, and anything may compute with them.
    with np.errstate(all="ignore"):
        return _judge(runner, answer, explained, tell)


def _judge(runner: Runner, answer: Answer, explained: bool, tell: Callable[[str], None] | None) -> Grade:
    item, spec, code = runner.item, runner.spec, answer.code
    reason = NO_CHECKS if item.released and not spec.checks else violation(code, spec)
    ran = TaskResult(error_record(reason), ()) if reason is not None else _run(runner, answer, tell)
    tell = tell or (lambda _: None)
    tell("comparing the results")
    expected = runner.expected() if ran.error is None else ()
    ran = dataclasses.replace(ran, results=bounded(ran.results, expected)) if ran.error is None else ran
    grade = mark(item.id, spec, runner.plan, ran, expected)
    if grade.error is not None:
        return dataclasses.replace(grade, mistake=kind_of_error(grade))
    if grade.passed or not explained:
        return grade
    try:
        return explain(grade, runner, answer, bounded(ran.results, expected, also_arrays=True), expected, tell)
    except (CourseError, SandboxError, StoppedError):
        raise
    except Exception:  # results can be anything, and the points must not depend on what can be said about them
        if item.released:  # recorded results can be anything too
            raise
        return grade


def _run(runner: Runner, answer: Answer, tell: Callable[[str], None] | None) -> TaskResult:
    """Run an answer. If somebody waits, look for an endless loop first."""
    if tell is not None:
        tell(f"starting {' and '.join(LIBRARIES[each] for each in runner.spec.uses) or 'Python'}")
        runner.sandbox.start()
        tell("running your code")
        if (endless := runner.endless(answer)) is not None:
            return TaskResult(endless.error, ())
    return runner.run(answer)
