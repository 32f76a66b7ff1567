"""`kmha course`: the assignments, for learners and for teachers.

Each command imports its implementation when it runs, so that `--help` is quick.
"""

from pathlib import Path
from typing import Any

import click

from kmha.cli.options import FOLDER, to_write

_EXERCISE = click.argument("exercise", metavar="[EXERCISE]", required=False)
_CHECK_SEED = click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the inputs. [default: random]"
)
_YES = click.option("--yes", is_flag=True, help="Skip the question.")
_ASSIGNMENTS = click.option(
    "--assignment", "chosen", multiple=True, metavar="aN", help="Only this assignment; repeat to choose several."
)


class _Group(click.Group):
    """A group whose help lists the learners' commands in the order of use, then the teachers'."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        teachers = ("verify", "release", "grade")
        learners = [name for name in self.commands if name not in teachers]
        for heading, names in (("Commands", learners), ("For teachers", teachers)):
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in names])


@click.group(cls=_Group, short_help="Learn attention: checked exercises.")
def course() -> None:
    """Learn attention by writing it: assignments that are checked on your own machine.

    Name an EXERCISE as `kmha course list` does, such as a1.cross_kv, or by its file. The name a1, or its folder, stands
    for the whole assignment. Without EXERCISE, you get the first exercise that you have not passed.

    \b
    Begin with:
      kmha course start
    """


@course.command()
@click.argument("folder", metavar="[DIR]", type=FOLDER, required=False)
@click.option("--notebooks", is_flag=True, help="Make a notebook per assignment instead of a file per exercise.")
def start(folder: Path | None, notebooks: bool) -> None:
    """Make a folder to work in, or restore its missing files.

    DIR defaults to kmha-course, or to your folder if you are inside it. No file is ever overwritten.
    """
    from kmha.cli import course_learner

    raise SystemExit(course_learner.start(folder, notebooks))


@course.command("list", short_help="List the exercises and show which you have passed.")
@click.argument("assignment", metavar="[ASSIGNMENT]", required=False)
def list_(assignment: str | None) -> None:
    """List the exercises with their points, minutes and difficulty, and show which you have passed.

    Name an ASSIGNMENT, such as a1, to list only its exercises.
    """
    from kmha.cli import course_learner

    raise SystemExit(course_learner.show_list(assignment))


@course.command(short_help="Check an answer and explain its mistake.")
@_EXERCISE
@_CHECK_SEED
@to_write("--json", "json_file", "Also write the results as JSON.")
def check(exercise: str | None, **options: Any) -> None:
    """Check an answer: show its points, the checks that fail, and the mistake behind them.

    Without EXERCISE, the first exercise that you have not passed is checked. Your code runs in a sandbox. Each check
    draws new inputs; use the printed seed to draw the same ones again. The exit status is 1 if an answer does not pass.

    \b
    Examples:
      kmha course check
      kmha course check a1.cross_kv
      kmha course check a1_k_and_v/cross_kv.py
      kmha course check a1 --json a1.json
    """
    from kmha.cli import course_checking

    raise SystemExit(course_checking.check(exercise, **options))


@course.command()
@_CHECK_SEED
def watch(**options: Any) -> None:
    """Check an answer every time you save it, until you press Ctrl-C."""
    from kmha.cli import course_checking

    raise SystemExit(course_checking.watch(**options))


@course.command()
@_EXERCISE
def hint(exercise: str | None) -> None:
    """Show the next of three hints and record that you saw it.

    Without EXERCISE, the hint is for the first exercise that you have not passed. Hints cost no points.
    """
    from kmha.cli import course_learner

    raise SystemExit(course_learner.hint(exercise))


@course.command()
def progress() -> None:
    """Show how far you are."""
    from kmha.cli import course_learner

    raise SystemExit(course_learner.show_progress())


@course.command()
@_EXERCISE
@_YES
def solution(exercise: str | None, yes: bool) -> None:
    """Show the solution of an exercise.

    Without EXERCISE, show the one that you passed last. If you have not passed it, the command asks first and records
    that you saw the solution.
    """
    from kmha.cli import course_learner

    raise SystemExit(course_learner.solution(exercise, yes))


@course.command()
@click.argument("exercise", metavar="EXERCISE")
@_YES
def reset(exercise: str, yes: bool) -> None:
    """Restore the starter and keep a copy of your answer."""
    from kmha.cli import course_learner

    raise SystemExit(course_learner.reset(exercise, yes))


@course.command()
@click.argument("exercises", metavar="[EXERCISE]...", nargs=-1)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Exercises verified at a time.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Seed of the inputs."
)
@click.option(
    "--edits",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also try N small edits of each solution, and list those that get full points.",
)
@click.option("--notebooks", is_flag=True, help="Also run the notebooks of the assignments; this takes minutes.")
@click.option("--write-readme", is_flag=True, help="Only write assignments/README.md, the list of all exercises.")
@to_write("--json", "json_file", "Also write the results as JSON.")
def verify(exercises: tuple[str, ...], **options: Any) -> None:
    """Verify that the exercises and their checks work.

    Every starter must score zero, and every solution must score full marks. Every known wrong answer must lose points,
    and its mistake must be identified. No hint may contain a line of the solution, and copied numbers must not pass
    with another seed. Without EXERCISE, all exercises are verified, and assignments/README.md must list them. The exit
    status is 1 if there is a problem.

    An edit of a solution that gets full points is no problem if it computes the same. Otherwise the checks do not vary
    what it changes. FROZEN stands for a value that stays as it was in the first call.
    """
    from kmha.cli import course_teacher

    raise SystemExit(course_teacher.verify(exercises, **options))


@course.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@_ASSIGNMENTS
@click.option(
    "--form", "form", type=click.Choice(("files", "notebooks")), help="What learners work in. [default: both]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the inputs in the copy. [default: random]"
)
@click.option("--gradescope", is_flag=True, help="Also write gradescope.zip, an autograder for Gradescope.")
def release(folder: Path, **options: Any) -> None:
    """Make a copy of the course for a class.

    DIR receives the texts, starters and hints, as files and as notebooks with nbgrader's metadata. For `kmha course
    check`, it also receives the visible checks and the results that they expect, and the names of known mistakes in a
    form that cannot be read. It contains no solutions, hidden checks or wrong answers. The other `kmha course` commands
    work in DIR and in copies of it.

    \b
    Examples:
      kmha course release class
      kmha course release week1 --assignment a1 --form notebooks
      kmha course release week1 --assignment a1 --gradescope
    """
    from kmha.cli import course_teacher

    raise SystemExit(course_teacher.release(folder, **options))


@course.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=FOLDER, metavar="DIR", help="Folder for grades and pages. [default: FOLDER-grades]")
@_ASSIGNMENTS
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Submissions at a time, at most one per processor. [default: one per processor]",
)
@click.option(
    "--minutes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop running the answers of a submission N minutes after beginning to read it. [default: 10, or 5 times as "
    "long as the solutions take if that is more]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the inputs. [default: random, then kept]"
)
@click.option("--unprotected", is_flag=True, help="Grade even if this system cannot keep code from doing harm.")
@to_write("--json", "json_file", "Also write the grades here.")
def grade(folder: Path, **options: Any) -> None:
    """Grade the submissions of a class.

    FOLDER holds a folder, an archive or a notebook for each student, or the files of a download from Moodle, Canvas or
    Gradescope. First the solutions run in the sandbox, and if one fails, nothing is graded. Then each answer runs
    there. Each entry of FOLDER is graded, or listed with the reason why not. The results go to DIR:

    \b
      grades.csv, grades.json   points of each student
      index.html                the class, and its common mistakes
      students/                 a page for each student
      gradescope/               results for Gradescope

    If a run is interrupted, run the same command to resume it. Only changed submissions are graded again. By default,
    an assignment counts if anyone handed in an answer to it.

    \b
    Examples:
      kmha course grade handed-in
      kmha course grade handed-in --assignment a1 --assignment a2 --out week1 --jobs 8
    """
    from kmha.cli import course_teacher

    raise SystemExit(course_teacher.grade(folder, **options))
