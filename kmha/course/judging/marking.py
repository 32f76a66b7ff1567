"""What an answer's results are worth: each check compares those of its questions with the solution's.

Nothing is run here, so it does not matter whether the solution has just been run or its results were kept.
"""

import contextlib
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmha.course.exercises.exercise import Check, Exercise, Inputs
from kmha.course.judging.comparing import difference
from kmha.course.judging.naming import Named
from kmha.course.judging.questions import Plan
from kmha.sandbox.sandbox import Answer, Ran
from kmha.sandbox.worker import failed

FORM = ("signature", "shape", "unchanged")  # worth something only beside something that is right
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"\w*(Error|Exception): ")
LONGEST = 600  # characters of what is said of a check


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one check: its points, those that were got, and what is wrong, if anything is."""

    check: Check
    points: int
    says: str | None


@dataclasses.dataclass(frozen=True)
class Shown:
    """The smallest case found that shows what is wrong: its inputs, the answer, and where that differs."""

    inputs: Inputs
    result: Any
    where: tuple[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class Grade:
    """Of one answer.

    Attributes:
        id: of the exercise.
        outcomes: of its checks, in order.
        named: the mistake that the answer makes, if it is known.
        error: why the answer could not be run at all: `kind`, `says`, `line`, `text`.
        printed: by the answer.
        shown: a small case that shows what is wrong.
    """

    id: str
    outcomes: tuple[Outcome, ...]
    named: Named | None = None
    error: Mapping[str, Any] | None = None
    printed: str = ""
    shown: Shown | None = None

    @property
    def points(self) -> int:
        return sum(outcome.points for outcome in self.outcomes)

    @property
    def possible(self) -> int:
        return sum(outcome.check.points for outcome in self.outcomes)

    @property
    def passed(self) -> bool:
        return self.error is None and self.points == self.possible


def mark(id: str, spec: Exercise, questions: Plan, ran: Ran, expected: Sequence[Answer]) -> Grade:
    """The grade of an answer that was run, without a mistake's name.

    Args:
        id: of the exercise.
        spec: its checks are those that `questions` were planned for.
        questions: that were asked.
        ran: what the answer gave.
        expected: what the solution gives.
    """
    if ran.error is not None:
        return unreached(id, spec, ran.error, ran.printed)
    says = [
        _says(check, questions, at, ran.answers, expected) for check, at in zip(spec.checks, questions.of, strict=True)
    ]
    right = any(why is None for check, why in zip(spec.checks, says, strict=True) if check.layer not in FORM)
    outcomes = tuple(
        Outcome(check, check.points if why is None and (right or check.layer not in FORM) else 0, why)
        for check, why in zip(spec.checks, says, strict=True)
    )
    printed = ran.printed + next((answer.printed for answer in ran.answers if answer.printed), "")
    return Grade(id, outcomes, printed=printed)


def unreached(id: str, spec: Exercise, error: Mapping[str, Any], printed: str = "") -> Grade:
    """The grade of an answer that could not be run, because of an `error`."""
    return Grade(id, tuple(Outcome(check, 0, "not reached") for check in spec.checks), error=error, printed=printed)


def refused(id: str, spec: Exercise, why: str) -> Grade:
    """The grade of an answer that was not run, with the reason."""
    return unreached(id, spec, failed(why))


def _says(
    check: Check, questions: Plan, at: tuple[int, ...], answers: Sequence[Answer], expected: Sequence[Answer]
) -> str | None:
    """What the answers to a check's questions have wrong, or `None`."""
    for index in at:
        answer = answers[index]
        if answer.error is not None:
            return error_text(answer.error)[:LONGEST]
        why = judged(check, questions.inputs(index), answer, expected[index].result)
        if why is not None:
            return why[:LONGEST]
    return None


def judged(check: Check, inputs: Inputs, answer: Answer, right: Any) -> str | None:
    """What a check finds wrong with a result, or `None`; a result can be anything, so nothing it does is an error."""
    try:
        return _judged(check, inputs, answer, right)
    except Exception:  # comparing, or the exercise's own judge, met a result in another form
        with contextlib.suppress(Exception):
            if found := difference(answer.result, right, check.tolerance, form_only=True):
                return found
        return "it is not in the form expected."


def _judged(check: Check, inputs: Inputs, answer: Answer, right: Any) -> str | None:
    if check.layer == "signature":
        return _signature(answer.result, right)
    if check.layer == "unchanged":
        return f"it changes its argument {', '.join(answer.changed)}." if answer.changed else None
    if check.judge is not None:
        return check.judge(inputs, answer.result, right)
    return difference(answer.result, right, check.tolerance, form_only=check.layer == "shape")


def _signature(received: Any, expected: Mapping[str, list[str]]) -> str | None:
    if not isinstance(received, dict):
        return "it is neither a function nor a class."
    for method, names in expected.items():
        if method.startswith("_") and method != "__init__":
            continue
        found = received.get(method)
        where = f"`{method}` " if method else ""
        if found is None:
            return f"{where}is missing."
        if list(found)[: len(names)] != list(names):
            return f"{where}has the arguments ({', '.join(found)}), expected ({', '.join(names)})."
    return None


def error_text(error: Mapping[str, Any]) -> str:
    """An error of a learner's code in one line, without what Keras and TensorFlow put around it.

    >>> error_text({"kind": "ValueError", "says": "not a tensor", "line": 7, "text": "x = f(y)"})
    'ValueError: not a tensor (line 7: x = f(y))'
    """
    kind = f"{error['kind']}: " if error.get("kind") else ""
    where = f" (line {error['line']}: {error['text']})" if error.get("line") else ""
    lines = [line.strip() for line in _COLOURS.sub("", str(error["says"])).splitlines() if line.strip()]
    if lines and lines[0].startswith("in user code:"):  # a traceback, whose last line is the error
        inner = [line for line in lines if _RAISED.match(line)]
        return f"{(inner or lines)[-1]}{where}"
    told = [line for line in lines if not line.startswith("Exception encountered when calling")]
    return f"{kind}{(told or lines or [''])[0]}{where}"
