"""Release a class's copy of the assignments, without solutions or hidden checks.

```
README.md           how to work in the copy
files/              a learner's folder with a file for each exercise
notebooks/          a learner's folder with a notebook for each assignment
gradescope.zip      Gradescope's autograder, on request
```

Each of the two folders has a `.checks`, which `kmha course` reads instead of the assignments
(`kmha.course.judging.released`). All other files are made from `.checks`, so learners get nothing that is not in it.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kmha import atomic_files
from kmha.course.classroom import gradescope
from kmha.course.classroom.workers import Workers
from kmha.course.errors import CourseError
from kmha.course.exercises import content, extras, handout
from kmha.course.exercises.content import RELEASED_FOLDER, RELEASED_SUFFIX, Assignment, Item, ReleasedItem
from kmha.course.judging import released, rendering
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import BrokenExerciseError, needed_solutions
from kmha.sandbox.sandbox import Pool

FORMS = (handout.FILES, handout.NOTEBOOKS)


class ReleaseError(CourseError, ValueError):
    """The course cannot be released to this folder."""


def release(
    folder: Path,
    assignments: Sequence[Assignment],
    *,
    seed: int,
    jobs: int = 1,
    forms: Sequence[str] = FORMS,
    autograder: bool = False,
    progress: Callable[[str], None] = lambda id: None,
) -> None:
    """Make the copy, completely or not at all.

    Args:
        folder: Path of the copy. An existing folder must be empty.
        assignments: Assignments to release, with their solutions.
        seed: Seed of the inputs in the copy.
        jobs: Number of exercises that are written at a time.
        forms: `handout.FILES`, `handout.NOTEBOOKS`, or both.
        autograder: Whether to write Gradescope's autograder too.
        progress: Function called with the id of each exercise that is written.

    Raises:
        ReleaseError: The folder is in use, or the assignments are themselves a released course.
        BrokenExerciseError: A solution fails the checks that learners get.
        MissingPackageError: nbformat is not installed.
    """
    folder = folder.resolve()
    _check_free(folder)
    if any(item.released for assignment in assignments for item in assignment.items):
        raise ReleaseError("this is already a released course, without solutions. Release from kmha's own assignments.")
    if handout.NOTEBOOKS in forms:
        extras.load("nbformat")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = atomic_files.folder_beside(folder)
    try:
        kept = beside / RELEASED_FOLDER
        items = {item: kept / assignment.folder.name for assignment in assignments for item in assignment.items}
        for assignment in assignments:
            (kept / assignment.folder.name).mkdir(parents=True)
            for name in ("assignment.toml", "README.md"):
                shutil.copyfile(assignment.folder / name, kept / assignment.folder.name / name)
        with Workers(jobs) as workers:
            workers.map({item.id: partial(_write, item, path, seed) for item, path in items.items()}, progress)
            # An exercise may need others of its assignment, so all records are written before one is read.
            workers.map({item.id: partial(_check, item, path, seed) for item, path in items.items()}, lambda id: None)
        for form in forms:
            shutil.copytree(kept, beside / form / RELEASED_FOLDER)
            handout.write_missing(beside / form, form, content.assignments(beside / form / RELEASED_FOLDER))
        atomic_files.write_text(beside / "README.md", _readme(content.assignments(kept), forms))
        if autograder:
            atomic_files.write_bytes(beside / gradescope.NAME, gradescope.archive(assignments))
        shutil.rmtree(kept)
        os.replace(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _check_free(folder: Path) -> None:
    """Check, before the long work, that the copy can replace the folder at the end."""
    remedy = "Name a new folder."
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReleaseError(f"{folder} is not empty. {remedy}")
    if folder == Path.cwd():
        raise ReleaseError(f"{folder} is the current folder. {remedy}")
    if folder.is_mount():
        raise ReleaseError(f"{folder} is a mount point and cannot be replaced. {remedy}")


def _write(item: Item, folder: Path, seed: int, pool: Pool) -> None:
    released.write(item, folder / f"{item.name}{RELEASED_SUFFIX}", pool.get(item.spec.uses), seed)


def _check(item: Item, folder: Path, seed: int, pool: Pool) -> None:
    copy = ReleasedItem(item.assignment, item.name, folder)
    if copy.spec.checks:
        sandbox, files = pool.get(item.spec.uses), needed_solutions(item)
        grade = judge(copy, item.master.solution, sandbox, seed=seed, files=files, explained=False)
        if not grade.passed:
            reason = rendering.failure(grade)
            raise BrokenExerciseError(f"{item.id}: its solution fails a check that learners get: {reason}")


def _readme(assignments: Sequence[Assignment], forms: Sequence[str]) -> str:
    rows = []
    for assignment in assignments:
        points = sum(item.all_points for item in assignment.items if isinstance(item, ReleasedItem))
        rows.append(
            f"| {assignment.id} | {assignment.title} | {len(assignment.items)} | {assignment.minutes} | {points} |"
        )
    where = " or ".join(f"`{form}`" for form in forms)
    return _README.format(where=where, first=forms[0], rows="\n".join(rows))


_README = """# The assignments

| | topic | exercises | minutes | points |
| --- | --- | --- | --- | --- |
{rows}

Install kmha once: `pip install 'kmha[course]'`. Then work in {where}. `kmha course` keeps your
progress there.

```
cd {first}
kmha course list      # list all exercises and show which you have passed
kmha course check     # check the first exercise that you have not passed, or name one
kmha course hint      # get a hint; each exercise has three
```

In a notebook, run the cell below an exercise to check it. Your answer is what the cells of the notebook define.

The checks here always use the same inputs. Grading uses other inputs and may add checks, so your points can differ.
Hand in the folder as a .zip, or hand in the notebooks.
"""
