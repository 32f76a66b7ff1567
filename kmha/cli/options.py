"""Types of options and options that several commands share."""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import click

from kmha.translation.search import DEFAULT, METHODS

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
N_BEST = "--n-best"  # Beam and Sampling call it differently


class Number(click.FloatRange):
    """A range of finite numbers. The ranges of click accept NaN."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return number


def in_a_folder(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return `path` if its folder exists and is writable, so that a command does not fail after minutes of work."""
    if path is not None:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise click.BadParameter(f"the folder {path.parent} does not exist.", context, option)
        if not (path.exists() or os.access(folder, os.W_OK)):
            raise click.BadParameter(f"the folder {path.parent} is not writable.", context, option)
    return path


def to_write(name: str, variable: str, text: str, dash: bool = False) -> Any:
    """Return an option that names an output file."""
    kind = click.Path(dir_okay=False, writable=True, allow_dash=dash, path_type=Path)
    return click.option(name, variable, type=kind, metavar="FILE", callback=in_a_folder, help=text)


def integer(name: str, text: str, least: int = 1, **options: Any) -> Any:
    """Return an option for an integer of at least `least`."""
    return click.option(name, type=click.IntRange(min=least), show_default=True, help=text, **options)


def choices(name: str, variable: str, values: Any, text: str) -> Any:
    """Return an option that can be given several times, each time with one of `values`."""
    return click.option(name, variable, type=click.Choice(values), multiple=True, help=text)


@dataclasses.dataclass(frozen=True)
class SearchChoice:
    """The search method and options given on the command line (`search_options`)."""

    method: str
    options: dict[str, Any]

    @property
    def several(self) -> bool:
        """`True` if the search returns several translations for each text."""
        options = METHODS[self.method].options()
        return any(options[name].flag == N_BEST for name in self.options)

    @classmethod
    def take(cls, parameters: dict[str, Any]) -> "SearchChoice":
        """Remove the choice from a command's parameters and return it. Raise an error if options conflict."""
        flagged = [method for method in METHODS.values() if method.flag]
        chosen = [method for method in flagged if parameters.pop(_variable(method.flag), False)]
        given = {flag: parameters.pop(_variable(flag)) for flag in _flags() if _variable(flag) in parameters}
        if len(chosen) > 1:
            names = " and ".join(method.flag for method in chosen)
            raise click.UsageError(f"{names} are different search methods: choose one of them.")
        method = chosen[0] if chosen else METHODS[DEFAULT]
        options = {}
        for flag, value in given.items():
            takers = [other for other in METHODS.values() if flag in _by_flag(other)]
            option = _by_flag(takers[0])[flag]
            if value is None or (value == option.default and not option.setting):
                continue  # an option at its default changes nothing, whatever the method
            if method not in takers:
                titles = " and ".join(taker.title for taker in takers)
                flags = " or ".join(taker.flag for taker in takers if taker.flag)
                fix = f"leave {method.flag} out" if method.flag else f"add {flags}"
                raise click.UsageError(f"{flag} is for {titles}: {fix}.")
            options[_by_flag(method)[flag].name] = value
        try:
            method.check(options)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return cls(method.name, options)


def search_options(*without: str) -> Any:
    """Return a decorator that adds the options of all search methods to a command, except those in `without`."""

    def add(command: Any) -> Any:
        for flag, option in reversed(_flags().items()):
            if flag not in without:
                command = _click_option(flag, option)(command)
        for method in reversed(METHODS.values()):
            if method.flag:
                command = click.option(method.flag, _variable(method.flag), is_flag=True, help=method.help)(command)
        return command

    return add


def _flags() -> dict[str, Any]:
    """Return the options of all search methods, keyed by flag. Methods can share a flag."""
    flags: dict[str, Any] = {}
    for method in METHODS.values():
        for flag, option in _by_flag(method).items():
            flags.setdefault(flag, option)
    return flags


def _by_flag(method: Any) -> dict[str, Any]:
    return {option.flag: option for option in method.options().values()}


def _click_option(flag: str, option: Any) -> Any:
    highest = None if option.highest == math.inf else option.highest
    kind = Number if option.kind is float else click.IntRange
    takers = [method for method in METHODS.values() if flag in _by_flag(method)]
    text = option.help
    if all(method.flag for method in takers):
        text = f"With {' or '.join(method.flag for method in takers)}: {text[0].lower()}{text[1:]}"
    if option.setting:
        text += " [default: the model's setting]"
    elif option.default is not None:
        text += f" [default: {option.default:g}]"
    bounds = kind(option.lowest, highest, min_open=option.exclusive)
    return click.option(flag, _variable(flag), type=bounds, metavar=option.metavar, help=text)


def _variable(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
