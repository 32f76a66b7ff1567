"""`kmha bench`: chooses the rows, measures them with a progress bar, and prints and writes what came out."""

import dataclasses
import importlib.util
import io
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kmha import files
from kmha.bench import cases
from kmha.bench.cases import Row
from kmha.cli import comparison

PICTURES = (".png", ".svg", ".pdf")
DASH = Path("-")
WIDTH = 140  # of the table where there is no terminal
GIVEN_UP = ("quartiles", "% of GEMM", "path")  # columns, in this order, where the terminal is narrow


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the options choose; empty means that nothing was chosen, and the defaults hold."""

    sizes: tuple[str, ...]
    kinds: tuple[str, ...]
    passes: tuple[str, ...]
    modes: tuple[str, ...]
    against: tuple[str, ...]
    width: int
    heads: int
    everything: bool

    def rows(self, for_picture: bool) -> list[Row]:
        """The rows to measure; a picture has a series of its own, unless sizes are chosen."""
        names = self.sizes or (() if for_picture else tuple(cases.SIZES))
        chosen = [size for name in names for size in _size(name)] or list(cases.SERIES)
        kinds, modes = self.kinds, self.modes
        if self.everything:
            kinds, modes = kinds or cases.KINDS, modes or cases.MODES
        elif for_picture:
            kinds = kinds or ("causal",)
        options = kinds, self.passes or cases.PASSES, modes or ("graph",), self.width, self.heads
        try:
            return cases.select(chosen, *options)
        except ValueError as error:
            raise click.UsageError(str(error)) from None

    def peers(self) -> list[str]:
        """The contenders besides the built-in and ours: those chosen, or all that are installed."""
        chosen = [name for name in cases.PEERS if name in (self.against or cases.PEERS)]
        missing = [name for name in chosen if not cases.is_installed(name)]
        if missing and self.against:
            raise comparison.not_installed(f"--against {missing[0]} needs torch, which", "[torch]")
        return [name for name in chosen if name not in missing]


def run(
    choice: Choice,
    *,
    rounds: int,
    seconds: float,
    memory: bool | None,
    json_file: Path | None,
    markdown: Path | None,
    picture: Path | None,
) -> int:
    """Measures, prints, writes; returns the exit status."""
    rows, peers = choice.rows(picture is not None), choice.peers()
    if picture is not None:
        _check_picture(picture, rows)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # times and memory are those of the processor
    # torch's threads would go on spinning into the turn of the next contender, and where anything else runs on the
    # machine they would wait for whole time slices of it: 16 ms in place of 0.2 for a product of 64 × 512 by 512 × 512.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    comparison.choose_backend("tensorflow")
    from kmha.bench.contenders import ContendersDisagree
    from kmha.bench.run import run as measure

    with_memory = True if memory is None and (picture is not None or choice.everything) else memory
    try:
        with _progress(len(rows)) as progress:
            report = measure(rows, peers, rounds, seconds, with_memory, progress)
    except ContendersDisagree as error:
        raise click.ClickException(str(error)) from None
    report.command = shlex.join(["kmha", *sys.argv[1:]])
    _show(report, on_stderr=markdown == DASH)
    if report.results:
        _write(report, json_file, markdown, picture)
    return comparison.INTERRUPTED if report.interrupted else 0


def _size(text: str) -> tuple[cases.Size, ...]:
    try:
        return cases.sizes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--size'") from None


def _check_picture(path: Path, rows: Sequence[Row]) -> None:
    if path.suffix not in PICTURES:
        raise click.BadParameter(f"{path} must end in one of {', '.join(PICTURES)}.", param_hint="'--plot'")
    if importlib.util.find_spec("matplotlib") is None:
        raise comparison.not_installed("--plot needs matplotlib, which", "[plot]")
    try:
        cases.check_series(rows)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--plot'") from None


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, doing: bar.update(task, completed=done, description=doing)


def _show(report: Any, on_stderr: bool) -> None:
    from kmha.bench import table as text

    stream = sys.stderr if on_stderr else sys.stdout
    screen = Console(stderr=on_stderr, width=None if stream.isatty() else WIDTH, highlight=False)
    if not report.results:
        screen.print("Interrupted before anything was measured.")
        return
    columns = text.shown(report, wide=False)
    table = _table(report, columns)
    for title in GIVEN_UP:
        if screen.measure(table, options=screen.options.update(max_width=1000)).maximum <= screen.width:
            break
        columns = [column for column in columns if column.title != title]
        table = _table(report, columns)
    screen.print(table)
    for line in (*text.notes(report), text.legend(report), text.where(report)):
        screen.print(line, markup=False)
    if report.interrupted:
        screen.print("[bold]Interrupted[/]: the last row may rest on few rounds, and those after it are missing.")


def _table(report: Any, columns: Sequence[Any]) -> Table:
    title = "kmha.MultiHeadAttention against its peers"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        title = column.title.replace(", ", ",\n").replace("torch ", "torch\n")
        table.add_column(title, justify="left" if column.is_text else "right", vertical="bottom", no_wrap=True)
    for result in report.results:
        table.add_row(*(_coloured(column, column.cell(result), result) for column in columns))
    return table


def _coloured(column: Any, cell: str, result: Any) -> str:
    ratio = result.ratio(cases.OURS) if column.title == "ratio" else None
    if ratio is None:
        return cell
    return f"[bold green]{cell}[/]" if ratio < 1 else f"[red]{cell}[/]"


def _write(report: Any, json_file: Path | None, markdown: Path | None, picture: Path | None) -> None:
    from kmha.bench import table as text

    if json_file is not None:
        files.write_json(json_file, report.to_dict())
    if markdown == DASH:
        click.echo(text.markdown(report), nl=False)
    elif markdown is not None:
        files.write_text(markdown, text.markdown(report))
    if picture is not None and len({result.row.length for result in report.results}) > 1:
        from kmha.bench import plot

        image = io.BytesIO()
        plot.figure(report).savefig(image, format=picture.suffix[1:], dpi=150)
        files.write_bytes(picture, image.getvalue())
