"""Runs answers to an exercise, the solution and the wrong ones too, each in a sandbox of its own."""

import dataclasses
from collections.abc import Mapping
from typing import cast

from kmha.course.errors import CourseError
from kmha.course.exercises.content import Item
from kmha.course.exercises.exercise import Check, Wrong
from kmha.course.judging.locked_cache import Once
from kmha.course.judging.questions import Plan, plan, smallest
from kmha.sandbox.sandbox import ENDED, Ran, Sandbox

_SOLUTIONS, _WRONG, _SMALLEST = Once(256), Once(2048), Once(256)


class BrokenExerciseError(CourseError, RuntimeError):
    """The fault is the exercise's own: its solution does not run."""


def run(
    item: Item,
    code: str,
    questions: Plan,
    sandbox: Sandbox,
    more: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Ran:
    """What an answer gives; `more` are the files that the exercise needs, `seconds` those that it may take."""
    spec = item.spec
    seconds = spec.seconds if seconds is None else seconds
    for _ in range(2):  # it may not have been this answer that ended the sandbox
        ran = sandbox.run(item.name, code, questions.asked, more=more, seconds=seconds, serve=spec.serve)
        if ran.error is None or ran.error["says"] != ENDED:
            break
    return ran


def needed(item: Item, more: Mapping[str, str]) -> dict[str, str]:
    """Of a learner's files, by their names, those that an exercise needs, and those that these need."""
    found: dict[str, str] = {}
    for name in item.spec.needs:
        if f"{name}.py" in more:
            found |= {**needed(dataclasses.replace(item, name=name), more), f"{name}.py": more[f"{name}.py"]}
    return found


def solution(item: Item, sandbox: Sandbox, seed: int) -> Ran:
    """What the solution gives on the inputs of a seed; it is run once, in the sandbox of whoever asks first.

    Raises:
        BrokenExerciseError: it does not run.
    """
    return cast(Ran, _SOLUTIONS.of((item, seed), lambda: run_solution(item, sandbox, plan(item.spec, seed))))


def wrong(item: Item, answer: Wrong, sandbox: Sandbox, seed: int) -> Ran:
    """What a wrong answer gives on the inputs of a seed; it too is run once."""

    def compute() -> Ran:
        code = answer.text(item.master.solution)
        return run(item, code, plan(item.spec, seed), sandbox, solutions_needed(item))

    return cast(Ran, _WRONG.of((item, answer.id, seed), compute))


def solution_smallest(item: Item, check: Check, sandbox: Sandbox, seed: int) -> tuple[Plan, Ran | None]:
    """The small cases of a check, and what the solution gives; `None` where it does not run on sizes as small."""

    def compute() -> tuple[Plan, Ran | None]:
        cases = smallest(check, seed)
        try:
            return cases, run_solution(item, sandbox, cases)
        except BrokenExerciseError:
            return cases, None

    return cast("tuple[Plan, Ran | None]", _SMALLEST.of((item, check, seed), compute))


def run_solution(item: Item, sandbox: Sandbox, questions: Plan) -> Ran:
    """What the solution gives.

    Raises:
        BrokenExerciseError: it does not run.
    """
    ran = run(item, item.master.solution, questions, sandbox, solutions_needed(item))
    error = ran.error or next((answer.error for answer in ran.answers if answer.error), None)
    if error is not None:
        raise BrokenExerciseError(f"{item.id}: its own solution fails: {error['kind']} {error['says']}")
    return ran


def solutions_needed(item: Item) -> dict[str, str]:
    """The solutions of the exercises that one needs, as files beside it."""
    found: dict[str, str] = {}
    for name in item.spec.needs:
        other = dataclasses.replace(item, name=name)
        found |= {**solutions_needed(other), f"{name}.py": other.master.solution}
    return found
