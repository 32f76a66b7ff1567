"""`kmha course`: the assignments, for who works through them and for who hands them out."""

from pathlib import Path
from typing import Any

import click

from kmha.cli import teaching
from kmha.cli.options import FOLDER, to_write

_EXERCISE = click.argument("exercise", metavar="[EXERCISE]", required=False)
_SEED = click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Of the inputs. [default: drawn anew]")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")


class _Group(click.Group):
    """Its help lists what learners need first, in the order in which they need it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes two lists."""
        teachers = ("verify", "release", "grade")
        learners = [name for name in self.commands if name not in teachers]
        for heading, names in (("Commands", learners), ("For teachers", teachers)):
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in names])


@click.group(cls=_Group)
def course() -> None:
    """Learn attention by writing it: assignments that are checked on your own machine.

    An EXERCISE is named as `kmha course list` names it, a1.cross_kv, or by its file; a1, or the folder, is all of an
    assignment. Without one, it is the first that is not passed yet.

    \b
    Begin with:
      kmha course start
    """


@course.command()
@click.argument("folder", metavar="[DIR]", type=FOLDER, required=False)
@click.option("--notebooks", is_flag=True, help="A notebook for each assignment, not a file for each exercise.")
def start(folder: Path | None, notebooks: bool) -> None:
    """Make a folder to work in, or add what is missing to one.

    DIR is kmha-course, or, within such a folder, that one. Nothing in it is overwritten.
    """
    from kmha.cli import course_learning

    raise SystemExit(course_learning.start(folder, notebooks))


@course.command("list", short_help="List the exercises, and which are passed.")
@click.argument("assignment", metavar="[ASSIGNMENT]", required=False)
def list_(assignment: str | None) -> None:
    """List the exercises: points, minutes, difficulty, and which are passed.

    ASSIGNMENT is a1, for example; without it, all are listed.
    """
    from kmha.cli import course_learning

    raise SystemExit(course_learning.show_list(assignment))


@course.command(short_help="Check an answer, and say what is wrong.")
@_EXERCISE
@_SEED
@to_write("--json", "json_file", "Write there too what came out.")
def check(exercise: str | None, **options: Any) -> None:
    """Check an answer: its points, what is wrong, and which mistake that is.

    It runs in a process of its own, with limits. Inputs are drawn anew each time; the seed that is printed repeats
    them. The exit status is 1 if it is not passed.

    \b
    Examples:
      kmha course check
      kmha course check a1.cross_kv
      kmha course check a1_k_and_v/cross_kv.py
      kmha course check a1 --json a1.json
    """
    from kmha.cli import course_checking

    raise SystemExit(course_checking.run(exercise, **options))


@course.command()
@_SEED
def watch(**options: Any) -> None:
    """Check an answer whenever it is saved, until Ctrl-C."""
    from kmha.cli import course_watching

    raise SystemExit(course_watching.run(**options))


@course.command()
@_EXERCISE
def hint(exercise: str | None) -> None:
    """Show the next of three hints; how many were taken is noted."""
    from kmha.cli import course_learning

    raise SystemExit(course_learning.hint(exercise))


@course.command()
def progress() -> None:
    """Show how far you are."""
    from kmha.cli import course_learning

    raise SystemExit(course_learning.show_progress())


@course.command()
@_EXERCISE
@_YES
def solution(exercise: str | None, yes: bool) -> None:
    """Show the solution of an exercise.

    Without EXERCISE, of the one that was passed last. Before it is passed, it is noted that it was asked for.
    """
    from kmha.cli import course_learning

    raise SystemExit(course_learning.solution(exercise, yes))


@course.command()
@click.argument("exercise", metavar="EXERCISE")
@_YES
def reset(exercise: str, yes: bool) -> None:
    """Begin an exercise again; what you wrote is kept in a copy."""
    from kmha.cli import course_learning

    raise SystemExit(course_learning.reset(exercise, yes))


@course.command()
@click.argument("exercises", metavar="[EXERCISE]...", nargs=-1)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Exercises at once.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Of the inputs.")
@click.option("--notebooks", is_flag=True, help="Run the assignments' notebooks too, in a kernel each: minutes.")
@click.option("--write-readme", is_flag=True, help="Write assignments/README.md, which lists all exercises.")
@to_write("--json", "json_file", "Write there too what was found.")
def verify(exercises: tuple[str, ...], **options: Any) -> None:
    """Verify the exercises themselves.

    Every starter must fail, every solution must get all points, every wrong answer that is known must lose points and
    be named, no hint may hold the solution. Without EXERCISE, all are verified, and assignments/README.md must list
    them. The exit status is 1 if anything is found.
    """
    from kmha.cli import course_verifying

    raise SystemExit(course_verifying.run(exercises, **options))


course.add_command(teaching.release)
course.add_command(teaching.grade)
