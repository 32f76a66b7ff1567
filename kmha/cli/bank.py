"""Run `kmha diagnose --bank`: count the mistakes named, alone and in pairs, and the correct layers accused."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common

CHAINS = ("attention", "encoder", "decoder", "embedding", "cache")
ALONE, IN_PAIRS = 0.98, 0.9  # minimum shares of mistakes that must be named


def run(*, configurations: int, pairs: int, rights: int, seed: int, json_file: Path | None) -> int:
    """Test the bank. Return 1 if too few mistakes are named, or any correct layer is accused."""
    from kmha.verify.bank import self_test
    from kmha.verify.mistakes import BANK

    found: dict[str, Any] = {}
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeRemainingColumn()
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            for chain in CHAINS:
                steps = len(self_test.own_mistakes(chain)) * configurations
                task = bar.add_task(f"mistakes, {chain}", total=steps)
                progress = functools.partial(_advance, bar, task)
                each = [self_test.singles(seed + number, chain, progress) for number in range(configurations)]
                if each:
                    found[f"one mistake, {chain}"] = self_test.total(each)
            task = bar.add_task("pairs", total=pairs)
            if pairs:
                found["two mistakes, attention"] = self_test.pairs(pairs, seed, functools.partial(_advance, bar, task))
            task = bar.add_task("right layers", total=rights)
            if rights:
                found["none: right layers"] = self_test.rights(rights, seed, functools.partial(_advance, bar, task))
    except KeyboardInterrupt:
        return common.INTERRUPTED
    if json_file is not None:
        atomic_files.write_json(json_file, {name: dataclasses.asdict(tally) for name, tally in found.items()})
    screen = common.screen()
    screen.print(_table(found, len(BANK)))
    for name, tally in found.items():
        for missed in tally.missed:
            screen.print(f"{name}: {missed}")
    return int(any(tally.share < _least(name) for name, tally in found.items()))


def _advance(bar: Progress, task: Any, _: Any) -> None:
    bar.advance(task)


def _least(name: str) -> float:
    return 1.0 if name.startswith("none") else IN_PAIRS if name.startswith("two") else ALONE


def _table(found: dict[str, Any], size: int) -> Table:
    table = Table(title=f"Mistakes that are named, of {size} in the bank", title_justify="left")
    table.add_column("mistakes made")
    for name in ("candidates", "named", "share", "required", "same function"):
        table.add_column(name, justify="right")
    for name, tally in found.items():
        shares = f"{tally.share:.2%}", f"{_least(name):.0%}"
        table.add_row(name, f"{tally.of:,}", f"{tally.named:,}", *shares, f"{tally.listed:,}")
    return table
