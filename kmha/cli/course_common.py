"""Helpers of the `kmha course` commands: error reporting, the learner's folder, and the choice of an exercise."""

import contextlib
import os
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
    """Make a command report expected errors in one line and Ctrl-C by its exit status."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> int:
        try:
            return function(*arguments, **options)
        except (CourseError, SandboxError) as error:
            raise click.ClickException(str(error)) from None
        except (KeyboardInterrupt, click.Abort):
            click.echo("Stopped. Everything recorded so far is kept.", err=True)
            return common.INTERRUPTED

    return run


@contextlib.contextmanager
def progress_bar(description: str, count: int) -> Iterator[Callable[[str], Any]]:
    """Show a progress bar on standard error, and yield a function that advances it by one."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(description, total=count)
        yield lambda id: display.advance(task)


def workspace() -> "Workspace":
    """Return the learner's folder that contains the current folder, or raise a `click.ClickException`."""
    from kmha.course.learner import workspace

    found = workspace.find(Path.cwd())
    if found is None:
        raise click.ClickException(
            "you are not in a kmha-course folder. Run `kmha course start` to make one, or cd into yours."
        )
    return found


def find_items(exercise: str, folder: "Workspace") -> "tuple[Item, ...]":
    """Return the exercises that a name, or a path in the learner's folder, stands for."""
    from kmha.course.exercises import content

    found = content.find(exercise)
    path = Path(exercise).resolve()
    if path.exists() and not path.is_relative_to(folder.root.resolve()):
        raise click.ClickException(f"{exercise} is not in {folder.root}. First cd into the folder that holds it.")
    return found


def find_item(exercise: str | None, folder: "Workspace") -> "Item":
    """Return the one exercise that a name stands for, or the first exercise that is not passed."""
    from kmha.course.learner import checking

    if exercise is None:
        found = checking.first_open(folder.progress.records())
        if found is None:
            raise click.ClickException("you have passed all exercises. Name one, such as a1.cross_kv.")
        return found
    several = find_items(exercise, folder)
    if len(several) > 1:
        ids = ", ".join(item.id for item in several)
        raise click.ClickException(f"{exercise!r} matches {len(several)} exercises. Name one of {ids}.")
    return several[0]


def confirm(question: str) -> bool:
    """Ask a yes-or-no question. If nobody can answer, say so and return False."""
    try:
        return click.confirm(question)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):  # Ctrl-C
            raise
        click.echo("\nNo answer was given, so nothing was done. Use --yes to skip the question.", err=True)
        return False


def display_path(path: Path) -> str:
    """Return a path for display, relative to the current folder if it is inside it."""
    path, here = path.absolute(), Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
