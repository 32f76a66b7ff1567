"""`kmha course start`, `list`, `hint`, `progress`, `solution` and `reset`."""

import html
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.markdown import Markdown
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kmha.cli import course_common
from kmha.cli.common import screen
from kmha.cli.course_common import command, confirm, display_path, find_item
from kmha.course.exercises import content, handout
from kmha.course.exercises.content import Item
from kmha.course.judging.rendering import count
from kmha.course.learner import checking, workspace
from kmha.course.learner.progress import Progress, Record
from kmha.sandbox.control_characters import visible

FOLDER = Path("kmha-course")
BAR_WIDTH = 24  # characters
WIDE = 110  # width of a terminal in which a list can have long headers
_ENTITY = re.compile(r"&#?\w+;")  # a character in Markdown: &rlm; or &#x202e;
ALL_PASSED = "You have passed all exercises."


@command
def start(folder: Path | None, notebooks: bool) -> int:
    """Make a learner's folder, and print what to do next."""
    here = workspace.find(Path.cwd())
    place = folder or (here.root if here else FOLDER)
    form = handout.NOTEBOOKS if notebooks else None
    try:
        around = workspace.find(place.resolve())
        if around is not None and around.root != place.resolve():
            raise click.ClickException(
                f"{display_path(place)} would be inside {around.root}, which is already a kmha-course folder."
            )
        made, added = workspace.start(place, content.assignments(content.root()), form)
    except OSError as error:
        raise click.ClickException(f"{error.filename or place}: {error.strerror}.") from None
    exercises = list(content.items())
    out = screen()
    item = checking.first_open(made.progress.records())
    if not added:
        following = f"Next: {_next(item, made)}" if item else ALL_PASSED
        where = "this folder" if made.root == Path.cwd() else display_path(made.root)
        out.print(escape(f"Nothing was missing in {where}. {following}"), soft_wrap=True)
        return 0
    points, minutes = sum(item.spec.points for item in exercises), sum(item.spec.minutes for item in exercises)
    time = count(round(minutes / 60), "hour") if minutes >= 90 else count(minutes, "minute")
    out.print(
        f"[bold]{escape(display_path(made.root))}[/]: {count(len(exercises), 'exercise')}, {count(points)}, "
        f"about {time}. Added {count(len(added), 'file')}, overwrote none."
    )
    if item is None:
        out.print(ALL_PASSED)
        return 0
    size = f"{count(item.spec.points)}, about {count(item.spec.minutes, 'minute')}"
    out.print(f"\nBegin with [bold]{escape(display_path(made.path(item)))}[/]: {escape(item.spec.title)}, {size}.")
    out.print("Open it in your editor, read the text, and write the missing code. Then:\n")
    if not Path.cwd().is_relative_to(made.root.resolve()):
        out.print(f"  cd {escape(display_path(made.root))}", soft_wrap=True)
    out.print("  kmha course check    [dim]check it: your points, what is wrong, and why[/]")
    out.print("  kmha course watch    [dim]check it every time you save[/]")
    out.print("  kmha course hint     [dim]get one of three hints[/]")
    return 0


