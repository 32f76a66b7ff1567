"""`kmha course start`, `list`, `hint`, `progress`, `solution` and `reset`."""

import os
import sys
from pathlib import Path

import click
from rich.markdown import Markdown
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kmha.cli import course_common
from kmha.cli.common import screen
from kmha.cli.course_common import agreed, command, meant
from kmha.course.exercises import content, handout
from kmha.course.exercises.content import Item
from kmha.course.judging.rendering import count
from kmha.course.learner import checking, workspace
from kmha.course.learner.progress import Progress, Record

FOLDER = Path("kmha-course")
BAR = 24  # characters


@command
def start(folder: Path | None, notebooks: bool) -> int:
    """Makes a learner's folder, and says what to do next."""
    here = workspace.find(Path.cwd())
    place = folder or (here.root if here else FOLDER)
    form = handout.NOTEBOOKS if notebooks else None
    try:
        around = workspace.find(place.resolve())
        if around is not None and around.root != place.resolve():
            raise click.ClickException(
                f"{shown(place)} would lie within {around.root}, which is such a folder already."
            )
        made, added = workspace.start(place, content.assignments(content.root()), form)
    except OSError as error:
        raise click.ClickException(f"{error.filename or place}: {error.strerror}.") from None
    every = list(content.items())
    out = screen()
    item = checking.first_open(made.progress.records())
    if not added:
        following = f"Next: {_next(item, made)}" if item else "All exercises are passed."
        out.print(escape(f"{shown(made.root)}: nothing was missing. {following}"), soft_wrap=True)
        return 0
    out.print(
        f"[bold]{escape(shown(made.root))}[/]: {count(len(every), 'exercise')}, "
        f"{count(sum(item.spec.points for item in every))}, about {_hours(sum(item.spec.minutes for item in every))}. "
        f"{count(len(added), 'file')} added; nothing was overwritten."
    )
    if item is None:
        out.print("All exercises are passed.")
        return 0
    out.print(f"\nBegin with [bold]{escape(shown(made.path(item)))}[/]: {escape(item.spec.title)}, {_size(item)}.")
    out.print("Open it in your editor, read the text, and write what is missing. Then:\n")
    if not Path.cwd().is_relative_to(made.root.resolve()):
        out.print(f"  cd {escape(shown(made.root))}", soft_wrap=True)
    out.print("  kmha course check    [dim]checks it: points, what is wrong, and why[/]")
    out.print("  kmha course watch    [dim]checks it whenever you save[/]")
    out.print("  kmha course hint     [dim]helps when you are stuck, three times[/]")
    return 0


@command
def show_list(assignment: str | None) -> int:
    """The exercises of an assignment, or all, with their state where there is a learner's folder."""
    here = workspace.find(Path.cwd())
    records = here.progress.records() if here else {}
    out = screen()
    named = {item.assignment for item in content.find(assignment)} if assignment else None
    longest = max(len(item.id) for item in content.items())
    for each in content.assignments(content.root()):
        if named is not None and each.id not in named:
            continue
        out.print(f"[bold]{each.id}  {escape(each.title)}[/]")
        table = Table(box=None, padding=(0, 1))
        table.add_column("exercise", no_wrap=True, min_width=longest)
        table.add_column("points", no_wrap=True, justify="right")
        table.add_column("minutes", no_wrap=True, justify="right")
        table.add_column("difficulty", no_wrap=True)
        table.add_column("state", no_wrap=True, min_width=18)
        table.add_column("title", overflow="fold")
        for item in each.items:
            record = records.get(item.id, Record())
            numbers = (str(item.spec.points), str(item.spec.minutes), "*" * item.spec.difficulty)
            table.add_row(item.id, *numbers, _state(item, record), escape(item.spec.title))
        out.print(table)
        out.print()
    if here is None:
        out.print("To work on them: kmha course start")
    return 0


