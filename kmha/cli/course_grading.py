"""`kmha course grade`: grades a folder of submissions, and writes what came of it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from kmha import files
from kmha.cli import common
from kmha.cli.common import screen
from kmha.cli.course_common import bar, command
from kmha.cli.course_releasing import choose
from kmha.course.classroom import grades, grading, pages, submissions
from kmha.course.classroom.grades import Row
from kmha.course.classroom.grading import Record, Run
from kmha.course.exercises import extras
from kmha.course.exercises.content import Assignment
from kmha.course.learner import checking
from kmha.sandbox import limits

RUN = "run.json"  # what a run that goes on must have in common with what it goes on with
RESULTS, STUDENTS, GRADESCOPE = "results", "students", "gradescope"


@command
def run(
    folder: Path,
    *,
    out: Path | None,
    chosen: Sequence[str],
    jobs: int | None,
    seed: int | None,
    unprotected: bool,
    json_file: Path | None,
) -> int:
    """Grades; returns the exit status."""
    _protected(unprotected)
    for package in ("jinja2", "nbformat", "jupytext"):
        extras.load(package)
    places = submissions.places(folder)
    every = choose(chosen)
    assignments = every if chosen else grading.handed_in(places, every)
    out = _out(out or folder.absolute().with_name(f"{folder.absolute().name}-grades"), folder)
    how = Run(assignments, out / RESULTS, _seed(out, seed), jobs or os.cpu_count() or 1)
    try:
        with bar("submissions", len(places)) as step:
            records = grading.grade(places, how, step)
    except KeyboardInterrupt:
        click.echo("Stopped. What is graded is kept: the same command goes on.", err=True)
        return common.INTERRUPTED
    _write(out, records, assignments, how.seed)
    if json_file is not None:
        files.write_json(json_file, grades.as_json(records, assignments, how.seed))
    _show(records, assignments, out)
    return 0


def _protected(unprotected: bool) -> None:
    missing = limits.missing()
    if missing and not unprotected:
        raise click.ClickException(
            f"this system does not keep the code that was handed in from {' or '.join(missing)}. Grade on Linux 5.13 "
            "or later with: pip install 'kmha[course]'. Or, if you trust everyone, add --unprotected."
        )
    if missing:
        click.echo(f"Unprotected: nothing keeps the code from {' or '.join(missing)}.", err=True)


def _out(out: Path, folder: Path) -> Path:
    """The folder for results: new, empty, or of an earlier run."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise click.UsageError("--out lies within the folder of submissions: choose one beside it.")
    if out.is_dir() and any(out.iterdir()) and not (out / RUN).is_file():
        raise click.UsageError(f"{out} holds something else than grades: choose another folder with --out.")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _seed(out: Path, seed: int | None) -> int:
    """The one given, or that of the run that this one goes on with, or a new one."""
    if seed is None:
        try:
            kept = json.loads((out / RUN).read_text(encoding="utf-8"))["seed"]
            seed = kept if isinstance(kept, int) else None
        except (OSError, ValueError, KeyError, TypeError):
            seed = None
    seed = checking.fresh_seed() if seed is None else seed
    files.write_json(out / RUN, {"version": grading.VERSION, "seed": seed})
    return seed


def _write(out: Path, records: Mapping[str, Record], assignments: Sequence[Assignment], seed: int) -> None:
    """All files; those of students who are no longer there go."""
    names = grading.file_names(records)
    texts = pages.pages(records, assignments, names, seed)
    texts["grades.csv"] = grades.as_csv(grades.rows(records, assignments), assignments)
    texts["grades.json"] = json.dumps(grades.as_json(records, assignments, seed), indent=2) + "\n"
    for id, record in records.items():
        texts[f"{GRADESCOPE}/{names[id]}.json"] = json.dumps(grades.gradescope(record), indent=2) + "\n"
    for name in (STUDENTS, GRADESCOPE):
        (out / name).mkdir(exist_ok=True)
        for path in (out / name).iterdir():
            if f"{name}/{path.name}" not in texts and path.suffix in (".html", ".json"):
                path.unlink()
    for name, text in texts.items():
        files.write_text(out / name, text)


def _show(records: Mapping[str, Record], assignments: Sequence[Assignment], out: Path) -> None:
    possible = grades.possible(assignments)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("student")
    for id, most in possible.items():
        table.add_column(f"{id}\nof {most}", justify="right")
    table.add_column(f"total\nof {sum(possible.values())}", justify="right")
    for row in grades.rows(records, assignments):
        table.add_row(Text(row.student), *map(str, row.of_assignments.values()), str(row.total))
    screen().print(table)
    for row in grades.rows(records, assignments):
        _notes(row)
    failed = [id for id, record in records.items() if record["failed"]]
    if failed:
        click.echo(
            f"The grader itself failed for {', '.join(failed)}: the pages say where. Please report it.", err=True
        )
    click.echo(f"{len(records)} submissions. Pages, grades.csv and more: {out / 'index.html'}")


def _notes(row: Row) -> None:
    for note in row.notes:
        click.echo(f"{row.student}: {note}", err=True)
