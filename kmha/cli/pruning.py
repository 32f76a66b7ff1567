"""`kmha prune`: remove the least important heads of a translation model, and print what that costs and gains."""

import csv
import dataclasses
import importlib.util
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common, evaluation, translation
from kmha.cli.options import SearchChoice

NAMES = {"bleu": "BLEU", "exact_match": "exact matches, %"}


@dataclasses.dataclass(frozen=True)
class PruningChoice:
    """The options of `kmha prune`."""

    keep: float
    steps: int | None
    rank: str
    out: Path | None
    csv_file: Path | None
    json_file: Path | None


def prune(model_folder: Path, data: evaluation.DataChoice, choice: PruningChoice) -> int:
    """Prune a model, and return the exit status."""
    if (data.source is None) != (data.target is None):
        raise click.UsageError("--source and --target go together: line n of one translates line n of the other.")
    if importlib.util.find_spec("sacrebleu") is None:
        raise common.not_installed("sacrebleu, which kmha prune needs,", "[translate]")
    try:
        _prune(model_folder, data, choice)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        return common.INTERRUPTED
    return 0


def _prune(model_folder: Path, data: evaluation.DataChoice, choice: PruningChoice) -> None:
    """Prune a model, print the table, and write the files and then the folder, which is the largest."""
    translator = translation.load(model_folder)
    from kmha.translation import folder, pruning

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # each step compiles the smaller model, as it should
    tests = () if data.source is not None or translator.config.task == "files" else (evaluation.VALIDATION,)
    [pairs] = dataclasses.replace(data, tests=tests).sets(translator.config).values()
    about = evaluation.describe(translator, SearchChoice("greedy", {}), None)
    rows: list[Any] = []
    try:
        if choice.out is not None:
            folder.check_new(choice.out)
        try:
            run = _run(translator, pairs, choice, rows)
        finally:  # the steps before an interrupt or an error are shown too
            if rows:
                _show(rows, choice.rank, len(pairs))
        if choice.csv_file is not None:
            atomic_files.write_text(choice.csv_file, _csv(rows))
        if choice.json_file is not None:
            about |= {"rank": choice.rank, "data": pairs.name, "sentences": len(pairs), "steps": _records(rows)}
            atomic_files.write_json(choice.json_file, about)
        if choice.out is not None:
            folder.save_finished(choice.out, translator.model, translator.tokenizer, run.config(rows[-1]))
    except (folder.FolderError, pruning.PruningError) as error:
        raise click.ClickException(str(error)) from None


def _run(translator: Any, pairs: Any, choice: PruningChoice, rows: list[Any]) -> Any:
    """Prune the model, append the measures of each step to `rows`, and return the `Pruning`."""
    from kmha.translation import pruning

    columns = TextColumn("heads removed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    columns += (TextColumn("{task.description}"),)  # type: ignore[assignment]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        run = pruning.Pruning(translator, pairs, choice.rank, lambda text: bar.update(task, description=text))
        whole = run.heads
        bar.update(task, total=whole - round(choice.keep * whole), completed=0)
        for row in run.run(choice.keep, choice.steps):
            rows.append(row)
            bar.update(task, completed=whole - row.heads)
    return run


def _records(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the measures with the score under its own name."""
    records = []
    for row in rows:
        values = dataclasses.asdict(row)
        score = {values.pop("score_name"): values.pop("score")}
        records.append({"heads": values.pop("heads"), "loss": values.pop("loss"), **score, **values})
    return records


def _csv(rows: Sequence[Any]) -> str:
    text = io.StringIO()
    records = _records(rows)
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        removed = " ".join(f"{name}:{head}" for name, head in record["removed"])
        writer.writerow({**record, "removed": removed})
    return text.getvalue()


def _show(rows: Sequence[Any], rank: str, sentences: int) -> None:
    screen = common.screen()
    title = f"heads removed by {rank}, {sentences:,} validation sentences, greedy search"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("heads", "parameters", "loss", NAMES[rows[0].score_name], "seconds", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("removed: layer, and its head from 0")
    for row in rows:
        numbers = f"{row.heads}", f"{row.parameters:,}", f"{row.loss:.4f}", f"{row.score:.2f}"
        speed = f"{row.seconds:.2f}", f"{row.tokens_per_second:,.0f}"
        table.add_row(*numbers, *speed, ", ".join(f"{_short(name)} {head}" for name, head in row.removed))
    screen.print(table)


def _short(name: str) -> str:
    """Return the name of a layer for the table.

    >>> _short("encoder_layer1_self_att"), _short("decoder_layer2_block2_decenc_att")
    ('encoder 1', 'decoder 2 cross')
    """
    part, layer, *block = name.removesuffix("_att").split("_")
    kind = {"block1": " self", "block2": " cross"}.get(block[0], "")
    return f"{part} {layer.removeprefix('layer')}{kind}"
