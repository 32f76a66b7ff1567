"""The texts that `kmha translate` is given: from arguments, a pipe or a prompt."""

import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import click

READ = 1 << 16  # bytes of a pipe, at most, in one go


def chunks(stream: BinaryIO, size: int) -> Iterator[list[bytes]]:
    """The lines of a stream as they come: at least one, at most `size` at a time; none waits for those after it.

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


def decoded(lines: Sequence[bytes], what: str, before: int = 0) -> list[str]:
    """Their text; what is no UTF-8 is said, by what a line is called and its number, one more than those `before`."""
    texts = []
    for row, line in enumerate(lines):
        line = line.removesuffix(b"\r")
        if before + row == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the mark that some editors begin a file with
        try:
            texts.append(line.decode())
        except UnicodeDecodeError:
            click.echo(f"{what} {before + row + 1}: it is not UTF-8; what cannot be read is replaced by �.", err=True)
            texts.append(line.decode(errors="replace"))
    return texts


def at_a_terminal() -> bool:
    """Whether somebody types."""
    return sys.stdin is not None and sys.stdin.isatty()


def asked() -> str:
    """A line that is typed. `input` prints what it asks where translations go, which may be a file."""
    if sys.stdout.isatty():
        return input("> ")
    click.echo("> ", nl=False, err=True)
    return input()
