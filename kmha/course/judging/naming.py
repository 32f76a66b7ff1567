"""Which known mistake an answer makes: its results are compared with those of every wrong answer of the exercise, and,
where the exercise is attention itself, of every mistake in the bank of `kmha.verify`."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from kmha.course.exercises.content import Item
from kmha.course.exercises.seeds import spelled
from kmha.course.judging import running
from kmha.course.judging.comparing import same
from kmha.course.judging.locked_cache import Once
from kmha.course.judging.questions import Plan
from kmha.sandbox.sandbox import Answer, Sandbox
from kmha.sandbox.worker import SIGNATURE

LEAST = 1e-6  # relative; the tolerance within which two answers are one
_BANK = Once(64)


@dataclasses.dataclass(frozen=True)
class Named:
    """A mistake: its id, what it says, and where it was met."""

    id: str
    says: str
    source: str = ""


def name(
    item: Item,
    questions: Plan,
    answers: Sequence[Answer],
    expected: Sequence[Answer],
    sandbox: Sandbox,
    seed: int,
) -> Named | None:
    """The first known mistake that gives these answers to every question; `None` where none does."""
    near = _tolerances(item, questions)
    pairs = zip(answers, questions.asked, strict=True)
    gave = any(answer.error is None and question["ask"] != SIGNATURE for answer, question in pairs)
    for wrong in item.spec.wrong:
        ran = running.wrong(item, wrong, sandbox, seed)
        if ran.error is not None or _alike(ran.answers, expected, [LEAST] * len(near)):
            continue
        # Errors alone look alike whatever their cause, so that then their texts must be the same.
        if _alike(answers, ran.answers, near) and (gave or _errors(answers) == _errors(ran.answers)):
            return Named(wrong.id, wrong.says, spelled(wrong.source))
    for mistake, results in _BANK.of((item, seed), lambda: list(_of_bank(item, questions))):
        made = [index for index, result in enumerate(results) if result is not None]
        if made and all(_gives(answers[index], results[index], near[index]) for index in made):
            return Named(mistake.id, mistake.says, spelled(mistake.source))
    return None


def _tolerances(item: Item, questions: Plan) -> list[float]:
    """For each question that of the checks that look at it: code that computes in another order rounds otherwise."""
    near = [LEAST] * len(questions.asked)
    for check, of in zip(item.spec.checks, questions.of, strict=True):
        for index in of:
            near[index] = max(near[index], check.tolerance)
    return near


def _alike(answers: Sequence[Answer], others: Sequence[Answer], near: Sequence[float]) -> bool:
    return all(_equal(*pair) for pair in zip(answers, others, near, strict=True))


def _equal(one: Answer, other: Answer, near: float) -> bool:
    if one.error is not None or other.error is not None:
        # Where the mistake makes the code raise, other code makes it raise otherwise: the kind tells enough.
        return (one.error or {}).get("kind") == (other.error or {}).get("kind")
    return one.changed == other.changed and same(one.result, other.result, near)


def _errors(answers: Sequence[Answer]) -> list[str]:
    return [str((answer.error or {}).get("says")) for answer in answers]


def _gives(answer: Answer, result: Any, near: float) -> bool:
    return answer.error is None and same(answer.result, result, near)


def _of_bank(item: Item, questions: Plan) -> Iterator[tuple[Any, list[Any]]]:
    """Every mistake of the bank with what it gives for every question that is a plain call, `None` for the others."""
    spec = item.spec
    if spec.bank is None:
        return
    from kmha.verify.chains.attention import ImpossibleError, run
    from kmha.verify.mistakes import BANK

    asked = questions.asked
    trials = [None if question["ask"] is not None else spec.bank(question["inputs"]) for question in asked]
    right = [None if trial is None else spec.bank_result(run(trial)) for trial in trials]
    for mistake in BANK.values():
        if "attention" not in mistake.chains():
            continue
        try:
            results = [None if trial is None else spec.bank_result(run(trial, [mistake.changes])) for trial in trials]
        except ImpossibleError:
            continue
        if not all(same(one, other) for one, other in zip(results, right, strict=True)):
            yield mistake, results
