"""`kmha convert`: read a weights file, convert the weights, show which array became which, and write another file."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from kmha import atomic_files
from kmha.cli import common

AUTO = "auto"
_MOST_PREFIXES = 100  # maximum number of parts of a model to try
_PART = re.compile(r"[^./]*[./]")
# Errors of `kmha.interchange` name its arguments. The command line names the options instead.
_OPTIONS = {
    "`num_heads`": "--heads",
    "`fold=True`": "--fold",
    "`prefix=`": "--prefix",
    "`kmha.interchange.recognize`": "--from auto",
}


_TOO_LARGE = "converting its weights takes more memory than there is. Convert a part of the model, with --prefix."


@dataclasses.dataclass(frozen=True)
class Conversion:
    """The options of a conversion."""

    source: str
    target: str
    heads: int | None = None
    fold: bool = False
    prefix: str | None = None


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Names of an array before and after the conversion. `None` means that there is no such array."""

    before: str | None
    after: str | None


class _Ambiguous(click.ClickException):
    """Raised when the weights do not determine the layout or the heads, so that an option is needed."""

    exit_code = 2


def convert_file(in_file: Path, out_file: Path | None, choice: Conversion, json_file: Path | None) -> int:
    """Convert a file and return the exit status."""
    from kmha.interchange import convert
    from kmha.interchange.files import read_file, write_file
    from kmha.interchange.registry import find

    screen = common.screen()
    if out_file is not None and out_file.resolve() == in_file.resolve():
        raise click.BadParameter(f"{out_file} is the input file. Name another file.", param_hint="'OUT'")
    _check_layouts(choice)
    try:
        weights = _part(read_file(in_file), choice.prefix)
        recognised = _recognised(in_file, weights, choice.heads) if choice.source == AUTO else None
        source = choice.source if recognised is None else recognised[0]
        converted = convert(weights, source, choice.target, num_heads=choice.heads, fold=choice.fold)
        if out_file is not None:
            write_file(out_file, converted, layer=find(choice.target).keras_layer)
    except ValueError as error:
        raise click.ClickException(_with_options(str(error))) from None
    except MemoryError:
        raise click.ClickException(f"{in_file}: {_TOO_LARGE}") from None
    rows = _rows(weights, converted)
    if recognised is not None:
        screen.print(recognised[1], markup=False)
    title = escape(f"{in_file.name} → {out_file.name if out_file else 'not written'}")
    screen.print(_table(title, weights, converted, rows))
    for note in converted.notes:
        screen.print(f"Note: {note}", markup=False)
    screen.print(_written(out_file, converted), markup=False)
    if json_file is not None:
        atomic_files.write_json(json_file, _report(in_file, out_file, weights, converted, rows, recognised))
    return 0


def show_file(in_file: Path, heads: int | None, prefix: str | None) -> int:
    """Print the layout and the arrays of a file."""
    from kmha.interchange.files import read_file

    try:
        weights = _part(read_file(in_file), prefix)
        sentence = _recognised(in_file, weights, heads)[1]
    except ValueError as error:
        raise click.ClickException(_with_options(str(error))) from None
    table = Table(title=escape(in_file.name), title_justify="left")
    table.add_column("array", overflow="fold")
    table.add_column("shape", no_wrap=True)
    for name in weights:
        table.add_row(*_cells(name, weights))
    screen = common.screen()
    screen.print(sentence, markup=False)
    screen.print(table)
    screen.print("Add --to and a layout to see what it would become. `kmha convert --list` prints the layouts.")
    return 0


def print_layouts(json_file: Path | None = None) -> int:
    """Print a table of all layouts, with the layers that use them."""
    from kmha.interchange import LAYOUTS

    table = Table(title="Layouts for --from and --to", title_justify="left", show_edge=False)
    table.add_column("layout", no_wrap=True)
    table.add_column("used by")
    for layout in LAYOUTS.values():
        table.add_row(layout.name, escape(layout.says))
    common.screen().print(table)
    if json_file is not None:
        atomic_files.write_json(json_file, {layout.name: layout.says for layout in LAYOUTS.values()})
    return 0


def _check_layouts(choice: Conversion) -> None:
    from kmha.interchange import LayoutError
    from kmha.interchange.registry import find

    for option, name in (("'--from'", choice.source), ("'--to'", choice.target)):
        try:
            if name != AUTO or option == "'--to'":
                find(name)
        except LayoutError as error:
            raise click.BadParameter(str(error), param_hint=option) from None


def _part(weights: dict[str, Any], prefix: str | None) -> dict[str, Any]:
    if prefix is None:
        return weights
    part = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
    if not part:
        from kmha.interchange.errors import listed

        message = f"no name begins with {prefix!r}. Received: {listed(weights, 8)}."
        raise click.BadParameter(message, param_hint="'--prefix'")
    return part


