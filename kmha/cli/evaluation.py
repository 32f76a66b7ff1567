"""`kmha evaluate`: translate test sets, and print scores and speed."""

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

from kmha import atomic_files
from kmha.cli import common, translation
from kmha.cli.options import SearchChoice
from kmha.translation.search import METHODS

VALIDATION = "validation"


@dataclasses.dataclass(frozen=True)
class DataChoice:
    """The test sets that the options choose."""

    folder: Path | None = None
    source: Path | None = None
    target: Path | None = None
    tests: tuple[str, ...] = ()

    def sets(self, config: Any) -> dict[str, Any]:
        """Return the test sets, keyed by name, for a model with this config."""
        from kmha.translation.corpora import CorpusError

        try:
            sets = self._all_sets(config)
        except CorpusError as error:
            raise click.ClickException(str(error)) from None
        unknown = [name for name in self.tests if name not in sets]
        if unknown:
            message = f"there is no test set {unknown[0]}. There are: {', '.join(sets)}."
            raise click.BadParameter(message, param_hint="'--test'")
        return {name: sets[name] for name in self.tests or [name for name in sets if name != VALIDATION]}

    def _all_sets(self, config: Any) -> dict[str, Any]:
        from kmha.translation import corpora, preparation

        if self.source is not None and self.target is not None:
            if self.folder is not None:
                raise click.UsageError("--data is for Multi30k: leave it out with --source and --target.")
            pairs = corpora.read_parallel(self.source, self.target)
            return {pairs.name: pairs}
        if config.task == "files":
            fix = "add --source FILE --target FILE to test it"
            raise click.UsageError(f"this model was trained on your own files: {fix}.")
        direction = f"{config.source_language}-{config.target_language}"
        corpus = preparation.CorpusSource(config.task, data=self.folder, direction=direction).read()
        if corpus.notice is not None:
            click.echo(corpus.notice, err=True)
        return {**corpus.tests, VALIDATION: corpus.validation}


@dataclasses.dataclass(frozen=True)
class SetResult:
    """Translations, scores and speed for one test set."""

    name: str
    translations: list[str]
    scores: list[Any]
    tokens: int
    seconds: float
    unfinished: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the translations, for JSON."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["sentences"] = len(values.pop("translations"))
        values["tokens_per_second"] = self.tokens / self.seconds
        return {**values, "scores": [dataclasses.asdict(score) for score in self.scores]}


def evaluate(
    folder: Path,
    data: DataChoice,
    search: SearchChoice,
    *,
    step: int | None,
    json_file: Path | None,
    output: Path | None,
) -> int:
    """Evaluate a model, and return the exit status."""
    if (data.source is None) != (data.target is None):
        raise click.UsageError("--source and --target go together: line n of one translates line n of the other.")
    for package in ("sacrebleu", "sacremoses"):
        if importlib.util.find_spec(package) is None:
            raise common.not_installed(f"{package}, which kmha evaluate needs,", "[translate]")
    translator = translation.load(folder, step)
    sets = data.sets(translator.config)
    if output is not None and len(sets) > 1:
        raise click.UsageError(f"--output holds one test set: add --test with one of {', '.join(sets)}.")
    try:
        with _progress(sets) as progress:
            results = [score_test_set(translator, name, pairs, search, progress) for name, pairs in sets.items()]
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        return common.INTERRUPTED
    about = describe(translator, search, step)
    if json_file is not None:
        atomic_files.write_json(json_file, {**about, "tests": [result.to_dict() for result in results]})
    if output is not None:
        atomic_files.write_text(output, "".join(f"{line}\n" for line in results[0].translations))
    _show(results, about)  # last, because the reader of the pipe may have gone
    return 0


def score_test_set(
    translator: Any,
    name: str,
    pairs: Any,
    search: SearchChoice,
    progress: Callable[[str, int], Any] = lambda name, done: None,
) -> SetResult:
    """Translate a test set and score it. The time does not include compilation."""
    from kmha.translation import scores

    # Warnings about single sentences are ignored: they are counted, or show in the score.
    options = {"note": lambda row, text: None, **search.options}
    translator.translate(pairs.source[:1], search.method, **options)
    start = time.perf_counter()
    found = translator.translate(pairs.source, search.method, progress=lambda done: progress(name, done), **options)
    seconds = time.perf_counter() - start
    best = [translations[0] for translations in found]
    texts = [translation.one_line(one.text) for one in best]
    config = translator.config
    return SetResult(
        name,
        texts,
        scores.every_score(texts, pairs.target, config.target_language, exact=config.task == "dates"),
        sum(len(one.ids) + one.finished for one in best),
        seconds,
        sum(not one.finished for one in best),
    )


def describe(translator: Any, search: SearchChoice, step: int | None) -> dict[str, Any]:
    """Describe the model, the search and the machine, for JSON."""
    from kmha.bench import machine

    config = translator.config
    method, settings = METHODS[search.method], config.settings.search
    defaults = {name: option.default for name, option in method.options().items()}
    options = {**defaults, **method.arguments(settings, search.options), "max_length": settings.max_length}
    return {
        "command": shlex.join(["kmha", *sys.argv[1:]]),
        "task": config.task,
        "languages": [config.source_language, config.target_language],
        "parameters": translator.model.count_params(),
        "step": step,
        "search": {"method": search.method, **options},
        "machine": machine.describe(),
    }


@contextmanager
def _progress(sets: Mapping[str, Any]) -> Iterator[Callable[[str, int], Any]]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {name: bar.add_task(name, total=len(pairs)) for name, pairs in sets.items()}
        yield lambda name, done: bar.update(tasks[name], completed=done)


def _show(results: Sequence[SetResult], about: Mapping[str, Any]) -> None:
    screen = common.screen()
    source, target = about["languages"]
    chosen = {name: value for name, value in about["search"].items() if name not in ("n_best", "samples")}
    search = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in chosen.items() if value is not None)
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
    screen.print("tokens/s: tokens of the translations, with their ends; the time covers reading, search and writing.")
    for result in results:
        if result.unfinished:
            screen.print(f"{result.name}: {result.unfinished} translations were truncated before their end.")
