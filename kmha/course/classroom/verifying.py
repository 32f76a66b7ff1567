"""Is an exercise what it says? Its starter fails, its solution passes, and every wrong answer is named."""

import dataclasses
import re
from collections.abc import Iterator

from kmha.course.exercises.content import Item
from kmha.course.judging.judging import judge
from kmha.course.judging.running import BrokenExerciseError, solutions_needed
from kmha.sandbox.sandbox import Sandbox

COPIED = 24  # characters of a line of the solution that no hint may hold


@dataclasses.dataclass(frozen=True)
class Found:
    """What is wrong with an exercise."""

    id: str
    says: str


def verify(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Found]:
    """Everything that is wrong with an exercise; nothing, if it is as it must be."""
    yield from _written(item)
    try:
        yield from _graded(item, sandbox, seed)
    except (BrokenExerciseError, ValueError) as error:
        yield Found(item.id, str(error))


def _graded(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Found]:
    more = solutions_needed(item)
    starter = judge(item, item.master.starter, sandbox, seed=seed, more=more, explain=False)
    if starter.points:
        yield Found(item.id, f"its starter gets {starter.points} points, expected none.")
    solved = judge(item, item.master.solution, sandbox, seed=seed, more=more)
    for outcome in solved.outcomes:
        if outcome.says is not None:
            yield Found(item.id, f"its solution fails the check {outcome.check.says!r}: {outcome.says}")
    for wrong in item.spec.wrong:
        grade = judge(item, wrong.text(item.master.solution), sandbox, seed=seed, more=more)
        if grade.error is not None:
            yield Found(item.id, f"its wrong answer {wrong.id} cannot be run: {grade.error['says']}")
        elif grade.passed:
            yield Found(item.id, f"its wrong answer {wrong.id} gets full points.")
        elif grade.named is None or grade.named.id != wrong.id:
            named = grade.named.id if grade.named else "nothing"
            yield Found(item.id, f"its wrong answer {wrong.id} is named {named}.")


def _written(item: Item) -> Iterator[Found]:
    """Texts, starter and hints."""
    master, spec = item.master, item.spec
    if master.title != spec.title:
        yield Found(item.id, f"its text is headed {master.title!r}, its checks say {spec.title!r}.")
    if not re.search(rf"^(def|class) {item.name}\b", master.starter, re.M):
        yield Found(item.id, f"its starter does not define {item.name}.")
    if len({wrong.id for wrong in spec.wrong}) < len(spec.wrong):
        yield Found(item.id, "two of its wrong answers have the same id.")
    if not 1 <= spec.difficulty <= 3:
        yield Found(item.id, f"its difficulty is {spec.difficulty}, expected 1, 2 or 3.")
    known = {_bare(line) for line in master.starter.splitlines()}
    for line in master.solution.splitlines():
        if len(_bare(line)) >= COPIED and _bare(line) not in known:
            for number, hint in enumerate(master.hints, 1):
                if _bare(line) in _bare(hint):
                    yield Found(item.id, f"hint {number} holds a line of the solution: {line.strip()}")


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)
