"""`kmha convert`: reads a file of weights, converts them, shows what became what, and writes another file."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from kmha import files
from kmha.cli import common

AUTO = "auto"
_MOST_PARTS = 100  # of a model that are tried
# Errors of `kmha.interchange` name its arguments; here they are options.
_OPTIONS = {
    "`num_heads`": "--heads",
    "`fold=True`": "--fold",
    "`prefix=`": "--prefix",
    "`kmha.interchange.recognize`": "--from auto",
}


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What the options say."""

    source: str
    target: str
    heads: int | None = None
    fold: bool = False
    prefix: str | None = None


@dataclasses.dataclass(frozen=True)
class _Pair:
    """What an array came from, and what it became; `None` where there is no such thing."""

    before: str | None
    after: str | None


class _Undecided(click.ClickException):
    """The weights do not say what they are, so an option has to."""

    exit_code = 2


def convert_file(in_file: Path, out_file: Path | None, choice: Conversion, json_file: Path | None) -> int:
    """Converts a file; returns the exit status."""
    from kmha.interchange import convert
    from kmha.interchange.files import read_file, write_file
    from kmha.interchange.registry import find

    screen = common.screen()
    if out_file is not None and out_file.resolve() == in_file.resolve():
        raise click.BadParameter(f"{out_file} is what is read. Name another file.", param_hint="'OUT'")
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
    rows = _rows(weights, converted)
    if recognised is not None:
        screen.print(recognised[1], markup=False)
    title = escape(f"{in_file.name} → {out_file.name if out_file else 'not written'}")
    screen.print(_table(title, weights, converted, rows))
    for note in converted.notes:
        screen.print(f"Note: {note}", markup=False)
    screen.print(_written(out_file, converted), markup=False)
    if json_file is not None:
        files.write_json(json_file, _report(in_file, out_file, weights, converted, rows, recognised))
    return 0


def print_layouts(json_file: Path | None = None) -> int:
    """Prints what there is to convert from and to."""
    from kmha.interchange import LAYOUTS

    table = Table(title="Layouts, for --from and --to", title_justify="left", show_edge=False)
    table.add_column("layout", no_wrap=True)
    table.add_column("of")
    for layout in LAYOUTS.values():
        table.add_row(layout.name, escape(layout.says))
    common.screen().print(table)
    if json_file is not None:
        files.write_json(json_file, {layout.name: layout.says for layout in LAYOUTS.values()})
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

        raise click.BadParameter(
            f"no name begins with {prefix!r}. There are {listed(weights, 8)}.", param_hint="'--prefix'"
        )
    return part


def _recognised(in_file: Path, weights: Mapping[str, Any], heads: int | None) -> tuple[str, str]:
    """The layout that fits, and a sentence that says why."""
    from kmha.interchange import LAYOUTS, recognize
    from kmha.interchange.recognition import the_reading

    readings = recognize(weights, heads)
    if len(readings) > 1:
        lines = [f"  {one.layout}: {LAYOUTS[one.layout].says}" for one in readings]
        options = " or ".join(f"--from {one.layout}" for one in readings)
        told = f"{in_file}: {len(readings)} layouts fit by names and shapes, and would compute different things:"
        raise _Undecided("\n".join((told, *lines, f"Choose one: {options}.")))
    if not readings:
        parts = [f"--prefix {prefix} ({layout})" for prefix, layout in _parts(weights, heads)]
        if parts:
            shown = ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
            raise _Undecided(f"{in_file}: no layout fits all of it, but parts of it have one: {shown}.")
    [found] = readings or [the_reading(weights, heads)]
    counts = [str(count) for count in found.heads]
    if len(counts) > 1:
        raise _Undecided(
            f"{in_file}: this is {found.layout} ({LAYOUTS[found.layout].says}), and its shapes do not tell how many "
            f"heads there are. {', '.join(counts[:-1])} or {counts[-1]} would fit: say which with --heads."
        )
    behind = f" after {found.prefix!r}" if found.prefix else ""
    shapes = f", and their shapes fit {counts[0]} head{'s' * (counts[0] != '1')}" if counts else ""
    twins = f" Read as {', '.join(found.same_as)} it is the same." if found.same_as else ""
    why = f"all {len(weights)} names are its own{behind}{shapes}"
    return found.layout, f"Recognised as {found.layout} ({LAYOUTS[found.layout].says}): {why}.{twins}"


def _parts(weights: Mapping[str, Any], heads: int | None) -> Iterator[tuple[str, str]]:
    """Prefixes after which weights have a layout, the outermost, and which one that is."""
    from kmha.interchange import recognize

    ends = {name[: i + 1]: None for name in weights for i, letter in enumerate(name) if letter in "./"}
    found: list[str] = []
    for prefix in sorted(ends, key=lambda each: each.count("/") + each.count("."))[:_MOST_PARTS]:
        if not any(prefix.startswith(outer) for outer in found):
            readings = recognize(_part(dict(weights), prefix), heads)
            if readings:
                found.append(prefix)
                yield prefix, " or ".join(one.layout for one in readings)


def _rows(weights: Mapping[str, Any], converted: Any) -> list[_Pair]:
    """Which array became which, in the order of the new ones: an array for every row, or a part of a packed one."""
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
    """The canonical weights that an array holds, whatever comes before the layout's own name."""
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
    what = f"{len(converted)} arrays with {count:,} numbers, {dtypes}"
    return f"{out_file}: {what}." if out_file else f"Nothing was written, for there is no OUT: {what}."


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
    def told(name: str | None, arrays: Mapping[str, Any]) -> Any:
        return None if name is None else {"name": name, "shape": arrays[name].shape, "dtype": arrays[name].dtype.name}

    return {
        "in": str(in_file),
        "out": None if out_file is None else str(out_file),
        "from": converted.source,
        "to": converted.target,
        "recognised": None if recognised is None else recognised[1],
        "weights": [{"from": told(row.before, weights), "to": told(row.after, converted)} for row in rows],
        "notes": converted.notes,
    }
