"""`kmha train`: prepare and run a training, show its progress, and say how to continue."""

import contextlib
import dataclasses
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kmha.cli import common, translation
from kmha.translation import devices, folder, preparation
from kmha.translation.settings import Settings

PACKAGES = ("tokenizers", "sacrebleu")  # and babel for the dates
LINE = 150  # maximum number of characters of a sample on the screen; the log has the whole sample


@dataclasses.dataclass(frozen=True)
class TrainingChoice:
    """The options of `kmha train`."""

    task: str | None
    out: Path | None
    data: Path | None
    source: Path | None
    target: Path | None
    validation_source: Path | None
    validation_target: Path | None
    direction: str | None
    profile: str
    entries: tuple[str, ...]
    minutes: float | None
    seed: int
    dtype: str
    restart: bool
    devices: int = 1
    probe: tuple[str, str] | None = None

    def resolved_task(self) -> str:
        """Return the task, which the options for files can imply. Raise an error if they imply different tasks."""
        files = "source", "target", "validation_source", "validation_target"
        given = [f"--{name.replace('_', '-')}" for name in files if getattr(self, name) is not None]
        task = self.task or ("files" if given else "dates")
        if task != "files" and given:
            raise click.UsageError(f"{given[0]} is for your own text: leave {task} out.")
        if task != "multi30k":
            for name, value in (("--data", self.data), ("--direction", self.direction)):
                if value is not None:
                    raise click.UsageError(f"{name} is for multi30k, not for {task}: kmha train multi30k {name} …")
        if task == "files" and (self.validation_source is None) != (self.validation_target is None):
            raise click.UsageError("--validation-source and --validation-target go together: give both or neither.")
        return task

    def folder(self) -> Path:
        """Return the model folder, by default named after the task."""
        task = self.resolved_task()
        direction = f"-{self.direction}" if self.direction else ""
        return self.out or Path(f"{task}{direction}-model")

    def validation(self) -> tuple[Path, Path] | None:
        """Return the files to validate on, if they are given."""
        if self.validation_source is None or self.validation_target is None:
            return None
        return self.validation_source, self.validation_target