def _recognised(in_file: Path, weights: Mapping[str, Any], heads: int | None) -> tuple[str, str]:
    """Return the layout that fits, and a sentence that says why."""
    from kmha.interchange import LAYOUTS, recognize
    from kmha.interchange.recognition import the_reading

    readings = recognize(weights, heads)
    if len(readings) > 1:
        lines = [f"  {reading.layout}: {LAYOUTS[reading.layout].says}" for reading in readings]
        options = " or ".join(f"--from {reading.layout}" for reading in readings)
        first = f"{in_file}: the names and shapes fit {len(readings)} layouts, which would compute different things:"
        raise _Ambiguous("\n".join((first, *lines, f"Choose one: {options}.")))
    if not readings:
        parts = [f"--prefix {prefix} ({layout})" for prefix, layout in _parts(weights, heads)]
        if parts:
            shown = ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
            raise _Ambiguous(
                f"{in_file}: no layout fits the whole file, but these options each select a part that "
                f"fits one: {shown}."
            )
    [found] = readings or [the_reading(weights, heads)]
    counts = [str(count) for count in found.heads]
    if len(counts) > 1:
        raise _Ambiguous(
            f"{in_file}: this is {found.layout} ({LAYOUTS[found.layout].says}), and its shapes do not determine the "
            f"number of heads. {', '.join(counts[:-1])} or {counts[-1]} would fit. Choose one with --heads."
        )
    behind = f" after the prefix {found.prefix!r}" if found.prefix else ""
    shapes = f", and the shapes fit {counts[0]} head{'s' * (counts[0] != '1')}" if counts else ""
    twins = f" Reading it as {', '.join(found.same_as)} gives the same." if found.same_as else ""
    why = f"it has all {len(weights)} names{behind}{shapes}"
    return found.layout, f"Recognised as {found.layout} ({LAYOUTS[found.layout].says}): {why}.{twins}"


def _parts(weights: Mapping[str, Any], heads: int | None) -> Iterator[tuple[str, str]]:
    """Yield the prefixes of the outermost parts that have a layout, each with the layout."""
    from kmha.interchange import recognize

    found: list[str] = []
    for prefix in _prefixes(weights):
        if not any(prefix.startswith(outer) for outer in found):
            part = _part(dict(weights), prefix)
            readings = recognize(part, heads) if len(part) < len(weights) else []  # which does not fit as a whole
            if readings:
                found.append(prefix)
                yield prefix, " or ".join(reading.layout for reading in readings)


def _prefixes(names: Iterable[str]) -> list[str]:
    """Return the beginnings of names that end with "." or "/", those with the fewest parts first."""
    rest, found = {"": list(names)}, dict[str, None]()
    while rest and len(found) < _MOST_PREFIXES:
        below: dict[str, list[str]] = {}
        for prefix, group in rest.items():
            for name in group:
                if end := _PART.match(name, len(prefix)):
                    below.setdefault(name[: end.end()], []).append(name)
        found |= dict.fromkeys(below)
        rest = below
    return [*found][:_MOST_PREFIXES]


def _rows(weights: Mapping[str, Any], converted: Any) -> list[_Pair]:
    """Return which array became which, in the order of the new arrays. A packed array has several rows."""
    sources: dict[str, list[str]] = {}
    for name in weights:
        for path in _paths(name, converted.source):
            sources.setdefault(path, []).append(name)
    rows = []
    for name in converted:
        found = [source for path in _paths(name, converted.target) for source in sources.get(path, [])]
        rows += [_Pair(source, name) for source in found] or [_Pair(None, name)]
    used = {row.before for row in rows}
    return [*rows, *(_Pair(name, None) for name in weights if name not in used)]


def _paths(name: str, layout_name: str) -> list[str]:
    """Return the canonical paths of the weights in an array. The name of the array may have a prefix."""
    from kmha.interchange import LAYOUTS

    for entry in LAYOUTS[layout_name].entries:
        values = entry.names.match(name)
        if values is not None:
            return [entry.paths.fill(values | {"P": role}) for role in entry.packed] or [entry.paths.fill(values)]
    starts = [i + 1 for i, letter in enumerate(name) if letter in "./"]
    return _paths(name[starts[0] :], layout_name) if starts else []


def _table(title: str, weights: Mapping[str, Any], converted: Any, rows: list[_Pair]) -> Table:
    table = Table(title=title, title_justify="left")
    for layout in (converted.source, converted.target):
        table.add_column(layout, overflow="fold")
        table.add_column("shape", no_wrap=True)
    above = _Pair(None, None)
    for row in rows:
        before = ("″", "") if row.before and row.before == above.before else _cells(row.before, weights)
        after = ("″", "") if row.after and row.after == above.after else _cells(row.after, converted)
        table.add_row(*before, *after)
        above = row
    return table


def _cells(name: str | None, weights: Mapping[str, Any]) -> tuple[str, str]:
    return ("–", "") if name is None else (escape(name), str(weights[name].shape))


def _written(out_file: Path | None, converted: Any) -> str:
    count = sum(array.size for array in converted.values())
    dtypes = ", ".join(sorted({array.dtype.name for array in converted.values()}))
    summary = f"{len(converted)} arrays with {count:,} numbers, {dtypes}"
    return f"{out_file}: {summary}." if out_file else f"No OUT was given, so nothing was written: {summary}."


def _with_options(message: str) -> str:
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def _report(
    in_file: Path,
    out_file: Path | None,
    weights: Mapping[str, Any],
    converted: Any,
    rows: list[_Pair],
    recognised: tuple[str, str] | None,
) -> dict[str, Any]:
    def described(name: str | None, arrays: Mapping[str, Any]) -> Any:
        return None if name is None else {"name": name, "shape": arrays[name].shape, "dtype": arrays[name].dtype.name}

    return {
        "in": str(in_file),
        "out": None if out_file is None else str(out_file),
        "from": converted.source,
        "to": converted.target,
        "recognised": None if recognised is None else recognised[1],
        "weights": [{"from": described(row.before, weights), "to": described(row.after, converted)} for row in rows],
        "notes": converted.notes,
    }
