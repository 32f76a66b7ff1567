"""`kmha course verify`, `release` and `grade`: verify the exercises, hand them out, and grade the answers."""

import contextlib
import itertools
import json
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kmha import atomic_files
from kmha.cli import common
from kmha.cli.common import screen
from kmha.cli.course_common import command, display_path, progress_bar
from kmha.course.classroom import grades, grading, listing, pages, submissions, verifying, workers
from kmha.course.classroom import gradescope as gradescoping
from kmha.course.classroom import release as releasing
from kmha.course.classroom.edits import Edit, with_full_points
from kmha.course.classroom.grading import GradedSubmission, GradingRun
from kmha.course.classroom.verifying import Problem
from kmha.course.exercises import content, extras
from kmha.course.exercises.content import Assignment, Item
from kmha.course.judging.rendering import count
from kmha.course.learner import checking
from kmha.sandbox import limits, readable
from kmha.sandbox.sandbox import Pool

RUN = "run.json"  # marks a folder of grades, and keeps the seed for the next run
RESULTS, STUDENTS, GRADESCOPE = "results", "students", "gradescope"
_OTHERS_WRITE, _OTHERS_ENTER = 0o022, 0o011  # permissions of everyone but the owner


class Verified(NamedTuple):
    """An exercise and its problems. `points` and `wrong` are 0 if the exercise cannot be read.

    `edits` are the small edits of its solution that get full points.
    """

    id: str
    points: int
    wrong: int
    seconds: float
    problems: tuple[Problem, ...]
    edits: tuple[Edit, ...]


@command
def verify(
    exercises: tuple[str, ...],
    *,
    jobs: int,
    seed: int,
    edits: int,
    notebooks: bool,
    write_readme: bool,
    json_file: Path | None,
) -> int:
    """Verify some exercises, or all exercises and their list. Return 1 if there is a problem."""
    if any(item.released for item in content.items()):
        raise click.ClickException("this is a released course. It has nothing to verify.")
    if write_readme:
        if exercises:
            raise click.UsageError("--write-readme lists all exercises, so do not name any.")
        screen().print(f"Wrote {escape(display_path(listing.write(content.root())))}.")
        return 0
    named = [item for name in exercises for item in content.find(name)]
    items = list(dict.fromkeys(named)) if exercises else list(content.items())
    out = screen()
    results, across = [], []
    longest = max((len(item.id) for item in items), default=0)
    with progress_bar("exercises", len(items)) as step:
        for verified in _verify_items(items, jobs, seed, edits):
            results.append(verified)
            _show_verified(out, verified, longest)
            step("exercises")
    for problem in _verify_across(items, not exercises, jobs if notebooks else 0):
        across.append(problem)
        out.print(Text(f"{problem.id}: {problem.message}", "red"), soft_wrap=True)
    _show_verified_total(out, results, len(across), seed)
    if json_file is not None:
        _write_verified(json_file, results, across, seed)
    return int(bool(across) or any(verified.problems for verified in results))


@command
def release(folder: Path, *, chosen: Sequence[str], form: str | None, seed: int | None, gradescope: bool) -> int:
    """Make a class's copy of the course."""
    assignments = _choose(chosen)
    seed = checking.fresh_seed() if seed is None else seed
    forms = (form,) if form else releasing.FORMS
    number = sum(len(assignment.items) for assignment in assignments)
    jobs = os.cpu_count() or 1
    with progress_bar("exercises", number) as step:
        releasing.release(folder, assignments, seed=seed, jobs=jobs, forms=forms, autograder=gradescope, progress=step)
    ids = ", ".join(each.id for each in assignments)
    click.echo(f"{folder}: {count(number, 'exercise')} of {ids}, as {' and '.join(forms)}.")
    if gradescope:
        click.echo(f"Upload {folder / gradescoping.NAME} as the autograder of a programming assignment in Gradescope.")
    return 0


