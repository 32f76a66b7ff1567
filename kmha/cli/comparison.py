"""`kmha compare`: run the comparison with a progress bar, in several processes, and print its tables."""

import contextlib
import dataclasses
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.syntax import Syntax
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common
from kmha.sandbox import limits

OURS = "kmha:MultiHeadAttention"
WORTHWHILE = 40  # number of cases for which a process of their own, which imports Keras first, saves time


def run(
    *,
    cases: int,
    seed: int,
    dtype: str | None,
    backend: str,
    xla: bool,
    layer: str | None,
    jobs: int | None,
    json_file: Path | None,
) -> int:
    """Run the comparison, and return the exit status."""
    common.choose_backend(backend)
    layer_class = load_layer(layer or OURS)
    from kmha.verify import compare
    from kmha.verify.comparing.comparison import check_dtype

    screen = common.screen()
    try:
        check_dtype(dtype)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--dtype'") from None
    columns = TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    jobs = min(len(limits.processors()), cases // WORTHWHILE) if jobs is None else jobs
    with (
        _mapping(layer_class, backend, min(jobs, cases)) as mapping,
        Progress(*columns, console=Console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("cases", total=cases)
        options: dict[str, Any] = {"seed": seed, "dtype": dtype, "xla": xla, "mapping": mapping}
        report = compare(layer_class, cases, progress=lambda done, _: bar.update(task, completed=done), **options)
    if any(row.raised < row.cases for row in report.table()):  # otherwise there are no numbers to show
        screen.print(_table(report))
    differences = _differences() if layer is None and not report.interrupted else []
    if differences:
        screen.print(_difference_table(differences))
    if json_file is not None:
        atomic_files.write_json(json_file, {**report.to_dict(), "differences": differences})
    screen.print(_verdict(report))
    if report.code():
        screen.print("The smallest case that shows it, ready to paste:\n")
        screen.print(Syntax(report.code(), "python", background_color="default", word_wrap=True))
    return common.INTERRUPTED if report.interrupted else int(not report.agrees)


@contextlib.contextmanager
def _mapping(layer_class: Any, backend: str, jobs: int) -> Iterator[Callable[..., Any]]:
    """Yield a function like `map` that runs `jobs` processes, or `map` if they could not import the class by name."""
    if jobs < 2 or not _is_importable(layer_class):
        yield map
        return
    name = f"{layer_class.__module__}:{layer_class.__qualname__}"
    executor = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start, (backend, name, os.getpid()))
    try:
        yield executor.map
    except BrokenProcessPool:
        raise click.ClickException(
            "a process that compares has ended: the layer's code crashed, or there is too little memory. --jobs 1 "
            "compares in one process."
        ) from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():  # after Ctrl-C, one may compute for a long time
            process.terminate()


def _is_importable(layer_class: Any) -> bool:
    found: Any = sys.modules.get(layer_class.__module__)
    for part in layer_class.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is layer_class


def _start(backend: str, name: str, parent: int) -> None:
    """Prepare a process: it ends with its parent, which alone answers to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits.end_with(parent, signal.SIGTERM)
    common.choose_backend(backend)
    common.load(name)  # what its module prints does not mix with our output


def load_layer(name: str) -> Any:
    """Load the class that `MODULE:CLASS` names."""
    thing = common.load(name)
    if not isinstance(thing, type):
        raise click.ClickException(
            f"{name} is not a class. `kmha compare` needs a class. For a function or a layer object, use "
            "`kmha diagnose`."
        )
    return thing


def _table(report: Any) -> Table:
    name = report.layer.rsplit(".", 1)[-1]
    title = f"{name} against keras.layers.MultiHeadAttention and the float64 reference, on {report.backend}"
    table = Table(title=title, title_justify="left")
    table.add_column("feature")
    for name in ("cases", "built-in: abs.", "relative", "reference: abs.", "relative", "tolerance"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in report.table():
        pairs = [(values, against) for against in ("built-in", "reference") for values in (row.absolute, row.relative)]
        numbers = [_number(values.get(against)) for values, against in pairs]
        verdict = "agrees" if row.agrees else "[bold red]raises" if row.raised == row.cases else "[bold red]differs"
        table.add_row(row.feature, str(row.cases), *numbers, _number(row.tolerance), verdict)
    return table


def _difference_table(differences: list[dict[str, str]]) -> Table:
    table = Table(title="Different on purpose", title_justify="left", show_lines=True)
    for name, ratio in (("tried", 5), ("the built-in gives", 3), ("kmha gives", 3)):
        table.add_column(name, ratio=ratio)
    for difference in differences:
        table.add_row(difference["tried"], difference["builtin"], difference["here"])
    return table


def _differences() -> list[dict[str, str]]:
    import keras

    from kmha.verify.comparing.differences import demonstrate

    keras.utils.clear_session(free_memory=False)  # the names of layers, in errors, are counted from here
    with Console(stderr=True).status("running the demonstrations of the differences on purpose"):
        return [dataclasses.asdict(difference) for difference in demonstrate()]


def _verdict(report: Any) -> str:
    if not report.cases:
        return "Nothing was compared: the first case was interrupted."
    count = f"{report.cases} cases (seed {report.seed})"
    cases = f"{count}, forward and gradients"
    if report.interrupted:
        cases += ", then interrupted"
    if report.agrees:
        return f"[bold green]All agree[/]: {cases}."
    first = (report.smallest_failures or report.failures)[0]
    failing = len({found.case for found in report.failures})
    apart = f"{first.result} differs from the {first.against} by {first.relative:.2g} of its largest element"
    why = escape(first.said or apart)
    if all(found.result == "all" for found in report.failures):
        return f"[bold red]The layer raised an error in {failing} of {count}[/]. In the smallest one, {why}."
    return f"[bold red]{failing} of {cases}, differ[/]. In the smallest case, in {first.mode} mode: {why}."


def _number(value: float | None) -> str:
    return "–" if value is None or math.isinf(value) else f"{value:.1e}"
