"""Checks what a learner wrote in their folder, and notes what came of it."""

import ast
import dataclasses
import secrets
import time
from collections.abc import Iterable, Mapping

from kmha.course.exercises.content import Item, items
from kmha.course.judging.judging import judge
from kmha.course.judging.marking import Grade
from kmha.course.learner.progress import Record
from kmha.course.learner.workspace import Workspace
from kmha.sandbox.pool import Pool

SEEDS = 2**31


@dataclasses.dataclass(frozen=True)
class Checked:
    """What came of a check.

    Attributes:
        item: the exercise.
        grade: of the answer.
        seed: that draws the same inputs again.
        record: of the exercise, as it is now.
        untouched: whether the answer is still the starter.
        unready: ids of exercises whose answers this one uses, and that are not passed yet.
        seconds: that it took.
    """

    item: Item
    grade: Grade
    seed: int
    record: Record
    untouched: bool = False
    unready: tuple[str, ...] = ()
    seconds: float = 0.0


def fresh_seed() -> int:
    """A seed that was not used before, as far as chance goes."""
    return secrets.randbelow(SEEDS)


def check(item: Item, workspace: Workspace, pool: Pool, seed: int | None = None, *, confirm: bool = False) -> Checked:
    """Checks a learner's answer and notes it, unless nothing was written yet.

    Args:
        item: the exercise.
        workspace: the learner's folder.
        pool: of sandboxes.
        seed: of the inputs; drawn anew by default.
        confirm: whether an answer that passes with `seed` must pass with another one too. Checks with the same seed are
            quicker, for what the solution and the wrong answers give is known from before.

    Raises:
        WorkspaceError: the answer cannot be read.
        BrokenExerciseError: the exercise's own solution does not run.
    """
    begin = time.monotonic()
    code, others = workspace.code(item), workspace.others(item)
    seed = fresh_seed() if seed is None else seed
    sandbox = pool.of(item.spec.uses)
    grade = judge(item, code, sandbox, seed=seed, more=others)
    if confirm and grade.passed:
        seed = fresh_seed()
        grade = judge(item, code, sandbox, seed=seed, more=others)
    same = untouched(code, item)
    noted = workspace.progress
    record = noted.record(item.id) if same else noted.attempt(item.id, grade.points, grade.passed)
    unready = () if grade.passed else _unready(item, workspace.progress.records())
    return Checked(item, grade, seed, record, same, unready, time.monotonic() - begin)


def first_open(records: Mapping[str, Record], among: Iterable[Item] | None = None) -> Item | None:
    """The first exercise that is not passed."""
    every = items() if among is None else among
    return next((item for item in every if not records.get(item.id, Record()).passed), None)


def next_open(records: Mapping[str, Record], item: Item) -> Item | None:
    """The next exercise that is not passed, or, where all that follow are, the first."""
    every = list(items())
    places = [index for index, each in enumerate(every) if each.id == item.id]
    after = every[places[0] + 1 :] if places else []
    return first_open(records, after) or first_open(records, every)


def untouched(code: str, item: Item) -> bool:
    """Whether an answer does what the starter does, comments and spaces aside."""
    try:
        return ast.dump(ast.parse(code)) == ast.dump(ast.parse(item.master.starter))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def built_on(item: Item) -> list[Item]:
    """The exercises whose answers one uses, and that these use in turn."""
    found: dict[str, Item] = {}
    for other in item.beside:
        if other.name in item.spec.needs:
            found |= {each.id: each for each in (*built_on(other), other)}
    return list(found.values())


def _unready(item: Item, records: Mapping[str, Record]) -> tuple[str, ...]:
    return tuple(other.id for other in built_on(item) if not records.get(other.id, Record()).passed)