@command
def show_list(assignment: str | None) -> int:
    """List the exercises of one assignment or of all, with the learner's progress if there is any."""
    here = workspace.find(Path.cwd())
    records = here.progress.records() if here else {}
    out = screen()
    chosen = {item.assignment for item in content.find(assignment)} if assignment else None
    wide = out.width >= WIDE
    longest = max((len(item.id) for item in content.items()), default=0) if wide else 0
    names = ("points", "minutes", "difficulty") if wide else ("pts", "min", "")
    for each in content.assignments(content.root()):
        if chosen is not None and each.id not in chosen:
            continue
        out.print(f"[bold]{each.id}  {escape(each.title)}[/]")
        table = Table(box=None, padding=(0, 1))
        table.add_column("exercise", no_wrap=True, min_width=longest)
        for name in names:
            table.add_column(name, no_wrap=True, justify="left" if name == names[-1] else "right")
        table.add_column("state", no_wrap=wide, min_width=18 if wide else None)
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
    """Print a bar for each assignment."""
    folder = course_common.workspace()
    records = folder.progress.records()
    out = screen()
    rows = [(f"{each.id} {each.title}", each.items) for each in content.assignments(content.root())]
    rows.append(("all", tuple(item for _, items in rows for item in items)))
    numbers = [(earned_points(items, records), _passed(items, records)) for _, items in rows]
    shown = [(f"{earned} of {possible}", passed) for (earned, possible), passed in numbers]
    others = [max(map(len, column)) for column in zip(("points", "exercises"), *shown, strict=True)]
    # The bar gets what the other columns leave, and a title is wrapped before a number would be.
    left = out.width - sum(others) - max(len(title) for title, _ in rows) - 2 * 4
    width = min(max(left, BAR_WIDTH // 3), BAR_WIDTH)
    table = Table(box=None, padding=(0, 1))
    table.add_column("")
    for name in ("", "points", "exercises"):
        table.add_column(name, no_wrap=True)
    for (title, _), ((earned, possible), passed) in zip(rows, numbers, strict=True):
        bar = Text(bar_text(earned, possible, width), "green")
        table.add_row(Text(title), bar, Text(f"{earned} of {possible}"), Text(passed))
    out.print(table)
    attempts = count(sum(record.attempts for record in records.values()), "check")
    hints = count(sum(record.hints for record in records.values()), "hint")
    solutions = count(sum(record.solution for record in records.values()), "solution")
    out.print(f"\nYou have made {attempts} and asked for {hints} and {solutions}.")
    item = checking.first_open(records)
    out.print(f"Next: {escape(_next(item, folder))}" if item else ALL_PASSED)
    return 0


@command
def hint(exercise: str | None) -> int:
    """Show the next hint, and record that it was shown."""
    folder = course_common.workspace()
    item = find_item(exercise, folder)
    hints, seen = item.master.hints, folder.progress.record(item.id).hints
    out = screen()
    if seen >= len(hints):
        out.print(f"[bold]{item.id}[/]: you have seen all {len(hints)} hints. Here they are again.\n")
        for number, text in enumerate(hints, 1):
            out.print(f"[bold]Hint {number}[/]")
            out.print(_markdown(text))
            out.print()
        if not item.released:
            out.print(f"Still stuck? kmha course solution {item.id}")
        return 0
    folder.progress.update(item.id, hints=seen + 1)
    out.print(f"[bold]{item.id}, hint {seen + 1} of {len(hints)}[/]\n")
    out.print(_markdown(hints[seen]))
    return 0


def _markdown(text: str) -> Markdown:
    """Render the text of a course, which may be untrusted. Links show their address instead of hiding it."""

    def written_out(entity: re.Match[str]) -> str:
        letters = html.unescape(entity[0])
        return entity[0] if visible(letters) == letters else visible(letters)

    return Markdown(_ENTITY.sub(written_out, text), hyperlinks=False)


@command
def solution(exercise: str | None, yes: bool) -> int:
    """Show the solution. If the learner has not passed the exercise, ask first, and record that they saw it."""
    folder = course_common.workspace()
    item = find_item(exercise, folder) if exercise else (_last_passed(folder.progress) or find_item(None, folder))
    if item.released:
        raise click.ClickException("this copy of the course has no solutions. Ask your teacher.")
    record = folder.progress.record(item.id)
    if not record.passed and not record.solution:
        question = f"You have not passed {item.id} yet. Show its solution? This is recorded."
        if not yes and not confirm(question):
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
    """Restore the starter, and keep a copy of the answer."""
    folder = course_common.workspace()
    item = find_item(exercise, folder)
    path = display_path(folder.path(item))
    if folder.is_pristine(item):
        screen().print(f"{item.id} is still the starter. There is nothing to reset.")
        return 0
    if not yes and not confirm(f"Restore the starter of {item.id} in {path}? A copy of your answer is kept."):
        return 1
    copy = folder.reset(item)
    screen().print(f"{item.id} is the starter again. A copy of your answer is in {escape(display_path(copy))}.")
    return 0


def bar_text(points: int, possible: int, width: int = BAR_WIDTH) -> str:
    """Return a bar of characters, full only if all points were earned."""
    full = width * points // max(possible, 1)
    return "█" * full + "░" * (width - full)


def earned_points(items: Sequence[Item], records: dict[str, Record]) -> tuple[int, int]:
    """Return the points earned in some exercises, and the points possible."""
    earned = sum(min(records.get(item.id, Record()).points, item.spec.points) for item in items)
    return earned, sum(item.spec.points for item in items)


def _passed(items: Sequence[Item], records: dict[str, Record]) -> str:
    return f"{sum(records.get(item.id, Record()).passed for item in items)} of {len(items)}"


def _state(item: Item, record: Record) -> str:
    if record.passed:
        return "[green]passed[/]" + (" [dim](solution seen)[/]" if record.solution else "")
    return f"{record.points} of {count(item.spec.points)}" if record.begun else "[dim]open[/]"


def _last_passed(progress: Progress) -> Item | None:
    passed = [id for id, record in progress.records().items() if record.passed]
    return next((item for item in content.items() if passed and item.id == passed[-1]), None)


def _next(item: Item, folder: workspace.Workspace) -> str:
    return f"{item.id}, {item.spec.title} ({display_path(folder.path(item))})"
