"""Run `kmha diagnose --deform`: inject the faults of the published yardstick, and count those that are found."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common

DETECTED, NAMED = 0.98, 0.90  # required shares


def run(*, json_file: Path | None) -> int:
    """Inject and name all faults. Return 1 if too few are detected or named."""
    from kmha.verify.bank.yardstick import measure

    try:
        measure.operators()
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}.") from None
    found: list[Any] = []
    columns = SpinnerColumn(), TextColumn("{task.description}")
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("building the models", total=None)
            found.extend(measure.cases(lambda text: bar.update(task, description=text)))
    except KeyboardInterrupt:
        return common.INTERRUPTED
    figures = measure.figures(found)
    if json_file is not None:
        cases = [{**dataclasses.asdict(case), "named": case.named} for case in found]
        atomic_files.write_json(json_file, {"figures": dataclasses.asdict(figures), "cases": cases})
    screen = common.screen()
    screen.print(_table(found))
    screen.print(_figures(figures))
    least = figures.detected >= DETECTED and min(figures.category, figures.root_cause) >= NAMED
    return int(not least)


def _table(found: Sequence[Any]) -> Table:
    table = Table(title="DEForm's operators, injected into BERT, OPT and GPT-2", title_justify="left")
    for name in ("operator", "category", "root cause"):
        table.add_column(name)
    for name in ("faults", "change a result", "detected", "named"):
        table.add_column(name, justify="right")
    table.add_column("found, or the reason")
    for operator in dict.fromkeys(case.operator for case in found):
        cases = [case for case in found if case.operator == operator and not case.refused]
        changing = [case for case in cases if case.changes]
        counts = sum(case.detected for case in changing), sum(case.named == case.true for case in changing)
        true = next(case.true for case in found if case.operator == operator)
        numbers = [str(number) for number in (len(cases), len(changing), *counts)]
        table.add_row(operator, *true, *numbers, _found(changing, true[1]))
    return table


def _found(cases: Sequence[Any], root_cause: str) -> str:
    """Return the most frequent effect of an operator, or the reason why there is none."""
    from kmha.verify.bank.yardstick.root_causes import OUTSIDE

    effects = Counter(effect for case in cases for _, effect in case.findings)
    effects.update(case.cached for case in cases if case.cached)
    if effects:
        return effects.most_common(1)[0][0]
    return OUTSIDE.get(root_cause, "this version of DEForm changes nothing here")


def _figures(figures: Any) -> Table:
    table = Table(title=f"All {figures.faults} faults that change a result", title_justify="left")
    table.add_column("measure")
    for name in ("kmha", "required", "published by DEFault++"):
        table.add_column(name, justify="right")
    table.add_row("detected", f"{figures.detected:.3f}", f"{DETECTED:.2f}", "0.96 (AUROC)")
    table.add_row("category, macro-F1", f"{figures.category:.3f}", f"{NAMED:.2f}", "0.85")
    table.add_row("root cause, macro-F1", f"{figures.root_cause:.3f}", f"{NAMED:.2f}", "0.85")
    return table