class ProgressDisplay(preparation.TrainingListener):
    """Shows the progress of a run on standard error: with a bar on a terminal, otherwise in lines."""

    def __init__(self, screen: Console, total: int, path: Path, probe: tuple[str, str] | None = None) -> None:
        self._screen, self._total, self._path, self._probe = screen, total, path, probe
        columns = TextColumn("step"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        self._bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._task = self._bar.add_task("", total=total, completed=0)
        self.checked = 0  # step from which the run can be resumed
        self.done = 0
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        self._screen.print(text, markup=False)

    def resume_point(self) -> str:
        """Return in words the step from which the same command resumes, or "" if there is no such step."""
        return f" from step {self.checked:,}" if self.checked else ""

    def resumed(self, step: int) -> None:
        self.checked = self.done = step
        self.note(f"resuming at step {step:,} of {self._total:,}")

    def step(self, step: int, loss: float) -> None:
        now = time.monotonic()
        self._first = self._first or (now, step)
        self.done = step
        if self._screen.is_terminal:
            text = f"loss {loss:.3f} · {self._left(now, step)}"
            self._bar.update(self._task, completed=step, description=text)

    def check(self, row: dict[str, float], samples: str) -> None:
        """Print the results of a check, and a sample."""
        self.checked = int(row["step"])
        score = f"BLEU {row['bleu']:.1f}" if "bleu" in row else f"exact matches {row['exact_match']:.1f} %"
        parts = (
            f"step {self.checked:,} of {self._total:,}",
            f"{row['minutes']:.1f} min",
            f"loss {row['loss']:.3f}, validation {row['val_loss']:.3f}",
            f"accuracy {100 * row['token_accuracy']:.1f} %, validation {100 * row['val_token_accuracy']:.1f} %",
            f"perplexity {row['val_perplexity']:.2f}",
            score,
            f"{row['tokens_per_second']:,.0f} tokens/s",
            self._left(time.monotonic(), self.checked),
        )
        self.note(" · ".join(parts))
        for line in samples.split("\n  source", 1)[0].splitlines():
            self.note(line if len(line) <= LINE else f"{line[: LINE - 1]}…")

    def attention(self, recorded: Mapping[int, Any]) -> None:
        """Write the page that shows the attention of the probe at each check."""
        from kmha.show import page

        path, title = self._path / folder.LOGS / folder.ATTENTION_PAGE, f"Attention of {self._path.absolute().name}"
        page(recorded, path, titles=[" → ".join(self._probe or ())], title=title)

    def _left(self, now: float, step: int) -> str:
        """Return the remaining time at the pace of this session, including checks."""
        if self._first is None or step == self._first[1]:
            return ""
        pace = (now - self._first[0]) / (step - self._first[1])
        minutes = (self._total - step) * pace / 60
        return f"{minutes:.0f} min left" if minutes >= 1 else f"{60 * minutes:.0f} s left"


def train(choice: TrainingChoice) -> int:
    """Train a model, and return the exit status."""
    started = time.monotonic()
    task = choice.resolved_task()
    _check_packages(task)
    choice = _readable(choice)
    backend = common.backend_of_environment()
    try:
        worker, workers = devices.workers_of(backend)
        devices.check(backend, choice.devices)
        if workers > 1 and choice.minutes is not None:
            raise click.UsageError("--minutes is for one machine, because clocks differ: use --set training.steps=N.")
        screen = Console(stderr=True, highlight=False, soft_wrap=True, quiet=worker > 0)
        wanted, corpus = _prepare(choice, task, screen)
        used = _start(choice) if workers > 1 else None
        with _folder(choice, wanted, corpus, used) as (path, config, tokenizer):
            if config.finished:
                screen.print(f"{path} is finished: {_summary(config)}. Use --restart to train it again.", markup=False)
                return 0
            if choice.minutes is not None and config.result.get("minutes_allowed", 0.0) >= choice.minutes:
                text = f"{path} has used up its time: {_summary(config)}. Give it more with --minutes."
                screen.print(text, markup=False)
                return 0
            return _train(choice, (path, config, tokenizer, corpus), used, screen, started)
    except KeyboardInterrupt:
        click.echo("Stopped before training started.", err=True)
        return common.INTERRUPTED
    except (
        ValueError
    ) as error:  # SettingsError, CorpusError, TokenizerError, FolderError, CheckpointError, DevicesError
        if type(error).__module__.startswith("kmha."):
            raise click.ClickException(str(error)) from None
        raise


def _readable(choice: TrainingChoice) -> TrainingChoice:
    """Return the choice with a probe whose texts are valid and whose source has words, before any file changes."""
    if choice.probe is None:
        return choice
    source, target = translation.decode([os.fsencode(text) for text in choice.probe], "--probe, text")
    if not source.strip():
        raise click.UsageError(f"the first text of --probe has no words. Received: {source!r}.")
    return dataclasses.replace(choice, probe=(source, target))


def _start(choice: TrainingChoice) -> devices.Devices:
    # Without AVX-512, TensorFlow does not use oneDNN by default, although it halves the time of a step.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    common.choose_backend_of_environment()
    return devices.start(choice.devices)


@contextlib.contextmanager
def _folder(choice: TrainingChoice, wanted: Any, corpus: Any, used: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the folder to train in, its config and its tokenizer. Only the first worker trains in the model folder.

    The other workers train in a copy, which they delete afterwards.
    """
    path = choice.folder()
    if used is None or used.worker == 0:
        with preparation.lock_folder(path):
            prepared = preparation.prepare_folder(path, wanted, corpus, choice.restart)
            for _ in range(2 if used else 0):  # before and after the others copy it
                used.wait()
            yield path, *prepared
        return
    used.wait()
    with tempfile.TemporaryDirectory() as folder:
        if not path.is_dir():
            raise devices.DevicesError(f"worker {used.worker} has no {path}: --out must be a folder that all share.")
        copy = Path(shutil.copytree(path, Path(folder) / "model"))
        used.wait()
        yield copy, *preparation.prepare_folder(copy, wanted, corpus)


def _prepare(choice: TrainingChoice, task: str, screen: Console) -> tuple[Any, Any]:
    """Return the config of the requested run, and its corpus. This needs no TensorFlow, so errors show at once."""
    settings = Settings.load(choice.profile, task, choice.entries)
    direction = choice.direction or "en-de"
    source = preparation.CorpusSource(task, choice.data, direction, choice.source, choice.target, choice.validation())
    corpus = source.read()
    if corpus.notice:
        screen.print(corpus.notice, markup=False)
    pairs, languages = corpus.train, f"{corpus.source_language} to {corpus.target_language}"
    dropped = f" ({pairs.dropped:,} dropped because one side is empty)" if pairs.dropped else ""
    counts = f"{len(pairs):,} training pairs{dropped}, {len(corpus.validation):,} validation pairs"
    screen.print(f"{task}, {languages}: {counts}", markup=False)
    return preparation.configure(source, corpus, settings, choice.seed, choice.dtype), corpus


def _train(choice: TrainingChoice, prepared: tuple[Any, ...], used: Any, screen: Console, started: float) -> int:
    path, config = prepared[:2]
    display = ProgressDisplay(screen, config.settings.training.steps, path, choice.probe)
    try:
        with display:
            used = used or _start(choice)
            from kmha.translation.training import TrainingRun

            options: dict[str, Any] = {"minutes": choice.minutes, "started": started, "devices": used}
            options["probe"] = choice.probe
            config = TrainingRun(*prepared, listener=display, **options).train()
    except KeyboardInterrupt:
        at = f"at step {display.done:,}" if display.done else "before the first step"
        display.note(f"Stopped {at}. The same command resumes{display.resume_point()}:")
        display.note(f"  {shlex.join(['kmha', *(one for one in sys.argv[1:] if one != '--restart')])}")
        return common.INTERRUPTED
    except OSError as error:
        fix = f"The last checkpoint is intact: fix this, and the same command resumes{display.resume_point()}."
        raise click.ClickException(f"cannot write {path}: {common.describe_os_error(error)} {fix}") from None
    if used.worker:
        return 0
    click.echo(f"{path}: {_summary(config)}.")
    if config.result["ended"] == "diverged":
        why = "the loss became NaN or infinite. Train again with --restart and a lower training.peak_learning_rate."
        raise click.ClickException(why)
    if choice.probe is not None:
        click.echo(f"Attention at each check: {path / folder.LOGS / folder.ATTENTION_PAGE}")
    if config.finished:
        click.echo(f"Try it: kmha translate {shlex.quote(str(path))}")
    else:
        click.echo("Time is up. The same command with more --minutes continues from here.")
    return 0


def _check_packages(task: str) -> None:
    for package in (*PACKAGES, *(["babel"] if task == "dates" else [])):
        if importlib.util.find_spec(package) is None:
            raise common.not_installed(f"{package}, which kmha train needs,", "[translate]")


def _summary(config: Any) -> str:
    result = config.result
    names = {"exact_match": "exact match", "bleu": "BLEU", "val_loss": "loss"}
    values = ", ".join(f"{names[name]} {value:.2f}" for name, value in result["validation"].items())
    count = len(result["average_of_steps"])
    model = f"the average of {count} checkpoints" if count > 1 else f"step {result['average_of_steps'][0]:,}"
    return f"{result['step']:,} steps, {result['minutes']:.1f} minutes; {model}: {values} on the validation set"
