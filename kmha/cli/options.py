"""What the commands' options have in common."""

import math
import os
from pathlib import Path
from typing import Any

import click

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


class Number(click.FloatRange):
    """A range of numbers; the infinite and NaN, which compare as in it, are none."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return number


def in_a_folder(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """So that what takes minutes to find out does not end in a folder that does not exist or may not be written to."""
    if path is not None:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise click.BadParameter(f"the folder {path.parent} does not exist.", context, option)
        if not (path.exists() or os.access(folder, os.W_OK)):
            raise click.BadParameter(f"the folder {path.parent} may not be written to.", context, option)
    return path


def to_write(name: str, variable: str, text: str, dash: bool = False) -> Any:
    """An option that names a file to write."""
    kind = click.Path(dir_okay=False, writable=True, allow_dash=dash, path_type=Path)
    return click.option(name, variable, type=kind, metavar="FILE", callback=in_a_folder, help=text)


def choices(name: str, variable: str, values: Any, text: str) -> Any:
    """An option that may be given several times, with one of these values each time."""
    return click.option(name, variable, type=click.Choice(values), multiple=True, help=text)


def searching(command: Any) -> Any:
    """The options that translate and evaluate share."""
    size = click.option("--beam", type=click.IntRange(min=1), metavar="K", help="Beams. [default: as trained for]")
    greedy = click.option("--greedy", is_flag=True, help="Take the most probable token every time: quicker, worse.")
    penalty = click.option(
        "--length-penalty",
        type=Number(0, 10),
        metavar="A",
        help="Exponent of the beam search's, 0 to 1: more gives longer ones. [default: as trained for]",
    )
    return size(greedy(penalty(command)))