@command
def grade(
    folder: Path,
    *,
    out: Path | None,
    chosen: Sequence[str],
    jobs: int | None,
    minutes: int | None,
    seed: int | None,
    unprotected: bool,
    json_file: Path | None,
) -> int:
    """Grade a folder of submissions, and write the results."""
    _check_protection(unprotected)
    for package in ("jinja2", "nbformat"):
        extras.load(package)
    assignments, everything = _choose(chosen), _choose(())
    collected = submissions.collect(folder, assignments)
    students = collected.students
    if not chosen:
        numbers = grading.handed_in(students, assignments)
        assignments = tuple(numbers)
        ids = ", ".join(f"{each.id} ({count(number, 'submission')})" for each, number in numbers.items())
        click.echo(f"Grading {ids}. Each counts for the whole class. To choose, use --assignment.", err=True)
    out = _grades_folder(out or folder.absolute().with_name(f"{folder.absolute().name}-grades"), folder)
    others = tuple(each for each in everything if each not in assignments)
    seed = _grading_seed(out, seed)
    _hide_access_times(assignments)
    jobs = jobs or len(limits.processors())
    run = GradingRun(assignments, out / RESULTS, seed, jobs, others=others, minutes=minutes, notes=collected.notes)
    try:
        with progress_bar("solutions, then submissions", len(run.items) + len(students)) as step:
            graded = grading.grade(students, run, step)
    except KeyboardInterrupt:
        click.echo("Stopped. Finished submissions are kept. Run the same command to resume.", err=True)
        return common.INTERRUPTED
    _write_grades(out, graded, run, collected.ignored)
    if json_file is not None:
        atomic_files.write_json(json_file, grades.as_json(graded, assignments, run.seed, collected.ignored))
    _show_grades(graded, assignments)
    for name, reason in collected.ignored.items():
        click.echo(f"Not graded: {name}: {reason}.", err=True)
    click.echo(f"Graded {count(len(graded), 'submission')}. Open {out / 'index.html'}; grades.csv is beside it.")
    return 0


def _choose(chosen: Sequence[str]) -> tuple[Assignment, ...]:
    """Return the named assignments, with their solutions. By default, return all assignments."""
    available = content.assignments(content.installed())
    unknown = [name for name in chosen if name not in {each.id for each in available}]
    if unknown:
        ids = ", ".join(each.id for each in available)
        raise click.BadParameter(
            f"there is no assignment {unknown[0]!r}. Expected one of {ids}.", param_hint="'--assignment'"
        )
    return tuple(each for each in available if not chosen or each.id in chosen)


def _verify_items(items: Sequence[Item], jobs: int, seed: int, edits: int) -> Iterator[Verified]:
    """Verify exercises in parallel, and yield the results in order. Each worker has its own sandboxes."""
    own, pools = threading.local(), []

    def work(item: Item) -> Verified:
        if not hasattr(own, "pool"):
            own.pool = workers.StoppablePool()
            pools.append(own.pool)
        return _verify_item(item, own.pool, seed, edits)

    executor = ThreadPoolExecutor(jobs)
    try:
        futures: list[Future[Verified]] = [executor.submit(work, item) for item in items]
        for future in futures:
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.stop()  # ends what still runs in it
            pool.close()


def _verify_item(item: Item, pool: Pool, seed: int, edits: int) -> Verified:
    begin, points, wrong = time.monotonic(), 0, 0
    passed: tuple[Edit, ...] = ()
    try:
        points, wrong = item.spec.points, len(item.spec.wrong)
        problems = tuple(verifying.verify(item, pool.get(item.spec.uses), seed))
        passed = tuple(with_full_points(item, pool.get(item.spec.uses), seed, edits))
    except Exception as error:  # the files of an exercise are code, and may raise anything
        problems = (Problem(item.id, f"it cannot be read: {type(error).__name__}: {error}"),)
    return Verified(item.id, points, wrong, time.monotonic() - begin, problems, passed)


