"""`kmha translate`: texts from arguments, a pipe or a prompt; translations, scores and pictures out."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kmha.cli import common, texts_given

PICTURES = ".png", ".svg"  # those of kmha.show.save
LINES = 256  # of a pipe, that are translated together at most


@dataclasses.dataclass(frozen=True)
class Search:
    """What the options choose of the search; what is None is as the model's settings have it."""

    beam: int | None = None
    greedy: bool = False
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    length_penalty: float | None = None
    n_best: int = 1

    def method(self) -> tuple[str, dict[str, Any]]:
        """The name and the options of `Translator.translate`."""
        sampling = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given = {name: value for name, value in sampling.items() if value is not None}
        beams = {"beam_size": self.beam, "length_penalty": self.length_penalty}
        beams = {name: value for name, value in beams.items() if value is not None}
        chosen = [
            name for name, on in (("--beam", self.beam), ("--greedy", self.greedy), ("--sample", self.sample)) if on
        ]
        if len(chosen) > 1:
            raise click.UsageError(f"{' and '.join(chosen)} are different searches: give one of them.")
        if given and not self.sample:
            raise click.UsageError(f"--{next(iter(given)).replace('_', '-')} is for sampling: add --sample.")
        if self.length_penalty is not None and (self.greedy or self.sample):
            raise click.UsageError("--length-penalty is for the beam search: leave --greedy and --sample out.")
        if self.sample:
            return "sampling", {**given, "samples": self.n_best}
        if self.greedy:
            if self.n_best > 1:
                raise click.UsageError("--greedy finds one translation: leave --n-best out, or --greedy.")
            return "greedy", {}
        if self.beam is not None and self.beam < self.n_best:
            raise click.UsageError(f"--n-best {self.n_best} needs a beam as wide. Received: --beam {self.beam}.")
        return "beam", {**beams, "n_best": self.n_best}


@dataclasses.dataclass(frozen=True)
class Shown:
    """What the options choose to show besides the best translation."""

    as_json: bool = False
    attention: bool = False
    picture: Path | None = None
    layer: int = -1
    head: int | None = None


def run(folder: Path, texts: Sequence[str], search: Search, shown: Shown) -> int:
    """Translates what is given; returns the exit status."""
    search.method()  # so that its errors come before the seconds that TensorFlow takes
    if shown.picture is not None:
        _check_picture(shown.picture, texts)
    answers = Answers(load(folder), search, shown)
    if texts:
        answers.give(texts_given.decoded([os.fsencode(text) for text in texts], "text"), "text")
    elif texts_given.at_a_terminal():
        _converse(answers)
    elif sys.stdin is not None:
        done = 0
        for lines in texts_given.chunks(sys.stdin.buffer, LINES):
            answers.give(texts_given.decoded(lines, "line", done), "line", done)
            done += len(lines)
    return 0


def load(folder: Path, step: int | None = None) -> Any:
    """The translator of a model folder; what is wrong with it is one line."""
    if importlib.util.find_spec("tokenizers") is None:
        raise common.not_installed("tokenizers, which reads and writes text for the model,", "[translate]")
    with _busy(f"loading {folder}"):
        common.choose_backend("tensorflow")
        from kmha.translation.folder import FolderError
        from kmha.translation.translator import Translator

        try:
            return Translator.load(folder, step)
        except FolderError as error:
            raise click.ClickException(str(error)) from None


class Answers:
    """Writes the translations of texts, in their order."""

    def __init__(self, translator: Any, search: Search, shown: Shown) -> None:
        self._translator, self._shown = translator, shown
        self._method, self._options = search.method()
        self._best = search.n_best

    def give(self, texts: Sequence[str], what: str = "", before: int = 0) -> None:
        """Writes those of `texts`; notes name `what` and its number, which is one more than those `before`."""
        notes: dict[int, list[str]] = {}

        def note(row: int, text: str) -> None:
            notes.setdefault(row, []).append(text)
            click.echo(f"{what} {before + row + 1}: {text}" if what else text, err=True)

        found = self._translator.translate(texts, self._method, note=note, **self._options)
        for row, (text, translations) in enumerate(zip(texts, found, strict=True)):
            attention = self._attention(text, translations[0])
            if self._shown.as_json:
                click.echo(_json(text, translations, notes.get(row, []), attention and self._numbers(attention)))
                continue
            for one in translations:
                scored = f"{before + row + 1}\t{one.score:.4f}\t" if self._best > 1 else ""
                click.echo(scored + one_line(one.text))
            if attention is not None and self._shown.attention:
                click.echo(self._drawn(attention))

    def _attention(self, text: str, best: Any) -> Any:
        shown = self._shown
        if not (shown.attention or shown.picture) or not self._translator.tokenizer.encode([text])[0]:
            return None
        attention = self._translator.attention(text, best, note=lambda row, text: None)  # said already
        try:
            attention.cross(shown.layer, shown.head)
        except ValueError as error:
            raise click.UsageError(f"--attention-layer, --attention-head: {error}") from None
        if shown.picture is not None:
            _draw(shown.picture, attention, shown)
        return attention

    def _numbers(self, attention: Any) -> dict[str, Any]:
        scores = attention.cross(self._shown.layer, self._shown.head)
        rounded = [[round(float(value), 6) for value in row] for row in scores]
        return {"source": attention.source, "target": attention.target_out, "scores": rounded}

    def _drawn(self, attention: Any) -> str:
        from kmha.show import terminal

        scores = attention.cross(self._shown.layer, self._shown.head)
        return f"\n{terminal(scores, attention.target_out, attention.source)}\n"


def _converse(answers: Answers) -> None:
    """Asks for one text after the other, until the end of input (Ctrl-D)."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # has `input` edit lines, and remember them
    click.echo("A text and Enter; Ctrl-D ends.", err=True)
    while True:
        try:
            text = texts_given.asked()
            if text.strip():
                answers.give([text])
        except EOFError:
            click.echo("", err=True)
            return
        except KeyboardInterrupt:
            click.echo("", err=True)


def _json(text: str, translations: Sequence[Any], notes: Sequence[str], attention: dict[str, Any] | None) -> str:
    names = "text", "score", "log_probability", "finished"
    best = [{name: getattr(one, name) for name in names} for one in translations]
    record: dict[str, Any] = {"source": text, "translations": best, "notes": [*notes]}
    if attention is not None:
        record["attention"] = attention
    return json.dumps(record, ensure_ascii=False)


def one_line(text: str) -> str:
    """One line in gives one line out, whatever a model writes."""
    return " ".join(text.splitlines())


def _check_picture(path: Path, texts: Sequence[str]) -> None:
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"{path} must end in {' or '.join(PICTURES)}.", param_hint="'--picture'")
    if len(texts) != 1 or not texts[0].strip():
        raise click.UsageError(f"--picture draws one sentence: give one TEXT. Received: {len(texts)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise common.not_installed("--picture needs matplotlib, which", "[plot]")


def _draw(path: Path, attention: Any, shown: Shown) -> None:
    from kmha import show

    rows, columns = attention.target_out, attention.source
    if shown.head is None:
        figure = show.heads(attention.heads(shown.layer), rows, columns)
    else:
        figure = show.heatmap(attention.cross(shown.layer, shown.head), rows, columns)
    show.save(figure, path)


def _busy(what: str) -> Any:
    """A spinner on a terminal, and nothing elsewhere."""
    screen = Console(stderr=True)
    busy: Callable[..., Any] = screen.status if screen.is_terminal else contextlib.nullcontext
    return busy(what)
