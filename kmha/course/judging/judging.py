"""An answer is run in the sandbox, its results are compared with the solution's, and its mistake is named."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.course.exercises.content import Item
from kmha.course.exercises.exercise import Check
from kmha.course.exercises.master import STUB
from kmha.course.judging import naming, policy, released
from kmha.course.judging.comparing import where
from kmha.course.judging.marking import FORM, Grade, Shown, judged, mark, refused
from kmha.course.judging.questions import Plan, plan
from kmha.course.judging.released import Baked
from kmha.course.judging.running import needed, run, solution, solution_smallest
from kmha.sandbox.sandbox import Ran, Sandbox


def judge(
    item: Item,
    code: str,
    sandbox: Sandbox,
    *,
    seed: int,
    more: Mapping[str, str] | None = None,
    explain: bool = True,
    seconds: float | None = None,
) -> Grade:
    """Runs an answer, compares it with the solution, and names its mistake.

    Args:
        item: the exercise; that of a released course has its results (`kmha.course.judging.released`).
        code: the answer's text.
        sandbox: that imports what the exercise uses.
        seed: of the inputs.
        more: the learner's other files, by their names: those that the exercise needs are put beside the answer.
        explain: whether to look for the mistake's name and a small case.
        seconds: that it may take, if not as many as the exercise says.

    Raises:
        BrokenExerciseError: the exercise's own solution does not run.
    """
    if isinstance(item, Baked):
        return released.judge(item, code, sandbox, more=more, seconds=seconds)
    spec = item.spec
    if (why := policy.broken(code, spec)) is not None:
        return refused(item.id, spec, why)
    questions, beside = plan(spec, seed), needed(item, more or {})
    ran = run(item, code, questions, sandbox, beside, seconds)
    if ran.error is not None:
        return mark(item.id, spec, questions, ran, ())
    expected = solution(item, sandbox, seed).answers
    grade = mark(item.id, spec, questions, ran, expected)
    if grade.passed or not explain or _unwritten(ran):
        return grade
    named = naming.name(item, questions, ran.answers, expected, sandbox, seed)
    check = _first_wrong(grade, questions, ran)
    shown = None if check is None else _smallest(item, code, beside, check, sandbox, seed)
    return dataclasses.replace(grade, named=named, shown=shown)


def _unwritten(ran: Ran) -> bool:
    """Whether the last of what was asked met the stub, or was not reached: then there is nothing to explain."""
    error = (ran.answers[-1].error if ran.answers else None) or {}
    kind, says = error.get("kind"), str(error.get("says"))
    return kind == "" or (kind == "NotImplementedError" and says in STUB)


def _first_wrong(grade: Grade, questions: Plan, ran: Ran) -> Check | None:
    """The first check that failed in its values, if what failed was a plain call that gave something."""
    for outcome, at in zip(grade.outcomes, questions.of, strict=True):
        check = outcome.check
        if outcome.says and check.draw and check.layer not in FORM:
            gave = any(ran.answers[index].error is None for index in at)
            return check if check.ask is None and gave else None
    return None


def _smallest(
    item: Item, code: str, beside: Mapping[str, str], check: Check, sandbox: Sandbox, seed: int
) -> Shown | None:
    """The smallest case of a check that shows what is wrong with an answer."""
    cases, expected = solution_smallest(item, check, sandbox, seed)
    if expected is None:
        return None
    for index, answer in enumerate(run(item, code, cases, sandbox, beside).answers):
        inputs, right = cases.inputs(index), expected.answers[index].result
        if answer.error is None and judged(check, inputs, answer, right) is not None:
            return Shown(inputs, answer.result, _where(answer.result, right, check.tolerance))
    return None


def _where(result: Any, right: Any, tolerance: float) -> tuple[str, np.ndarray] | None:
    with contextlib.suppress(Exception):  # a result can be anything
        return where(result, right, tolerance)
    return None
