"""`kmha compare`: runs the comparison with a progress bar, and prints its tables."""

import contextlib
import dataclasses
import difflib
import importlib
import importlib.util
import math
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.syntax import Syntax
from rich.table import Table

from kmha import files

OURS = "kmha:MultiHeadAttention"
INTERRUPTED = 130  # as shells report Ctrl-C


def run(
    *, cases: int, seed: int, dtype: str | None, backend: str, xla: bool, layer: str | None, json_file: Path | None
) -> int:
    """Runs the comparison; returns the exit status."""
    choose_backend(backend)
    layer_class = load_layer(layer or OURS)
    from kmha.verify import compare
    from kmha.verify.comparison import check_dtype

    screen = Console(width=None if sys.stdout.isatty() else 118, highlight=False)
    try:
        check_dtype(dtype)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--dtype'") from None
    with _progress() as bar:
        task = bar.add_task("cases", total=cases)
        options: dict[str, Any] = {"seed": seed, "dtype": dtype, "xla": xla}
        report = compare(layer_class, cases, progress=lambda done, _: bar.update(task, completed=done), **options)
    if any(row.raised < row.cases for row in report.table()):  # else there is nothing but errors to show
        screen.print(_table(report))
    differences = _differences() if layer is None and not report.interrupted else []
    if differences:
        screen.print(_difference_table(differences))
    if json_file is not None:
        files.write_json(json_file, {**report.to_dict(), "differences": differences})
    screen.print(_verdict(report))
    if report.code():
        screen.print("The smallest case that shows it, as code to paste:\n")
        screen.print(Syntax(report.code(), "python", background_color="default", word_wrap=True))
    return INTERRUPTED if report.interrupted else int(not report.agrees)


def choose_backend(backend: str) -> None:
    """Has Keras compute with `backend`, which must be settled before Keras is imported."""
    extra = {"tensorflow": "", "jax": "[jax]", "torch": "[torch]"}[backend]
    if importlib.util.find_spec(backend) is None:
        raise not_installed(f"the backend {backend}", extra)
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # float64, which JAX otherwise makes float32
    with _without_notes():
        importlib.import_module("keras")


def not_installed(what: str, extra: str) -> click.ClickException:
    """Says what is missing, and how to get it."""
    return click.ClickException(f"{what} is not installed. Run: pip install 'kmha{extra}'")


def load_layer(name: str) -> Any:
    """The class that `MODULE:CLASS` names; modules in the current folder are found."""
    module_name, colon, class_name = name.partition(":")
    if not (module_name and colon and class_name):
        raise click.BadParameter(f"expected MODULE:CLASS, such as my_module:MyAttention. Received: {name!r}.")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # importing runs a stranger's code, which may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        if module_name.endswith(".py") or class_name.endswith(".py"):
            raise click.BadParameter(f"name the module without .py. Received: {name!r}.") from None
        where = "" if "importlib" in last.filename else f" ({last.filename}, line {last.lineno})"
        raise click.ClickException(f"cannot import {module_name}: {type(error).__name__}: {error}{where}") from None
    if not isinstance(getattr(module, class_name, None), type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        near = ", ".join(difflib.get_close_matches(class_name, classes, n=3, cutoff=0.4) or classes[:3])
        raise click.ClickException(f"{module_name} has no class {class_name}. It has: {near or 'no classes'}.")
    return getattr(module, class_name)


@contextlib.contextmanager
def _without_notes() -> Iterator[None]:
    """Drops what the backend's C++ writes to standard error about the machine; its errors come as exceptions."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    columns = TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


def _table(report: Any) -> Table:
    name = report.layer.rsplit(".", 1)[-1]
    title = f"{name} against keras.layers.MultiHeadAttention and the float64 reference, on {report.backend}"
    table = Table(title=title, title_justify="left")
    table.add_column("feature")
    for name in ("cases", "built-in: abs.", "relative", "reference: abs.", "relative", "tolerance"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in report.table():
        numbers = [
            _number(values.get(against))
            for against in ("built-in", "reference")
            for values in (row.absolute, row.relative)
        ]
        verdict = "agrees" if row.agrees else "[bold red]raises" if row.raised == row.cases else "[bold red]differs"
        table.add_row(row.feature, str(row.cases), *numbers, _number(row.tolerance), verdict)
    return table


def _difference_table(differences: list[dict[str, str]]) -> Table:
    table = Table(title="Different on purpose", title_justify="left", show_lines=True)
    table.add_column("tried", ratio=5)
    table.add_column("the built-in gives", ratio=3)
    table.add_column("kmha gives", ratio=3)
    for difference in differences:
        table.add_row(difference["tried"], difference["builtin"], difference["here"])
    return table


def _differences() -> list[dict[str, str]]:
    from kmha.verify.differences import shown

    with Console(stderr=True).status("showing the differences on purpose"):
        return [dataclasses.asdict(difference) for difference in shown()]


def _verdict(report: Any) -> str:
    cases = f"{report.cases} cases (seed {report.seed}), forward and gradients"
    if report.interrupted:
        cases += ", then interrupted"
    if report.agrees:
        return f"[bold green]All agree[/]: {cases}."
    first = (report.smallest_failures or report.failures)[0]
    failing = len({found.case for found in report.failures})
    apart = f"{first.result} differs from the {first.against} by {first.relative:.2g} of its largest element"
    return f"[bold red]{failing} of {cases}, differ[/]. In the smallest, {first.mode}: {escape(first.said or apart)}."


def _number(value: float | None) -> str:
    return "–" if value is None or math.isinf(value) else f"{value:.1e}"
