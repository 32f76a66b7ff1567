"""`kmha bench`: choose the rows, measure them with a progress bar, print the table, and write the files."""

import dataclasses
import importlib.util
import io
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kmha import atomic_files
from kmha.bench import cases
from kmha.bench.cases import MODEL_ROWS, AttentionRow, ModelRow
from kmha.cli import common

PICTURES = (".png", ".svg", ".pdf")
DASH = Path("-")
WIDTH = 140  # width of the table if there is no terminal
DISPENSABLE = ("quartiles", "% of GEMM", "path")  # columns that a narrow terminal drops, in this order


@dataclasses.dataclass(frozen=True)
class BenchmarkOptions:
    """The rows and peers selected on the command line. An empty value means the default."""

    sizes: tuple[str, ...]
    kinds: tuple[str, ...]
    passes: tuple[str, ...]
    modes: tuple[str, ...]
    against: tuple[str, ...]
    width: int
    heads: int
    everything: bool
    models: bool = False
    backend: str = "tensorflow"
    dtype: str = "float32"

    @property
    def has_peers(self) -> bool:
        """True for the backend and the dtype that the peers are written for."""
        return (self.backend, self.dtype) == ("tensorflow", "float32")

    def rows(self, for_picture: bool, memory: bool | None = None) -> list[AttentionRow] | list[ModelRow]:
        """Return the rows to measure. By default, a picture has its own sizes."""
        if self.models:
            sized = self.sizes or (self.width, self.heads) != (cases.WIDTH, cases.HEADS)
            selected = self.kinds or self.passes or self.modes or self.everything
            selected = selected or not self.has_peers
            if sized or selected or for_picture or memory:
                raise click.UsageError(
                    "--model measures models of one size. Leave out --size, --kind, --pass, --mode, --width, --heads, "
                    "--backend, --dtype, --memory, --all and --plot, which belong to the attention layer."
                )
            return list(MODEL_ROWS)
        names = self.sizes or (() if for_picture else tuple(cases.SIZES))
        chosen = [size for name in names for size in _size(name)] or list(cases.SERIES)
        kinds, modes = self.kinds, self.modes
        if self.everything:
            kinds, modes = kinds or cases.KINDS, modes or cases.BACKENDS[self.backend]
        elif for_picture:
            kinds = kinds or ("causal",)
        options = kinds, self.passes or cases.PASSES, modes, self.width, self.heads, self.backend, self.dtype
        try:
            return cases.select(chosen, *options)
        except ValueError as error:
            raise click.UsageError(str(error)) from None

    def peers(self) -> list[str]:
        """Return the contenders besides the built-in and kmha: the chosen peers, or all installed peers."""
        peers: tuple[str, ...] = cases.MODEL_PEERS if self.models else cases.PEERS
        if not self.has_peers:
            peers = ()
        unknown = [name for name in self.against if name not in (cases.BUILTIN, *peers)]
        if unknown:
            known = ", ".join((cases.BUILTIN, *peers))
            subject = (
                "a whole model (--model)" if self.models else f"the attention layer on {self.backend} in {self.dtype}"
            )
            raise click.UsageError(f"--against {unknown[0]}: {subject} can be measured against {known}.")
        chosen = [name for name in peers if name in (self.against or peers)]
        missing = [name for name in chosen if not cases.is_installed(name)]
        if missing and self.against:
            package = cases.PACKAGES[missing[0]]
            extra = "[torch]" if package == "torch" else "[bench]"
            raise common.not_installed(f"--against {missing[0]} needs {package}, which", extra)
        return [name for name in chosen if name not in missing]


def run_benchmark(
    options: BenchmarkOptions,
    *,
    rounds: int,
    seconds: float,
    memory: bool | None,
    json_file: Path | None,
    markdown: Path | None,
    picture: Path | None,
) -> int:
    """Measure the rows, print the table and write the files. Return the exit status."""
    rows, peers = options.rows(picture is not None, memory), options.peers()
    if picture is not None:
        _check_picture(picture, rows)
    if options.backend == "tensorflow":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # measure the CPU
    # By default, torch's threads keep spinning into the turn of the next contender. On a machine with other load, they
    # then wait for whole time slices: 16 ms instead of 0.2 for a product of 64 × 512 by 512 × 512.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    common.choose_backend(options.backend)
    from kmha.bench.contenders import ContendersDisagree
    from kmha.bench.measuring import measure

    with_memory = True if memory is None and (picture is not None or options.everything) else memory
    try:
        with _progress(len(rows)) as progress:
            translation = _translation() if options.models else None
            report = measure(rows, peers, rounds, seconds, with_memory, progress, translation)
    except ContendersDisagree as error:
        raise click.ClickException(str(error)) from None
    report.command = shlex.join(["kmha", *sys.argv[1:]])
    _show(report, on_stderr=markdown == DASH)
    if report.results:
        _write(report, json_file, markdown, picture)
    return common.INTERRUPTED if report.interrupted else 0


