"""`kmha compare --ecosystem`: try what the layers work with, and print the table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common


def run(backend: str, json_file: Path | None) -> int:
    """Try all rows on the backend, and return the exit status."""
    common.choose_backend(backend)
    from kmha.verify.comparing.ecosystem.running import try_all
    from kmha.verify.comparing.ecosystem.table import ROWS

    screen = common.screen()
    columns = TextColumn("trying"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[feature]}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rows", total=len(ROWS), feature="")
        outcomes = try_all(
            backend, progress=lambda done, last: bar.update(task, completed=done, feature=last.row.feature)
        )
    screen.print(table(backend, outcomes))
    if json_file is not None:
        fields = ("builtin", "ours", "difference", "skipped")
        rows = [{name: value for name, value in vars(found).items() if name in fields} for found in outcomes]
        features = [{"feature": found.row.feature, "differs": found.row.differs} for found in outcomes]
        atomic_files.write_json(json_file, [{**one, **other} for one, other in zip(features, rows, strict=True)])
    wrong = [outcome.row.feature for outcome in outcomes if not outcome.holds]
    tried = sum(not outcome.skipped for outcome in outcomes)
    if wrong:
        screen.print(f"[bold red]With the built-in layer alone, of {tried} features[/]: {escape(', '.join(wrong))}.")
    else:
        screen.print(f"[bold green]All {tried} features[/] that work with the built-in layer work with kmha's.")
    return int(bool(wrong))


def table(backend: str, outcomes: Sequence[Any]) -> Table:
    """Return the table of what each layer works with."""
    found = Table(title=f"Works with, on {backend}", title_justify="left")
    for name in ("feature", "built-in", "kmha", "difference or reason"):
        found.add_column(name)
    for outcome in outcomes:
        found.add_row(*map(escape, (outcome.row.feature, *outcome.marks, outcome.note)))
    return found
