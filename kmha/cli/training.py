"""`kmha train`: settles what is to be trained, shows how far it is, and says how to go on."""

import dataclasses
import importlib.util
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kmha.cli import common
from kmha.cli.training_display import Display

NEEDED = ("tokenizers", "sacrebleu")  # and for the dates babel


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the options choose."""

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

    def resolved_task(self) -> str:
        """The task that is named, or that the options for files imply.

        Raises:
            click.UsageError: options of different tasks.
        """
        files = {
            "--source": self.source,
            "--target": self.target,
            "--validation-source": self.validation_source,
            "--validation-target": self.validation_target,
        }
        given = [name for name, path in files.items() if path is not None]
        task = self.task or ("files" if given else "dates")
        if task != "files" and given:
            raise click.UsageError(f"{given[0]} is for text of your own: leave out {task}.")
        if task != "multi30k":
            for name, value in (("--data", self.data), ("--direction", self.direction)):
                if value is not None:
                    raise click.UsageError(
                        f"{name} belongs to multi30k, and this is {task}: kmha train multi30k {name} …"
                    )
        if task == "files" and (self.validation_source is None) != (self.validation_target is None):
            raise click.UsageError("--validation-source and --validation-target are given together, or neither.")
        return task

    def folder(self) -> Path:
        """The model folder, by default named after the task."""
        task = self.resolved_task()
        direction = f"-{self.direction}" if self.direction else ""
        return self.out or Path(f"{task}{direction}-model")


def run(choice: Choice) -> int:
    """Trains; returns the exit status."""
    begun = time.monotonic()
    task = choice.resolved_task()
    _check_installed(task)
    screen = Console(stderr=True, highlight=False, soft_wrap=True)
    path = choice.folder()
    try:
        wanted, corpus = _wanted(choice, task, screen)
        from kmha.translation import start

        with start.alone(path):
            config, tokenizer = start.begin(path, wanted, corpus, choice.restart)
            if config.finished:
                screen.print(f"{path} is finished: {_summary(config)}. Use --restart to train it again.", markup=False)
                return 0
            if _used_up(config, choice.minutes):
                screen.print(
                    f"{path} has used its minutes: {_summary(config)}. Give more with --minutes.", markup=False
                )
                return 0
            return _train(choice, (path, config, tokenizer, corpus), screen, begun)
    except KeyboardInterrupt:
        screen.print("Stopped before training began.")
        return common.INTERRUPTED
    except ValueError as error:  # SettingsError, CorpusError, TokenizerError, FolderError, CheckpointError
        if type(error).__module__.startswith("kmha."):
            raise click.ClickException(str(error)) from None
        raise


def _wanted(choice: Choice, task: str, screen: Console) -> tuple[Any, Any]:
    """The config of the run that is asked for, and its corpus; without TensorFlow, so that errors show at once."""
    from kmha.translation import start
    from kmha.translation.settings import Settings

    settings = Settings.load(choice.profile, task, choice.entries)
    validation = (
        None
        if choice.validation_source is None or choice.validation_target is None
        else (choice.validation_source, choice.validation_target)
    )
    direction = choice.direction or "en-de"
    source = start.Source(task, choice.data, direction, choice.source, choice.target, validation)
    corpus = source.read()
    if corpus.notice:
        screen.print(corpus.notice, markup=False)
    train, languages = corpus.train, f"{corpus.source_language} to {corpus.target_language}"
    dropped = f" ({train.dropped:,} with an empty side dropped)" if train.dropped else ""
    screen.print(
        f"{task}, {languages}: {len(train):,} pairs to train on{dropped}, {len(corpus.validation):,} to validate on",
        markup=False,
    )
    return start.configure(source, corpus, settings, choice.seed, choice.dtype), corpus


def _train(choice: Choice, begin: tuple[Any, ...], screen: Console, begun: float) -> int:
    path, config = begin[:2]
    display = Display(screen, config.settings.training.steps)
    try:
        with display:
            # Without AVX-512 TensorFlow leaves oneDNN out by itself; there a step takes half as long with it.
            os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
            common.choose_backend("tensorflow")
            from kmha.translation.train import Run

            config = Run(*begin, minutes=choice.minutes, listener=display, begun=begun)()
    except KeyboardInterrupt:
        at = f"at step {display.done:,}" if display.done else "before the first step"
        display.say(f"Stopped {at}. The same command goes on{display.from_where()}:")
        display.say(f"  {shlex.join(['kmha', *(one for one in sys.argv[1:] if one != '--restart')])}")
        return common.INTERRUPTED
    except OSError as error:
        going = f"What was kept is whole: once that is mended, the same command goes on{display.from_where()}."
        raise click.ClickException(f"{path} cannot be written: {common.told(error)} {going}") from None
    click.echo(f"{path}: {_summary(config)}.")
    if config.result["ended"] == "diverged":
        why = "the loss was no number any more. Train again with --restart and a lower training.peak_learning_rate."
        raise click.ClickException(why)
    if config.finished:
        click.echo(f"Try it: kmha translate {shlex.quote(str(path))}")
    else:
        click.echo("Time is up. The same command with more --minutes goes on from here.")
    return 0


def _check_installed(task: str) -> None:
    for package in (*NEEDED, *(["babel"] if task == "dates" else [])):
        if importlib.util.find_spec(package) is None:
            raise common.not_installed(f"{package}, which training a translator needs,", "[translate]")


def _used_up(config: Any, minutes: float | None) -> bool:
    """Whether a run that its clock ended has no more time now than then."""
    return minutes is not None and config.result.get("minutes_allowed", 0.0) >= minutes


def _summary(config: Any) -> str:
    result = config.result
    names = {"exact_match": "exact match", "bleu": "BLEU", "val_loss": "loss"}
    values = ", ".join(f"{names[name]} {value:.2f}" for name, value in result["validation"].items())
    count = len(result["average_of_steps"])
    of = f"the average of {count} checks" if count > 1 else f"step {result['average_of_steps'][0]:,}"
    return f"{result['step']:,} steps, {result['minutes']:.1f} minutes; {of}: {values} on the validation set"