def _verify_across(items: Sequence[Item], everything: bool, notebooks: int) -> Iterator[Problem]:
    """Yield the problems of the list of exercises, and of the assignments' notebooks.

    `notebooks` is the number of assignments whose notebooks run at a time, or 0 if none run.
    """
    if everything:
        yield from listing.verify(content.root())
    if notebooks:
        folders = {item.folder for item in items}
        wanted = [each for each in content.assignments(content.root()) if each.folder in folders]
        runs = {each.id: lambda _, each=each: [*verifying.verify_notebooks(each)] for each in wanted}
        with progress_bar("notebooks", len(wanted)) as step, workers.Workers(notebooks) as several:
            found = several.map(runs, step)
        yield from itertools.chain.from_iterable(found.values())


def _show_verified(out: Console, verified: Verified, longest: int) -> None:
    wrong = f"{verified.wrong:3d} wrong answer{'s' if verified.wrong != 1 else ' '}"
    numbers = f"{verified.points:4d} points  {wrong}  {verified.seconds:6.1f} s"
    problems = count(len(verified.problems), "problem")
    verdict = Text(problems, "red") if verified.problems else Text("ok", "green")
    out.print(Text.assemble(f"{verified.id:{longest}}  {numbers}  ", verdict), soft_wrap=True)
    for problem in verified.problems:
        out.print(Text(f"    {problem.message}"), soft_wrap=True)
    for edit in verified.edits:
        out.print(Text(f"    full points with line {edit.line} as: {edit.new}    # {edit.old}"), soft_wrap=True)


def _show_verified_total(out: Console, results: Sequence[Verified], across: int, seed: int) -> None:
    problems = across + sum(len(verified.problems) for verified in results)
    points, wrong = sum(verified.points for verified in results), sum(verified.wrong for verified in results)
    parts = count(len(results), "exercise"), count(points), count(wrong, "wrong answer")
    verdict = count(problems, "problem") if problems else "no problems"
    out.print(Text(f"\n{', '.join(parts)} (seed {seed}): {verdict}.", "bold red" if problems else "bold green"))


def _write_verified(path: Path, results: Sequence[Verified], across: Sequence[Problem], seed: int) -> None:
    def as_dicts(problems: Iterable[Problem]) -> list[dict[str, str]]:
        return [{"id": problem.id, "says": problem.message} for problem in problems]

    names = ("id", "points", "wrong", "seconds")
    exercises = [
        {name: getattr(verified, name) for name in names}
        | {"found": as_dicts(verified.problems), "edits": [edit._asdict() for edit in verified.edits]}
        for verified in results
    ]
    atomic_files.write_json(path, {"seed": seed, "exercises": exercises, "across": as_dicts(across)})


def _check_protection(unprotected: bool) -> None:
    missing = limits.missing()
    if missing and not unprotected:
        raise click.ClickException(
            f"this system cannot keep submitted code from {' or '.join(missing)}. Grade on Linux 5.13 or later, and "
            f"run: pip install 'kmha[course]'. If you trust every student, add --unprotected."
        )
    if missing:
        click.echo(f"Unprotected: nothing keeps submitted code from {' or '.join(missing)}.", err=True)


def _hide_access_times(assignments: Iterable[Assignment]) -> None:
    """Read installed files if tasks of one answer must not tell each other anything, not even by what they read."""
    apart = [item for each in assignments for item in each.items if any(check.apart for check in item.spec.checks)]
    if apart:
        with Console(stderr=True).status("reading installed files once, so that their access times tell nothing"):
            readable.read_once({use for item in apart for use in item.spec.uses})


