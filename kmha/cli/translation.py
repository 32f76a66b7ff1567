"""`kmha translate`: read texts from arguments, a pipe or a prompt, print translations and draw attention."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
from rich.console import Console

from kmha.cli import common
from kmha.cli.options import SearchChoice

PICTURES = ".png", ".svg"  # suffixes that kmha.show.save can write
LINES = 256  # maximum number of lines from a pipe that are translated together
# Control characters except tabs, and the marks that turn the rest of a line around.
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
READ = 1 << 16  # maximum number of bytes that one read takes from a pipe


@dataclasses.dataclass(frozen=True)
class OutputChoice:
    """The options for printing and drawing."""

    as_json: bool = False
    attention: bool = False
    picture: Path | None = None
    layer: int = -1
    head: int | None = None


def translate(folder: Path, texts: Sequence[str], search: SearchChoice, output: OutputChoice) -> int:
    """Translate texts, and return the exit status."""
    if output.picture is not None:
        _check_picture(output.picture, texts)
    printer = TranslationPrinter(load(folder), search, output)
    if texts:
        printer.print(decode([os.fsencode(text) for text in texts], "text"), "text")
    elif is_interactive():
        _prompt(printer)
    elif sys.stdin is not None:
        done = 0
        for lines in chunks(sys.stdin.buffer, LINES):
            printer.print(decode(lines, "line", done), "line", done)
            done += len(lines)
    return 0


def load(folder: Path, step: int | None = None) -> Any:
    """Return the translator of a model folder. Report errors in one line."""
    if importlib.util.find_spec("tokenizers") is None:
        raise common.not_installed("tokenizers, which kmha translate needs,", "[translate]")
    screen = Console(stderr=True)
    with screen.status(f"loading {folder}") if screen.is_terminal else contextlib.nullcontext():
        common.choose_backend_of_environment()
        from kmha.translation.folder import FolderError
        from kmha.translation.translator import Translator

        try:
            return Translator.load(folder, step)
        except FolderError as error:
            raise click.ClickException(str(error)) from None


class TranslationPrinter:
    """Translates texts and prints their translations, in order."""

    def __init__(self, translator: Any, search: SearchChoice, output: OutputChoice) -> None:
        self._translator, self._search, self._output = translator, search, output

    def print(self, texts: Sequence[str], what: str = "", before: int = 0) -> None:
        """Translate `texts` and print the results. Warnings give `what` and the text's number, from `before` + 1."""
        notes: dict[int, list[str]] = {}

        def note(row: int, text: str) -> None:
            notes.setdefault(row, []).append(text)
            click.echo(f"{what} {before + row + 1}: {text}" if what else text, err=True)

        found = self._translator.translate(texts, self._search.method, note=note, **self._search.options)
        numbered = self._search.several
        for row, (text, translations) in enumerate(zip(texts, found, strict=True)):
            attention = self._attention(text, translations[0])
            if self._output.as_json:
                record = _json(text, translations, notes.get(row, []), attention and self._numbers(attention))
                click.echo(_written_out(record))
                continue
            for one in translations:
                prefix = f"{before + row + 1}\t{one.score:.4f}\t" if numbered else ""
                click.echo(prefix + _written_out(one_line(one.text)))
            if attention is not None and self._output.attention:
                click.echo(self._drawn(attention))

    def _attention(self, text: str, best: Any) -> Any:
        output = self._output
        if not (output.attention or output.picture) or not self._translator.tokenizer.encode([text])[0]:
            return None
        attention = self._translator.attention(text, best, note=lambda row, text: None)  # printed before
        try:
            attention.cross(output.layer, output.head)
        except ValueError as error:
            raise click.UsageError(f"--attention-layer, --attention-head: {error}") from None
        if output.picture is not None:
            _draw(output.picture, attention, output)
        return attention

    def _numbers(self, attention: Any) -> dict[str, Any]:
        scores = attention.cross(self._output.layer, self._output.head)
        rounded = [[round(float(value), 6) for value in row] for row in scores]
        return {"source": attention.source, "target": attention.target_out, "scores": rounded}

    def _drawn(self, attention: Any) -> str:
        from kmha.show import terminal

        scores = attention.cross(self._output.layer, self._output.head)
        return f"\n{terminal(scores, attention.target_out, attention.source)}\n"


def chunks(stream: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """Yield the lines of a stream as they arrive, at most `size` at a time, without waiting for later lines.

    >>> import io
    >>> [*chunks(io.BytesIO(b"one\\ntwo\\n\\nfour"), 3)]
    [[b'one', b'two', b''], [b'four']]
    """
    rest = b""
    while data := stream.read1(READ):  # type: ignore[attr-defined]
        *lines, rest = (rest + data).split(b"\n")
        for start in range(0, len(lines), size):
            yield lines[start : start + size]
    if rest:
        yield [rest]


def decode(lines: Sequence[bytes], what: str, before: int = 0) -> list[str]:
    """Decode lines. Warnings of invalid UTF-8 give `what` and the line's number, counted from `before` + 1."""
    texts = []
    for row, line in enumerate(lines):
        line = line.removesuffix(b"\r")
        if before + row == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")  # byte order mark
        try:
            texts.append(line.decode())
        except UnicodeDecodeError:
            click.echo(f"{what} {before + row + 1}: it is not UTF-8; � replaces the invalid bytes.", err=True)
            texts.append(line.decode(errors="replace"))
    return texts


def is_interactive() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _prompt(printer: TranslationPrinter) -> None:
    """Ask for one text after another, until the end of input (Ctrl-D)."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # gives `input` editing and a history
    click.echo("Type a text and press Enter; Ctrl-D ends.", err=True)
    while True:
        try:
            text = _ask()
            if text.strip():
                printer.print([text])
        except EOFError:
            click.echo("", err=True)
            return
        except KeyboardInterrupt:
            click.echo("", err=True)


def _ask() -> str:
    """Return a typed line. The prompt goes to standard error if standard output, which `input` uses, is a file."""
    if sys.stdout.isatty():
        return input("> ")
    click.echo("> ", nl=False, err=True)
    return input()


def _json(text: str, translations: Sequence[Any], notes: Sequence[str], attention: dict[str, Any] | None) -> str:
    names = "text", "score", "log_probability", "finished"
    best = [{name: getattr(one, name) for name in names} for one in translations]
    record: dict[str, Any] = {"source": text, "translations": best, "notes": [*notes]}
    if attention is not None:
        record["attention"] = attention
    return json.dumps(record, ensure_ascii=False)


def one_line(text: str) -> str:
    """Join the lines of a translation, so that each input line gives one output line."""
    return " ".join(text.splitlines())


def _written_out(text: str) -> str:
    """Write out what controls a terminal. A vocabulary can hold anything. In JSON, these escapes mean the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _check_picture(path: Path, texts: Sequence[str]) -> None:
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"{path} must end in {' or '.join(PICTURES)}.", param_hint="'--picture'")
    if len(texts) != 1 or not texts[0].strip():
        raise click.UsageError(f"--picture draws one sentence: give one TEXT. Received: {len(texts)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise common.not_installed("matplotlib, which --picture needs,", "[plot]")


def _draw(path: Path, attention: Any, output: OutputChoice) -> None:
    from kmha import show

    rows, columns = attention.target_out, attention.source
    if output.head is None:
        figure = show.heads(attention.heads(output.layer), rows, columns)
    else:
        figure = show.heatmap(attention.cross(output.layer, output.head), rows, columns)
    show.save(figure, path)
