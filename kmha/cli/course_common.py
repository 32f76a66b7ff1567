"""What the commands of `kmha course` share: the folder, the exercise that is meant, and errors in a line."""

import contextlib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kmha.cli import common
from kmha.course.errors import CourseError
from kmha.sandbox.errors import SandboxError

if TYPE_CHECKING:
    from kmha.course.exercises.content import Item
    from kmha.course.learner.workspace import Workspace


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Errors that a user can mend are said in one line, and Ctrl-C ends with its own exit status."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> int:
        try:
            return function(*arguments, **options)
        except (CourseError, SandboxError) as error:
            raise click.ClickException(str(error)) from None
        except (KeyboardInterrupt, click.Abort):
            click.echo("Stopped; what was noted is kept.", err=True)
            return common.INTERRUPTED

    return run


@contextlib.contextmanager
def bar(what: str, count: int) -> Iterator[Callable[[str], Any]]:
    """A bar on standard error; a call tells what is next, or done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=count)
        yield lambda id: shown.advance(task)


def workspace() -> "Workspace":
    """The learner's folder that one is in.

    Raises:
        click.ClickException: one is in none.
    """
    from kmha.course.learner import workspace

    found = workspace.find(Path.cwd())
    if found is None:
        raise click.ClickException("here is no kmha-course folder: run `kmha course start`, or cd into it.")
    return found


def named(exercise: str, folder: "Workspace") -> "tuple[Item, ...]":
    """The exercises that a name or a path stands for.

    Raises:
        click.ClickException: it is the path of something outside of the learner's folder: another answer is there.
    """
    from kmha.course.exercises import content

    found = content.find(exercise)
    path = Path(exercise).resolve()
    if path.exists() and not path.is_relative_to(folder.root.resolve()):
        raise click.ClickException(f"{exercise} is not in {folder.root}: cd into the folder that it is in.")
    return found


def agreed(question: str) -> bool:
    """Whether the answer is yes; where nobody can answer, it is no, and that is said."""
    try:
        return click.confirm(question)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):  # Ctrl-C
            raise
        click.echo("\nNo answer means no; --yes answers beforehand.", err=True)
        return False


def meant(exercise: str | None, folder: "Workspace") -> "Item":
    """The one exercise that is named, or the first that is not passed.

    Raises:
        click.ClickException: the name is that of several, or all are passed.
    """
    from kmha.course.learner import checking

    if exercise is None:
        found = checking.first_open(folder.progress.records())
        if found is None:
            raise click.ClickException("all exercises are passed. Name one, such as a1.cross_kv.")
        return found
    several = named(exercise, folder)
    if len(several) > 1:
        ids = ", ".join(item.id for item in several)
        raise click.ClickException(f"{exercise!r} is {len(several)} exercises: name one of {ids}.")
    return several[0]
