"""`kmha evaluate`: translates test sets, and says how good that was and how fast."""

import dataclasses
import importlib.util
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kmha import files
from kmha.cli import common, translation

VALIDATION = "validation"


@dataclasses.dataclass(frozen=True)
class Data:
    """What the options choose to be translated."""

    folder: Path | None = None
    source: Path | None = None
    target: Path | None = None
    tests: tuple[str, ...] = ()

    def chosen(self, config: Any) -> dict[str, Any]:
        """The test sets by name, for a model of this config."""
        from kmha.translation.corpora import CorpusError

        try:
            sets = self._sets(config)
        except CorpusError as error:
            raise click.ClickException(str(error)) from None
        unknown = [name for name in self.tests if name not in sets]
        if unknown:
            raise click.BadParameter(f"there is no {unknown[0]}. There are: {', '.join(sets)}.", param_hint="'--test'")
        return {name: sets[name] for name in self.tests or [name for name in sets if name != VALIDATION]}

    def _sets(self, config: Any) -> dict[str, Any]:
        from kmha.translation import corpora, start

        if self.source is not None and self.target is not None:
            if self.folder is not None:
                raise click.UsageError("--data is for Multi30k: leave it out with --source and --target.")
            pairs = corpora.read_parallel(self.source, self.target)
            return {pairs.name: pairs}
        if config.task == "files":
            raise click.UsageError("this model learnt from files of yours: add --source FILE --target FILE to test it.")
        direction = f"{config.source_language}-{config.target_language}"
        corpus = start.Source(config.task, data=self.folder, direction=direction).read()
        if corpus.notice is not None:
            click.echo(corpus.notice, err=True)
        return {**corpus.tests, VALIDATION: corpus.validation}


@dataclasses.dataclass(frozen=True)
class Result:
    """Of one test set."""

    name: str
    translations: list[str]
    scores: list[Any]
    tokens: int
    seconds: float
    unfinished: int

    def to_dict(self) -> dict[str, Any]:
        """Without the translations."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["sentences"] = len(values.pop("translations"))
        values["tokens_per_second"] = self.tokens / self.seconds
        return {**values, "scores": [dataclasses.asdict(score) for score in self.scores]}


def run(
    folder: Path,
    data: Data,
    search: translation.Search,
    *,
    step: int | None,
    json_file: Path | None,
    output: Path | None,
) -> int:
    """Evaluates; returns the exit status."""
    method, options = search.method()
    if (data.source is None) != (data.target is None):
        raise click.UsageError(
            "--source and --target go together: line n of one is the translation of line n of the other."
        )
    for package in ("sacrebleu", "sacremoses"):
        if importlib.util.find_spec(package) is None:
            raise common.not_installed(f"{package}, which kmha evaluate needs,", "[translate]")
    translator = translation.load(folder, step)
    sets = data.chosen(translator.config)
    if output is not None and len(sets) > 1:
        raise click.UsageError(f"--output holds one test set: add --test with one of {', '.join(sets)}.")
    try:
        with _progress(sets) as progress:
            results = [evaluate(translator, name, pairs, method, options, progress) for name, pairs in sets.items()]
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        return common.INTERRUPTED
    about = describe(translator, method, options, step)
    if json_file is not None:
        files.write_json(json_file, {**about, "tests": [result.to_dict() for result in results]})
    if output is not None:
        files.write_text(output, "".join(f"{line}\n" for line in results[0].translations))
    _show(results, about)  # last: whoever reads it may have gone
    return 0


def evaluate(
    translator: Any,
    name: str,
    pairs: Any,
    method: str,
    options: Mapping[str, Any],
    progress: Callable[[str, int], Any] = lambda name, done: None,
) -> Result:
    """Translates a test set and scores it; the time is that of searching, once everything is compiled."""
    from kmha.translation import scores

    def ignore(row: int, text: str) -> None:
        """What is to be said of a sentence is counted, or shows in the score."""

    translator.translate(pairs.source[:1], method, note=ignore, **options)
    start = time.perf_counter()
    found = translator.translate(
        pairs.source, method, note=ignore, progress=lambda done: progress(name, done), **options
    )
    seconds = time.perf_counter() - start
    best = [translations[0] for translations in found]
    texts = [translation.one_line(one.text) for one in best]
    config = translator.config
    exact = config.task == "dates"
    return Result(
        name,
        texts,
        scores.every_score(texts, pairs.target, config.target_language, exact),
        sum(len(one.ids) + one.finished for one in best),
        seconds,
        sum(not one.finished for one in best),
    )


def describe(translator: Any, method: str, options: Mapping[str, Any], step: int | None) -> dict[str, Any]:
    """What the scores are of: the model, the search, the machine."""
    from kmha.bench import machine

    config = translator.config
    settings = dataclasses.asdict(config.settings.search) if method == "beam" else {}
    return {
        "command": shlex.join(["kmha", *sys.argv[1:]]),
        "task": config.task,
        "languages": [config.source_language, config.target_language],
        "parameters": translator.model.count_params(),
        "step": step,
        "search": {"method": method, **settings, **options},
        "machine": machine.describe(),
    }


@contextmanager
def _progress(sets: Mapping[str, Any]) -> Iterator[Callable[[str, int], Any]]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {name: bar.add_task(name, total=len(pairs)) for name, pairs in sets.items()}
        yield lambda name, done: bar.update(tasks[name], completed=done)


def _show(results: Sequence[Result], about: Mapping[str, Any]) -> None:
    screen = common.screen()
    source, target = about["languages"]
    search = ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in about["search"].items() if name != "n_best"
    )
    title = f"{source} → {target}, {about['parameters']:,} parameters; {search.removeprefix('method ')}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("test set", no_wrap=True)
    for name in ("sentences", *(score.name.replace(", ", ",\n") for score in results[0].scores), "tokens/s"):
        table.add_column(name, justify="right", vertical="bottom")
    for result in results:
        values = [f"{score.value:.2f}" for score in result.scores]
        speed = f"{result.tokens / result.seconds:,.0f}"
        table.add_row(result.name, f"{len(result.translations):,}", *values, speed)
    screen.print(table)
    for score in results[0].scores:
        screen.print(f"{score.name}: {score.signature}", markup=False, soft_wrap=True)
    screen.print("tokens/s: of the translations, ends included, with reading, search and writing.", markup=False)
    for result in results:
        if result.unfinished:
            screen.print(f"{result.name}: {result.unfinished} translations were cut off before they came to an end.")
