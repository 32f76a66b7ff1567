"""An answer's points: what it computed in the sandbox is compared here, with what the solution computed in another."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kmha.course import naming, policy
from kmha.course.comparing import difference
from kmha.course.content import Item
from kmha.course.exercise import Check, Inputs
from kmha.course.naming import Named
from kmha.course.questions import Plan, plan, smallest
from kmha.course.running import BrokenExerciseError, run, run_solution, solution
from kmha.course.sandbox import Answer, Sandbox

FORM = ("signature", "shape", "unchanged")  # worth something only beside something that is right
SHOWN = 40  # elements of a smallest case that is shown


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one check: its points, those that were got, and what is wrong, if anything is."""

    check: Check
    points: int
    says: str | None


@dataclasses.dataclass(frozen=True)
class Shown:
    """The smallest case found that shows what is wrong: the inputs, and what the answer made of them."""

    inputs: Inputs
    result: Any


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
        return self.points == self.possible


def judge(
    item: Item,
    code: str,
    sandbox: Sandbox,
    *,
    seed: int,
    more: Mapping[str, str] | None = None,
    explain: bool = True,
) -> Grade:
    """Runs an answer, compares it with the solution, and names its mistake.

    Args:
        item: the exercise.
        code: the answer's text.
        sandbox: that imports what the exercise uses.
        seed: of the inputs.
        more: the learner's other files, by their names: those that the exercise needs are put beside the answer.
        explain: whether to look for the mistake's name and a small case.

    Raises:
        BrokenExerciseError: the exercise's own solution does not run.
    """
    spec = item.spec
    if (why := policy.broken(code, spec)) is not None:
        return _none(item, {"kind": "", "says": why, "line": None, "text": ""}, "")
    questions = plan(spec, seed)
    needed = {name: text for name, text in (more or {}).items() if name.removesuffix(".py") in spec.needs}
    ran = run(item, code, questions, sandbox, needed)
    if ran.error is not None:
        return _none(item, ran.error, ran.printed)
    expected = solution(item, sandbox, seed)
    says = [
        _says(check, questions, at, ran.answers, expected.answers)
        for check, at in zip(spec.checks, questions.of, strict=True)
    ]
    right = any(why is None for check, why in zip(spec.checks, says, strict=True) if check.layer not in FORM)
    outcomes = tuple(
        Outcome(check, check.points if why is None and (right or check.layer not in FORM) else 0, why)
        for check, why in zip(spec.checks, says, strict=True)
    )
    printed = ran.printed + next((answer.printed for answer in ran.answers if answer.printed), "")
    grade = Grade(item.id, outcomes, printed=printed)
    if grade.passed or not explain:
        return grade
    named = naming.name(item, questions, ran.answers, expected.answers, sandbox, seed)
    return dataclasses.replace(grade, named=named, shown=_smallest(item, code, needed, grade, sandbox, seed))


def _says(
    check: Check, questions: Plan, at: tuple[int, ...], answers: tuple[Answer, ...], expected: tuple[Answer, ...]
) -> str | None:
    """What the answers to a check's questions have wrong, or `None`."""
    for index in at:
        answer, right = answers[index], expected[index].result
        if answer.error is not None:
            return error_text(answer.error)
        why = _judged(check, questions.inputs(index), answer, right)
        if why is not None:
            return why
    return None


def _judged(check: Check, inputs: Inputs, answer: Answer, right: Any) -> str | None:
    if check.layer == "signature":
        return _signature(answer.result, right)
    if check.layer == "unchanged":
        return f"it changes its argument {', '.join(answer.changed)}." if answer.changed else None
    if check.judge is not None:
        try:
            return check.judge(inputs, answer.result, right)
        except Exception:  # a result in another form than the exercise's judge expects may raise anything
            found = difference(answer.result, right, check.tolerance, form_only=True)
            return found or "it is not in the form expected."
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
    """An error of a learner's code in one line."""
    kind = f"{error['kind']}: " if error.get("kind") else ""
    where = f" (line {error['line']}: {error['text']})" if error.get("line") else ""
    lines = str(error["says"]).strip().splitlines() or [""]
    return f"{kind}{lines[0]}{where}"


def _none(item: Item, error: Mapping[str, Any], printed: str) -> Grade:
    outcomes = tuple(Outcome(check, 0, "not reached") for check in item.spec.checks)
    return Grade(item.id, outcomes, error=error, printed=printed)


def _smallest(
    item: Item, code: str, needed: Mapping[str, str], grade: Grade, sandbox: Sandbox, seed: int
) -> Shown | None:
    """The smallest case of the first check that failed in its values, if there is one that fits on a screen."""
    checks = [outcome.check for outcome in grade.outcomes if outcome.says]
    failed = [check for check in checks if check.draw and check.layer not in FORM]
    if not failed or failed[0].ask is not None:
        return None
    cases = smallest(failed[0], seed)
    ran = run(item, code, cases, sandbox, needed)
    try:
        expected = run_solution(item, sandbox, cases)
    except BrokenExerciseError:  # it need not run on sizes as small as these
        return None
    for index, answer in enumerate(ran.answers):
        inputs = cases.inputs(index)
        if answer.error is None and _judged(failed[0], inputs, answer, expected.answers[index].result) is not None:
            return Shown(inputs, answer.result)
    return None
