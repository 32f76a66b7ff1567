"""`kmha course release` and `kmha course grade`: hand the assignments out, and grade what comes back."""

from pathlib import Path
from typing import Any

import click

from kmha.cli.options import FOLDER, to_write

_ASSIGNMENT = click.option(
    "--assignment", "chosen", multiple=True, metavar="aN", help="Only this one; may be given several times."
)


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@_ASSIGNMENT
@click.option(
    "--form", "form", type=click.Choice(("files", "notebooks")), help="What learners work in. [default: both]"
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the inputs there. [default: drawn anew]")
def release(folder: Path, **options: Any) -> None:
    """Make the copy of the course that a class gets.

    DIR gets starters, texts and hints, as files and as notebooks with nbgrader's metadata, and for `kmha course check`
    the visible checks with what the solutions give: no solutions, no hidden checks, no wrong answers. In DIR, or a copy
    of it, all of `kmha course` works as ever.

    \b
    Examples:
      kmha course release class
      kmha course release week1 --assignment a1 --form notebooks
    """
    from kmha.cli import course_releasing

    raise SystemExit(course_releasing.run(folder, **options))


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=FOLDER, metavar="DIR", help="For grades and pages. [default: FOLDER-grades]")
@_ASSIGNMENT
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="At a time. [default: one for each processor]")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the inputs. [default: drawn, then kept]")
@click.option("--unprotected", is_flag=True, help="Grade where the system cannot keep code from doing harm.")
@to_write("--json", "json_file", "Write the grades there too.")
def grade(folder: Path, **options: Any) -> None:
    """Grade what a class handed in.

    FOLDER holds a folder, a .zip or a notebook for each student. Answers run one by one in processes of their own, with
    limits. DIR gets grades.csv, grades.json, index.html with the mistakes that are common, a page for each student in
    students/, and Gradescope's results in gradescope/. A run that was stopped goes on when the same command is given
    again; only what changed is graded anew. Without --assignment, those count that someone handed in.

    \b
    Examples:
      kmha course grade handed-in
      kmha course grade handed-in --assignment a1 --assignment a2 --out week1 --jobs 8
    """
    from kmha.cli import course_grading

    raise SystemExit(course_grading.run(folder, **options))