@command
def show_progress() -> int:
    """A bar for every assignment."""
    folder = course_common.workspace()
    records = folder.progress.records()
    out = screen()
    table = Table(box=None, padding=(0, 1), show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    every: list[Item] = []
    for assignment in content.assignments(content.root()):
        table.add_row(*_row(f"{assignment.id} {assignment.title}", assignment.items, records))
        every.extend(assignment.items)
    table.add_row(*_row("all", every, records))
    out.print(table)
    hints = sum(record.hints for record in records.values())
    solutions = sum(record.solution for record in records.values())
    attempts = sum(record.attempts for record in records.values())
    told = count(attempts, "check"), count(hints, "hint"), count(solutions, "solution")
    out.print(f"\n{told[0]} made; {told[1]} and {told[2]} asked for.")
    item = checking.first_open(records)
    out.print(f"Next: {escape(_next(item, folder))}" if item else "All exercises are passed.")
    return 0


@command
def hint(exercise: str | None) -> int:
    """Shows the next hint, and notes it."""
    folder = course_common.workspace()
    item = meant(exercise, folder)
    hints, taken = item.master.hints, folder.progress.record(item.id).hints
    out = screen()
    if taken >= len(hints):
        out.print(f"[bold]{item.id}[/]: all {len(hints)} hints were taken. Here they are again.\n")
        for number, text in enumerate(hints, 1):
            out.print(f"[bold]Hint {number}[/]")
            out.print(Markdown(text))
            out.print()
        if not item.released:
            out.print(f"If they do not help: kmha course solution {item.id}")
        return 0
    folder.progress.update(item.id, hints=taken + 1)
    out.print(f"[bold]{item.id}, hint {taken + 1} of {len(hints)}[/]\n")
    out.print(Markdown(hints[taken]))
    return 0


@command
def solution(exercise: str | None, yes: bool) -> int:
    """Shows the solution; before the exercise is passed, it asks and notes that."""
    folder = course_common.workspace()
    item = meant(exercise, folder) if exercise else (_last_passed(folder.progress) or meant(None, folder))
    if item.released:
        raise click.ClickException("this copy of the course has no solutions: ask who handed it out.")
    record = folder.progress.record(item.id)
    if not record.passed and not record.solution:
        question = f"{item.id} is not passed yet. Show its solution? That is noted."
        if not yes and not agreed(question):
            return 1
        folder.progress.update(item.id, solution=True)
    code = item.master.solution
    if sys.stdout.isatty():
        screen().print(Syntax(code, "python", background_color="default", word_wrap=True))
    else:
        click.echo(code, nl=False)
    return 0


@command
def reset(exercise: str, yes: bool) -> int:
    """Puts the starter back, and keeps a copy of what was there."""
    folder = course_common.workspace()
    item = meant(exercise, folder)
    path = shown(folder.path(item))
    if folder.is_pristine(item):
        screen().print(f"{item.id} is as it was handed out: there is nothing to reset.")
        return 0
    if not yes and not agreed(f"Put the starter of {item.id} back into {path}? What is there is kept in a copy."):
        return 1
    copy = folder.reset(item)
    screen().print(f"{item.id} begins again. What you wrote is in {escape(shown(copy))}.")
    return 0


def bar(points: int, possible: int, width: int = BAR) -> str:
    """A bar of characters; full only where all points are got."""
    full = width * points // max(possible, 1)
    return "█" * full + "░" * (width - full)


def points_of(items: list[Item] | tuple[Item, ...], records: dict[str, Record]) -> tuple[int, int]:
    """The points that were got in some exercises, and those that there are."""
    got = sum(min(records.get(item.id, Record()).points, item.spec.points) for item in items)
    return got, sum(item.spec.points for item in items)


def _row(title: str, items: list[Item] | tuple[Item, ...], records: dict[str, Record]) -> tuple[Text, ...]:
    got, possible = points_of(items, records)
    passed = sum(records.get(item.id, Record()).passed for item in items)
    done = f"{passed} of {count(len(items), 'exercise')}"
    return Text(title), Text(bar(got, possible), "green"), Text(f"{got} of {count(possible)}"), Text(done)


def _state(item: Item, record: Record) -> str:
    if record.passed:
        return "[green]passed[/]" + (" [dim](solution seen)[/]" if record.solution else "")
    return f"{record.points} of {count(item.spec.points)}" if record.begun else "[dim]open[/]"


def _last_passed(noted: Progress) -> Item | None:
    passed = [id for id, record in noted.records().items() if record.passed]
    return next((item for item in content.items() if passed and item.id == passed[-1]), None)


def _next(item: Item, folder: workspace.Workspace) -> str:
    return f"{item.id}, {item.spec.title} ({shown(folder.path(item))})"


def _size(item: Item) -> str:
    return f"{count(item.spec.points)}, about {item.spec.minutes} minutes"


def _hours(minutes: int) -> str:
    return count(round(minutes / 60), "hour") if minutes >= 90 else count(minutes, "minute")


def shown(path: Path) -> str:
    """As it is reached from here, if that is within."""
    path, here = path.absolute(), Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
