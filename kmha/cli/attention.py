"""`kmha attention`: translate texts, and write a page with pictures of the model's attention."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import click

from kmha.cli import translation
from kmha.cli.options import SearchChoice


def write(folder: Path, texts: Sequence[str], search: SearchChoice, output: Path, with_steps: bool) -> int:
    """Translate texts, write the page, print its path, and return the exit status."""
    translator = translation.load(folder)
    texts = translation.decode([os.fsencode(text) for text in texts], "text")
    for number, text in enumerate(texts, 1):
        if not translator.tokenizer.encode([text])[0]:
            raise click.UsageError(f"text {number} has no words. Received: {text!r}.")

    def note(row: int, message: str) -> None:
        click.echo(f"text {row + 1}: {message}", err=True)

    found = translator.translate(texts, search.method, note=note, **search.options)
    best = [translations[0] for translations in found]
    titles = [f"{text} → {one.text}" for text, one in zip(texts, best, strict=True)]
    from kmha.show import capture, page

    attention, steps = [], []
    for text, one in zip(texts, best, strict=True):
        with capture(translator.model, steps=True) if with_steps else contextlib.nullcontext() as captured:
            attention.append(translator.attention(text, one, note=_ignore))
        steps.append(captured.steps if captured else {})
    page(attention, output, steps=steps, titles=titles, title=f"Attention of {folder.absolute().name}")
    click.echo(output)
    return 0


def _ignore(row: int, message: str) -> None:
    """Drop the warnings of `attention`, which `translate` has given before."""
