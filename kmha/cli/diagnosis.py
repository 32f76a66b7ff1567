"""Print a diagnosis: the verdict, the evidence, where the numbers differ, and code that shows it."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common

KNOWN, UNKNOWN = "known", "unknown"


def run(name: str, *, settings: tuple[str, ...], backend: str, json_file: Path | None, **options: Any) -> int:
    """Diagnose the layer or function that `name` refers to, with options of `diagnose`. Return the exit status."""
    arguments = parsed(settings)
    common.choose_backend(backend)
    candidate = common.load(name)
    from kmha.verify import diagnose
    from kmha.verify.diagnosing import report

    screen = common.screen()
    try:
        with Console(stderr=True).status("diagnosing") as status:
            found = diagnose(candidate, arguments=arguments, source=name, progress=status.update, **options)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        return common.INTERRUPTED
    if json_file is not None:
        atomic_files.write_json(json_file, report.to_dict(found))
    show(screen, found)
    return int(not found.right)


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE settings. A VALUE is a JSON number, true, false, null or list, or else text."""
    found = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not (name.isidentifier() and equals):
            raise click.BadParameter(f"expected NAME=VALUE, such as num_heads=4. Received: {setting!r}.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(text, text)
    return found


def show(screen: Console, found: Any) -> None:
    """Print the whole diagnosis."""
    from kmha.verify.diagnosing import report

    screen.print(_verdict(found))
    for match in found.matches[:1] if found.verdict == KNOWN else ():
        for mistake in match.mistakes:
            screen.print(f"\n[bold]{mistake.id}[/]: {escape(mistake.says)}")
            screen.print(f"  Look at {escape(mistake.look)}.\n  Known from {escape(mistake.source)}.")
    for line in report.notes(found):
        screen.print(f"\n{escape(line)}")
    if found.right or not found.results:
        return
    screen.print()
    if any(not result.answer.error for result in found.results):
        screen.print(_table(report.table_rows(found), found))
        _picture(screen, report.difference_map(found))
    if found.code():
        screen.print("\nThe smallest case that shows the mistake, as code to paste:\n")
        screen.print(Syntax(found.code(), "python", background_color="default", word_wrap=True))


def _verdict(found: Any) -> str:
    from kmha.verify.diagnosing import report

    name, answered = escape(found.name), len(found.results) - len(found.errors)
    calls = f"({answered} calls, {report.sizes_text(found)}, seed {found.seed})"
    if found.right and found.errors:
        return f"[bold green]{name} is right[/] in all calls that it can run {calls}."
    if found.right:
        return f"[bold green]{name} is right[/] {calls}."
    if found.verdict == KNOWN:
        many = f"{len(found.mistakes)} known mistakes" if len(found.mistakes) > 1 else "a known mistake"
        return f"[bold red]{name} is wrong[/]: it makes {many} {calls}."
    if found.verdict == UNKNOWN:
        return f"[bold red]{name} is wrong[/], and its mistake is not in the bank {calls}."
    return f"[bold red]{name} cannot be run[/]: {escape(next(iter(found.errors.values())))}"


def _table(rows: list[dict[str, Any]], found: Any) -> Table:
    table = Table(title="Largest difference, relative to the largest number", title_justify="left")
    table.add_column("call")
    table.add_column("from right", justify="right")
    for ids in ([found.ids] if found.ids else []) + ([found.nearest.ids] if found.nearest else []):
        table.add_column(f"from {' and '.join(ids)}", justify="right")
    for row in rows:
        table.add_row(escape(row["call"]), *(escape(text) for text in row["distances"]))
    return table


def _picture(screen: Console, difference: Any) -> None:
    """Print the difference as shaded characters."""
    if difference is None:
        return
    from kmha import show

    screen.print(f"\n{escape(difference.title)}\n")
    colour = None if sys.stdout.isatty() else False
    values, width = difference.values, min(screen.width, 100)
    scale = {"vmin": 0, "vmax": values.max()}
    print(show.terminal(values, width=width, colour=colour, column_name=difference.columns, **scale))
