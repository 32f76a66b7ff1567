"""Exercises of a released course: in the place of the solution stand the results that it gave for a few draws.

A file for each exercise holds its texts, its starter, its visible checks, what they ask and what the solution
answered; not the solution, nor hidden checks, nor wrong answers. Nothing in it is code that decides: a check that has a
judge of its own compares with the solution's result, and leaves undecided what differs from it.
"""

import dataclasses
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kmha import files
from kmha.course.exercises.content import BAKED, Item, UnknownExerciseError
from kmha.course.exercises.exercise import Check, Exercise, Inputs
from kmha.course.exercises.master import Master
from kmha.course.judging import policy
from kmha.course.judging.comparing import difference
from kmha.course.judging.marking import Grade, mark, refused
from kmha.course.judging.questions import Plan, plan
from kmha.course.judging.running import needed, run, run_solution
from kmha.sandbox.encoding import EncodingError, decode, encode
from kmha.sandbox.sandbox import Answer, Sandbox

VERSION = 1
LATER = "it is not what the solution gives; whether it is right all the same is decided when it is graded."
NOTHING = "it is checked when it is graded: there is no check of it that could be handed out."
_EXERCISE = ("title", "question", "difficulty", "minutes", "uses", "needs", "forbids", "seconds")
_CHECK = ("layer", "says", "points", "times", "tolerance")


@dataclasses.dataclass(frozen=True, eq=False)
class Baked(Item):
    """An exercise of a released course; its checks are those that are visible, its code is the starter."""

    @cached_property
    def held(self) -> Mapping[str, Any]:
        """What its file holds."""
        path = self.folder / f"{self.name}{BAKED}"
        try:
            found = decode(path.read_bytes())
            if found["version"] != VERSION:
                raise UnknownExerciseError(f"{path} was made by another version of kmha: pip install --upgrade kmha")
        except (OSError, EncodingError, KeyError, TypeError) as error:
            raise UnknownExerciseError(f"{path} cannot be read: {error}. Get the course anew.") from None
        return dict(found)

    @cached_property
    def master(self) -> Master:
        held = self.held
        return Master(held["text"], held["starter"], tuple(held["hints"]))

    @cached_property
    def spec(self) -> Exercise:
        """With the visible checks, and no wrong answers."""
        checks = tuple(_check(told) for told in self.held["checks"])
        return Exercise(checks=checks, wrong=(), **{name: self.held[name] for name in _EXERCISE})

    @property
    def released(self) -> bool:
        return True

    @property
    def all_points(self) -> int:
        """Those of the checks that are not here, too."""
        return int(self.held["all_points"])

    @property
    def questions(self) -> Plan:
        """What was asked, and of which check."""
        return Plan(tuple(self.held["asked"]), tuple(tuple(told["of"]) for told in self.held["checks"]))

    @property
    def expected(self) -> tuple[Answer, ...]:
        """What the solution answered."""
        return tuple(Answer(result) for result in self.held["expected"])


def bake(item: Item, path: Path, sandbox: Sandbox, seed: int) -> None:
    """Writes the file of an exercise.

    Args:
        item: with its solution.
        path: to write.
        sandbox: that imports what the exercise uses.
        seed: of the draws.

    Raises:
        BrokenExerciseError: the solution does not run.
    """
    spec = item.spec
    # What `serve` computes is computed by code of ours, so that nothing of it can be handed out.
    checks = [check for check in spec.checks if check.visible and (spec.serve is None or check.layer == "signature")]
    questions = plan(spec, seed, checks)
    expected = run_solution(item, sandbox, questions).answers if checks else ()
    told = [
        {name: getattr(check, name) for name in _CHECK} | {"judged": check.judge is not None, "of": list(of)}
        for check, of in zip(checks, questions.of, strict=True)
    ]
    held = {
        **{name: getattr(spec, name) for name in _EXERCISE},
        **{"version": VERSION, "all_points": spec.points, "text": item.master.text, "starter": item.master.starter},
        **{"hints": list(item.master.hints), "checks": told, "asked": list(questions.asked)},
        "expected": [answer.result for answer in expected],
    }
    files.write_bytes(path, encode(held))


def judge(
    item: Baked, code: str, sandbox: Sandbox, *, more: Mapping[str, str] | None = None, seconds: float | None = None
) -> Grade:
    """Runs an answer, and compares it with what the solution gave.

    Args:
        item: the exercise.
        code: the answer's text.
        sandbox: that imports what the exercise uses.
        more: the learner's other files, by their names.
        seconds: that it may take, if not as many as the exercise says.
    """
    spec = item.spec
    if not spec.checks:
        return refused(item.id, spec, NOTHING)
    if (why := policy.broken(code, spec)) is not None:
        return refused(item.id, spec, why)
    ran = run(item, code, item.questions, sandbox, needed(item, more or {}), seconds)
    return mark(item.id, spec, item.questions, ran, item.expected)


def _check(told: Mapping[str, Any]) -> Check:
    judged = partial(_as_the_solution, told["tolerance"]) if told["judged"] else None
    return Check(**{name: told[name] for name in _CHECK}, draw=_kept, judge=judged)


def _kept(rng: Any) -> Inputs:
    raise ValueError("the inputs of a released course are kept, not drawn.")


def _as_the_solution(tolerance: float, inputs: Inputs, result: Any, expected: Any) -> str | None:
    return LATER if difference(result, expected, tolerance) else None
