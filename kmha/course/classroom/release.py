"""A class's own copy of the assignments: what learners get, and nothing else.

```
README.md           how to work in it
files/              a learner's folder with a file for each exercise
notebooks/          the same with a notebook for each assignment
```

Each of the two has `.checks`, from which `kmha course` takes what it would otherwise take from the assignments
(`kmha.course.judging.released`), and all else in it is made from `.checks`: what is not there cannot be
in a learner's hands.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from kmha import files
from kmha.course.errors import CourseError
from kmha.course.exercises import content, extras, handout
from kmha.course.exercises.content import BAKED, KEPT, Assignment, Item
from kmha.course.judging import released
from kmha.course.judging.released import Baked
from kmha.course.judging.running import BrokenExerciseError, solutions_needed
from kmha.sandbox.pool import Pool

FORMS = (handout.FILES, handout.NOTEBOOKS)


class ReleaseError(CourseError, ValueError):
    """The course cannot be released there."""


def release(
    folder: Path,
    assignments: Sequence[Assignment],
    pool: Pool,
    *,
    seed: int,
    forms: Sequence[str] = FORMS,
    progress: Callable[[Item], None] = lambda item: None,
) -> None:
    """Makes the folder, whole or not at all.

    Args:
        folder: to make; it may exist, if it is empty.
        assignments: that learners get, with their solutions.
        pool: of sandboxes, in which the solutions are run.
        seed: of the inputs that learners' answers are checked with.
        forms: `handout.FILES`, `handout.NOTEBOOKS`, or both.
        progress: called before each exercise.

    Raises:
        ReleaseError: the folder is in use, or the assignments are a released course themselves.
        BrokenExerciseError: a solution does not pass the checks that learners get.
        MissingPackageError: what notebooks need is not installed.
    """
    folder = folder.resolve()
    _check_free(folder)
    if any(isinstance(item, Baked) for assignment in assignments for item in assignment.items):
        raise ReleaseError("this is a released course, without solutions: it cannot be released again.")
    if handout.NOTEBOOKS in forms:
        extras.load("nbformat")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = files.folder_beside(folder)
    try:
        kept = beside / KEPT
        for assignment in assignments:
            _bake(kept / assignment.folder.name, assignment, pool, seed, progress)
        for form in forms:
            shutil.copytree(kept, beside / form / KEPT)
            handout.write_missing(beside / form, form, content.assignments(beside / form / KEPT))
        files.write_text(beside / "README.md", _readme(content.assignments(kept), forms))
        shutil.rmtree(kept)
        os.replace(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _check_free(folder: Path) -> None:
    """Before all the work, for what is made takes the folder's place at the end."""
    yet = "name a folder that is yet to be made."
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReleaseError(f"{folder} is not empty: {yet}")
    if folder == Path.cwd():
        raise ReleaseError(f"{folder} is the folder that you are in: {yet}")
    if folder.is_mount():
        raise ReleaseError(f"{folder} is where a disk is mounted, and cannot be replaced: {yet}")


def _bake(folder: Path, assignment: Assignment, pool: Pool, seed: int, progress: Callable[[Item], None]) -> None:
    folder.mkdir(parents=True)
    for name in ("assignment.toml", "README.md"):
        shutil.copyfile(assignment.folder / name, folder / name)
    for item in assignment.items:
        progress(item)
        path = folder / f"{item.name}{BAKED}"
        sandbox = pool.of(item.spec.uses)
        released.bake(item, path, sandbox, seed)
        left = Baked(item.assignment, item.name, folder)
        if left.spec.checks:
            grade = released.judge(left, item.master.solution, sandbox, more=solutions_needed(item))
            if not grade.passed:
                raise BrokenExerciseError(f"{item.id}: its solution fails the checks that learners get: {grade}")


def _readme(assignments: Sequence[Assignment], forms: Sequence[str]) -> str:
    rows = []
    for assignment in assignments:
        minutes = sum(item.spec.minutes for item in assignment.items)
        points = sum(item.all_points for item in assignment.items if isinstance(item, Baked))
        rows.append(f"| {assignment.id} | {assignment.title} | {len(assignment.items)} | {minutes} | {points} |")
    where = " or ".join(f"`{form}`" for form in forms)
    return _README.format(where=where, first=forms[0], rows="\n".join(rows))


_README = """# The assignments

| | about | exercises | minutes | points |
| --- | --- | --- | --- | --- |
{rows}

Install what they are written with, once: `pip install 'kmha[course]'`. Then work in {where}: that folder is
yours, and `kmha course` knows in it what is next.

```
cd {first}
kmha course list      # the exercises, and which are passed
kmha course check     # check the first that is not passed; or name one
kmha course hint      # a hint; there are three for each
```

In a notebook, run the cell below an exercise. Its answer is what the cells of the notebook define.

The checks here look at inputs that stay the same. When your answers are graded, the inputs are others, and there may
be more checks, so that it need not be the same points. Hand in the folder, as a .zip, or the notebooks.
"""