def _grades_folder(out: Path, folder: Path) -> Path:
    """Make the folder for grades. It must be new, empty, or from an earlier run."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise click.UsageError("--out is inside the folder of submissions. Choose a folder outside it.")
    if not os.path.lexists(out):
        out.mkdir(0o700, parents=True)  # other users of a shared machine must not read grades
    elif os.name == "posix":
        _check_own(out)
    if any(out.iterdir()) and "version" not in _earlier_run(out):
        raise click.UsageError(f"{out} contains files other than grades. Choose another folder with --out.")
    return out


def _check_own(out: Path) -> None:
    """Refuse a folder into which someone else can have put results, or links to files that would be overwritten."""
    remedy = "Choose another folder with --out."
    if out.lstat().st_uid != os.getuid() or not out.is_dir() or out.stat().st_uid != os.getuid():
        raise click.UsageError(f"{out} is not a folder of yours, so its results could be someone else's. {remedy}")
    mode = stat.S_IMODE(out.stat().st_mode)
    out.chmod(mode & ~_OTHERS_WRITE)
    # Some file systems, such as exFAT, keep no permissions. Where only the owner can enter, the rest does not matter.
    modes_count = mode & _OTHERS_ENTER and not out.stat().st_mode & _OTHERS_WRITE
    for path in out.rglob("*"):
        entry = path.lstat()
        if entry.st_uid != os.getuid() or path.is_symlink():
            raise click.UsageError(f"{path} is a link or another user's, so it is not from a run of yours. {remedy}")
        if modes_count and entry.st_mode & _OTHERS_WRITE:
            raise click.UsageError(f"other users can write to {path}. Run `chmod -R go-w {out}` if you trust them.")


def _earlier_run(out: Path) -> dict[str, Any]:
    """Return what an earlier run kept in a folder of grades."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads((out / RUN).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _grading_seed(out: Path, seed: int | None) -> int:
    """Return the given seed, the seed of the run to resume, or a random seed. Save it for the next run."""
    if seed is None:
        kept = _earlier_run(out).get("seed")
        seed = kept if isinstance(kept, int) and kept >= 0 else None
    seed = checking.fresh_seed() if seed is None else seed
    atomic_files.write_json(out / RUN, {"version": grading.VERSION, "seed": seed})
    return seed


def _write_grades(
    out: Path, graded: Mapping[str, GradedSubmission], run: GradingRun, ignored: Mapping[str, str]
) -> None:
    """Write all files, and delete the files of students who are gone."""
    names = grading.file_names(graded)
    for folder in (STUDENTS, GRADESCOPE):
        (out / folder).mkdir(exist_ok=True)
        for path in (out / folder).iterdir():
            if path.stem not in names.values() and path.suffix in (".html", ".json"):
                path.unlink()
    for name, text in _texts(graded, names, run, ignored):
        atomic_files.write_text(out / name, text)


def _texts(
    graded: Mapping[str, GradedSubmission], names: Mapping[str, str], run: GradingRun, ignored: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file, one at a time: all pages of a class can be large."""
    assignments, seed = run.assignments, run.seed
    yield from pages.pages(graded, assignments, names, seed, ignored)
    yield "grades.csv", grades.as_csv(grades.student_points(graded, assignments), assignments)
    yield "grades.json", json.dumps(grades.as_json(graded, assignments, seed, ignored), indent=2) + "\n"
    for id, submission in graded.items():
        yield f"{GRADESCOPE}/{names[id]}.json", json.dumps(grades.gradescope(submission), indent=2) + "\n"


def _show_grades(graded: Mapping[str, GradedSubmission], assignments: Sequence[Assignment]) -> None:
    possible = grades.possible(assignments)
    students = grades.student_points(graded, assignments)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("student")
    for id, most in possible.items():
        table.add_column(f"{id}\nof {most}", justify="right")
    table.add_column(f"total\nof {sum(possible.values())}", justify="right")
    for student in students:
        table.add_row(Text(student.id), *map(str, student.of_assignments.values()), str(student.total))
    screen().print(table)
    for student in students:
        for note in student.notes:
            click.echo(f"{student.id}: {note}", err=True)
    failed = [id for id, submission in graded.items() if submission["failed"]]
    if failed:
        click.echo(f"The grader itself failed for {', '.join(failed)}. See their pages, and report it.", err=True)
