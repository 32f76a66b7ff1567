"""Run `kmha diagnose --zoo`: diagnose the attention of public packages, and mutants of it, and print how that went."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common

NAMES = {"tuned": "tuned", "held out": "held out", None: "both"}


def run(
    *,
    packages: tuple[str, ...],
    half: str,
    mutants: int | None,
    seeds: int,
    seed: int,
    time_limit: float,
    list_tuned: bool,
    list_held_out: bool,
    json_file: Path | None,
) -> int:
    """Measure the zoo. Return 1 if a target is missed."""
    from kmha.verify.bank.zoo import manifest, measure

    unknown = set(packages) - set(manifest.PACKAGES)
    if unknown:
        raise click.BadParameter(
            f"the zoo has no package {min(unknown)!r}. It has {', '.join(sorted(manifest.PACKAGES))}.",
            param_hint="--package",
        )
    plan = measure.Plan(packages, measure.HALVES[half], mutants, seeds, seed, 3 * time_limit)
    missing = manifest.missing(packages or manifest.PACKAGES)
    if missing:
        Console(stderr=True).print(escape(manifest.how_to_install(missing)))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting", total=None)

            def progress(name: str, count: int, total: int) -> None:
                bar.update(task, description=name, completed=count, total=total)

            results = measure.measure(plan, measure.default_file(), progress=progress)
    except KeyboardInterrupt:
        return common.INTERRUPTED
    if json_file is not None:
        atomic_files.write_json(json_file, results)
    halves: list[str | None] = list(plan.halves)
    _show(common.screen(), results, [*halves, None] if len(halves) > 1 else halves)
    for chosen, name in ((list_tuned, "tuned"), (list_held_out, "held out")):
        if chosen:
            _list(common.screen(), [each for each in results if each["half"] == name])
    rows = [row for each in halves for row in measure.measures(results, each)]
    return int(any(not row.reached for row in rows))


def _show(screen: Console, results: Sequence[Mapping[str, Any]], halves: Sequence[str | None]) -> None:
    """Print the table of shares, and the table of operators. What was not measured is left out."""
    from kmha.verify.bank.zoo import measure

    entries = len({each["entry"] for each in results})
    packages = len({each["package"] for each in results})
    table = Table(title=f"The zoo: {entries} entries of {packages} packages, half by half", title_justify="left")
    table.add_column("measure")
    for half in halves:
        table.add_column(f"{NAMES[half]}", justify="right")
        table.add_column("share", justify="right")
    table.add_column("target", justify="right")
    for rows in zip(*(measure.measures(results, half) for half in halves), strict=True):
        if not any(row.of for row in rows):
            continue
        cells = [text for row in rows for text in (f"{row.count:,} of {row.of:,}", f"{row.share:.1%}")]
        target = (
            f"{'≤' if rows[0].most else '≥'} {rows[0].target:.0%}" if rows[0].target < 1 or not rows[0].most else ""
        )
        table.add_row(rows[0].name, *cells, target)
    screen.print(table)
    table = Table(title="Mutants by operator", title_justify="left")
    table.add_column("operator")
    for name in ("mutants", "right id", "wrong id", "right", "not named", "other"):
        table.add_column(name, justify="right")
    for operator, counts in measure.by_operator(results).items():
        table.add_row(operator, *_counts(counts))
    if table.row_count:
        screen.print(table)


def _counts(counts: Counter[str]) -> list[str]:
    known = [counts[name] for name in ("named", "wrong id", "right", "unknown")]
    return [str(number) for number in (counts.total(), *known, counts.total() - sum(known))]


def _list(screen: Console, results: Sequence[Mapping[str, Any]]) -> None:
    """Print every entry that is not read right, and every mutant that is not named right."""
    for each in results:
        if each["do"] == "right" and each["outcome"] != "right":
            ids = " + ".join(each["ids"]) or each.get("says", "")
            screen.print(escape(f"{each['outcome']}: {each['where']}, seed {each['seed']}: {ids}"))
        elif each["do"] == "mutant" and each.get("kept") and each["outcome"] != "named":
            found = " + ".join(each["ids"]) or each.get("says", "")
            screen.print(escape(f"{each['outcome']}: {each['id']} ({', '.join(each['right_ids'])}): {found}"))