def _check_alone(option: str) -> None:
    """Raise an error if the command line has other options than this one, which measures fixed sizes."""
    context = click.get_current_context()
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given != [option]:
        raise click.UsageError(f"--{option} has sizes of its own. Leave out all other options.")


def print_generating() -> None:
    """Print the time of a position generated with a cache, with KerasHub's layer and with kmha's."""
    _check_alone("cache")
    if not cases.is_installed("keras_hub"):
        raise common.not_installed("--cache needs keras-hub, which", "[bench]")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    common.choose_backend("tensorflow")
    from kmha.bench import generating
    from kmha.bench.contenders import ContendersDisagree

    total = len(generating.BATCHES) * len(generating.LENGTHS) * len(generating.MODES)
    rows: list[Any] = []
    try:
        with _progress(total) as progress:
            for row in generating.measure():
                rows.append(row)
                progress(len(rows), f"B={row.batch}, S={row.length}, {row.mode}")
    except ContendersDisagree as error:
        raise click.ClickException(str(error)) from None
    click.echo(generating.table(rows))


def print_collectives() -> None:
    """Print what devices exchange if they split the heads: 8 devices as compiled, and a thousand as computed."""
    _check_alone("collectives")
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    common.choose_backend("jax")
    from kmha.bench import collectives, scaling

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of the rows has the wrong layout
        rows = collectives.measure()
    click.echo(f"A block on {collectives.DEVICES} devices, as compiled:\n")
    click.echo(f"{collectives.table(rows)}\n\nEach device of a mesh in a training step, as computed:\n")
    click.echo(scaling.table(scaling.Training()))


def _translation() -> Any:
    """Return the parts of `kmha.translation` that `kmha.bench` needs and cannot import."""
    from kmha.bench.models import Translation
    from kmha.translation.search import Greedy
    from kmha.translation.task import TranslationTask

    return Translation(
        task=lambda model, smoothing: TranslationTask(model, label_smoothing=smoothing),
        greedy=lambda model, length: Greedy(model, max_length=length),
    )


def _size(text: str) -> tuple[cases.Size, ...]:
    try:
        return cases.sizes(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--size'") from None


def _check_picture(path: Path, rows: Sequence[Any]) -> None:
    if path.suffix not in PICTURES:
        raise click.BadParameter(f"{path} must end in one of {', '.join(PICTURES)}.", param_hint="'--plot'")
    if importlib.util.find_spec("matplotlib") is None:
        raise common.not_installed("--plot needs matplotlib, which", "[plot]")
    try:
        cases.check_series(rows)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--plot'") from None


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, current: bar.update(task, completed=done, description=current)


def _show(report: Any, on_stderr: bool) -> None:
    from kmha.bench import table as formatting

    stream = sys.stderr if on_stderr else sys.stdout
    screen = Console(stderr=on_stderr, width=None if stream.isatty() else WIDTH, highlight=False)
    if not report.results:
        screen.print("Interrupted before anything was measured.")
        return
    columns = formatting.shown(report, wide=False)
    table = _table(report, columns)
    for title in DISPENSABLE:
        if screen.measure(table, options=screen.options.update(max_width=1000)).maximum <= screen.width:
            break
        columns = [column for column in columns if column.title != title]
        table = _table(report, columns)
    screen.print(table)
    for line in (*formatting.notes(report), formatting.legend(report), formatting.where(report)):
        screen.print(line, markup=False)
    if report.interrupted:
        screen.print("[bold]Interrupted[/]: the last row may have few rounds, and the rows after it are missing.")


def _table(report: Any, columns: Sequence[Any]) -> Table:
    is_model = isinstance(report.results[0].row, ModelRow)
    title = f"{'kmha.layers.Transformer' if is_model else 'kmha.MultiHeadAttention'} against its peers"
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
    from kmha.bench import table as formatting

    if json_file is not None:
        atomic_files.write_json(json_file, report.to_dict())
    if markdown == DASH:
        click.echo(formatting.markdown(report), nl=False)
    elif markdown is not None:
        atomic_files.write_text(markdown, formatting.markdown(report))
    if picture is not None and len({result.row.length for result in report.results}) > 1:
        from kmha.bench import plot

        image = io.BytesIO()
        plot.figure(report).savefig(image, format=picture.suffix[1:], dpi=150)
        atomic_files.write_bytes(picture, image.getvalue())
