"""Runs answers to an exercise, the solution and the wrong ones too, each in a sandbox of its own."""

from collections.abc import Mapping
from functools import lru_cache

from kmha.course.content import Item
from kmha.course.exercise import Wrong
from kmha.course.questions import Plan, plan
from kmha.course.sandbox import Ran, Sandbox


class BrokenExerciseError(RuntimeError):
    """The fault is the exercise's own: its solution does not run."""


def run(item: Item, code: str, questions: Plan, sandbox: Sandbox, more: Mapping[str, str] | None = None) -> Ran:
    """What an answer gives; `more` are the files that the exercise needs."""
    spec = item.spec
    return sandbox.run(item.name, code, questions.asked, more=more, seconds=spec.seconds, serve=spec.serve)


@lru_cache(maxsize=256)
def solution(item: Item, sandbox: Sandbox, seed: int) -> Ran:
    """What the solution gives on the inputs of a seed.

    Raises:
        BrokenExerciseError: it does not run.
    """
    return run_solution(item, sandbox, plan(item.spec, seed))


@lru_cache(maxsize=2048)
def wrong(item: Item, answer: Wrong, sandbox: Sandbox, seed: int) -> Ran:
    """What a wrong answer gives on the inputs of a seed."""
    code = answer.text(item.master.solution)
    return run(item, code, plan(item.spec, seed), sandbox, solutions_needed(item))


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
        other = Item(item.assignment, name, item.folder)
        found |= {**solutions_needed(other), f"{name}.py": other.master.solution}
    return found
