"""Check a learner's answer and record the result."""

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterable, Mapping

from kmha.course.exercises.content import Item, items
from kmha.course.exercises.handout import is_starter
from kmha.course.judging.marking import Grade
from kmha.course.judging.pipeline import judge
from kmha.course.learner.progress import Record
from kmha.course.learner.workspace import Workspace
from kmha.sandbox.sandbox import Pool

SEEDS = 2**31


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        item: Exercise that was checked.
        grade: Grade of the answer.
        seed: Seed that draws the same inputs again.
        record: The learner's record for the exercise, including this check.
        is_starter: Whether the answer is still the starter.
        not_passed: Ids of the exercises that this answer uses and that are not passed yet.
        seconds: Duration of the check.
    """

    item: Item
    grade: Grade
    seed: int
    record: Record
    is_starter: bool = False
    not_passed: tuple[str, ...] = ()
    seconds: float = 0.0


def fresh_seed() -> int:
    """Draw a random seed for the inputs of a check."""
    return secrets.randbelow(SEEDS)


def check(
    item: Item,
    workspace: Workspace,
    pool: Pool,
    seed: int | None = None,
    *,
    confirm: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> CheckResult:
    """Check a learner's answer, and record the result unless the answer is still the starter.

    Args:
        item: The exercise.
        workspace: The learner's folder.
        pool: Pool of sandboxes.
        seed: Seed of the inputs. Default: a random seed.
        confirm: Whether an answer that passes with `seed` must also pass with another seed. Checking with the same seed
            again is faster, since the results of the solution and of the known wrong answers are cached.
        tell: Function that is called with each step.

    Raises:
        WorkspaceError: The answer cannot be read.
        BrokenExerciseError: The exercise's own solution does not run.
    """
    begin = time.monotonic()
    code, others = workspace.code(item), workspace.others(item)
    seed = fresh_seed() if seed is None else seed
    sandbox = pool.get(item.spec.uses)
    grade = judge(item, code, sandbox, seed=seed, files=others, tell=tell)
    if confirm and grade.passed:
        seed = fresh_seed()
        grade = judge(item, code, sandbox, seed=seed, files=others)
    unwritten = is_starter(code, item)
    progress = workspace.progress
    record = progress.record(item.id) if unwritten else progress.add_attempt(item.id, grade.points, grade.passed)
    records = progress.records()
    needed = [] if grade.passed else [other.id for other in item.needs if not records.get(other.id, Record()).passed]
    return CheckResult(item, grade, seed, record, unwritten, tuple(needed), time.monotonic() - begin)


def first_open(records: Mapping[str, Record], among: Iterable[Item] | None = None) -> Item | None:
    """Return the first exercise that is not passed."""
    exercises = items() if among is None else among
    return next((item for item in exercises if not records.get(item.id, Record()).passed), None)


def next_open(records: Mapping[str, Record], item: Item) -> Item | None:
    """Return the next exercise that is not passed. If all later ones are passed, begin again at the first."""
    exercises = list(items())
    indices = [index for index, each in enumerate(exercises) if each.id == item.id]
    after = exercises[indices[0] + 1 :] if indices else []
    return first_open(records, after) or first_open(records, exercises)
