"""Format a report as text, with the columns of the table, the line about the machine, and the numbers."""

import dataclasses
from collections.abc import Callable, Iterable

from kmha.bench.cases import BUILTIN, OURS, ModelRow
from kmha.bench.report import CONTENDERS, Report, Result

LABELS = {
    BUILTIN: "built-in",
    OURS: "kmha",
    "addons": "Addons",
    "torch": "torch",
    "sdpa": "torch SDPA",
    "keras_hub": "KerasHub",
}
_COMPARED = BUILTIN, OURS
NOTHING = "–"
LEGEND = "Arrows lead from the built-in to kmha. Peak memory: rise over the start, each in a process of its own."
MODEL_LEGEND = (
    "Built-in: the same model of Keras' own layers. These have no cache, so it decodes by running its decoder over the "
    "whole prefix for every token."
)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the table. `cell` returns the column's text for a result."""

    title: str
    cell: Callable[[Result], str]
    is_text: bool = False


def shown(report: Report, wide: bool) -> list[Column]:
    """Return the columns that are not empty. `wide` adds minimum and maximum."""
    columns = [
        Column("B × T", lambda result: result.row.size, is_text=True),
        Column("kind", lambda result: result.row.kind, is_text=True),
        Column("pass", lambda result: result.row.pass_name, is_text=True),
        Column("mode", lambda result: result.row.mode, is_text=True),
        *(Column(f"{LABELS[name]}, ms", _time(name, wide)) for name in _COMPARED),
        Column("ratio", _ratio(OURS)),
        Column("quartiles", lambda result: _filled("{:.2f}–{:.2f}", *(result.quartiles(OURS) or [None]))),
        Column("path", lambda result: result.path or NOTHING, is_text=True),
        *(Column(LABELS[name], _ratio(name)) for name in CONTENDERS[2:]),
        Column("% of GEMM", lambda result: _arrow(_percent(result.share(name)) for name in _COMPARED)),
        Column("peak memory", lambda result: _arrow(bytes_text(result.memory.get(name)) for name in _COMPARED)),
    ]
    modes = {result.row.mode for result in report.results}
    return [
        column
        for column in columns
        if any(column.cell(result) != NOTHING for result in report.results)
        and not (column.title == "mode" and len(modes) == 1)
    ]


def markdown(report: Report) -> str:
    """Return the report as a Markdown table, followed by the command and the machine."""
    columns = shown(report, wide=True)
    lines = [[column.title for column in columns], [":--" if column.is_text else "--:" for column in columns]]
    lines += [[column.cell(result) for column in columns] for result in report.results]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    interrupted = ", interrupted" if report.interrupted else ""
    measured = f"Measured by `{report.command}`{interrupted}, on {where(report)}."
    return f"{table}\n\n{measured} {legend(report)}\n"


def where(report: Report) -> str:
    """Return a line of text that describes the report's machine."""
    machine = report.machine
    features = f" ({', '.join(machine['features'])})" if machine.get("features") else ""
    parts = [machine["accelerator"]] if "accelerator" in machine else []
    parts += [f"{machine['processor']}{features}, {machine['cores']} cores"]
    parts += [f"{bytes_text(machine['memory'])} of memory"] if machine["memory"] else []
    parts += [machine["system"], f"Python {machine['python']}"]
    parts += [f"{name} {version}" for name, version in machine["versions"].items()]
    parts += (
        [f"{_dtypes(report).replace('mixed_', '')} GEMM {report.gemm_rate / 1e9:,.0f} GFLOP/s"]
        if report.gemm_rate
        else []
    )
    return ", ".join(parts)


def notes(report: Report) -> list[str]:
    """Return the reasons for empty cells, with one line for each reason."""
    lines = []
    for (name, reason), rows in report.notes.items():
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        lines.append(f"{NOTHING} {LABELS[name]}: {reason} ({rows[0]}{more}).")
    return lines


def legend(report: Report) -> str:
    """Return an explanation of the columns."""
    rows = [result.row for result in report.results]
    modes = sorted({row.mode for row in rows})
    mode = f"{modes[0].replace('xla', 'XLA')} mode" if len(modes) == 1 else "modes as listed"
    models = "; ".join(sorted({row.model for row in rows}))
    more = MODEL_LEGEND if isinstance(rows[0], ModelRow) else LEGEND
    on = sorted({row.backend for row in rows})
    mode += " (torch: eager)" if on == ["tensorflow"] else f" on {', '.join(on)}"
    return (
        f"{_dtypes(report).capitalize()}, {models}, {mode}. Times are medians of rounds in turn. Ratios are to the "
        f"built-in's median; below 1 is faster. Quartiles are those of the ratios in each round. {more} % of GEMM: "
        "FLOPs of the row, relative to those of one product of large matrices in the same time."
    )


def _dtypes(report: Report) -> str:
    return ", ".join(sorted({result.row.dtype for result in report.results}))


def bytes_text(count: int | None) -> str:
    """Return a number of bytes as text, in decimal units.

    >>> bytes_text(5_400_000_000), bytes_text(64_200_000), bytes_text(None)
    ('5.4 GB', '64 MB', '–')
    """
    if count is None:
        return NOTHING
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def milliseconds_text(milliseconds: float) -> str:
    """Return milliseconds as text, with about three digits.

    >>> [milliseconds_text(x) for x in (0.314159, 3.14159, 31.4159, 3141.59)]
    ['0.314', '3.14', '31.4', '3,142']
    """
    digits = 3 if milliseconds < 1 else 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:,.{digits}f}"


def _time(name: str, wide: bool) -> Callable[[Result], str]:
    def cell(result: Result) -> str:
        median, runs = result.median(name), result.milliseconds(name)
        if median is None:
            return NOTHING
        span = f" ({milliseconds_text(min(runs))}–{milliseconds_text(max(runs))})" if wide else ""
        return milliseconds_text(median) + span

    return cell


def _ratio(name: str) -> Callable[[Result], str]:
    return lambda result: _filled("{:.2f}", result.ratio(name))


def _percent(value: float | None) -> str:
    return _filled("{:.0%}", value).rstrip("%")


def _filled(form: str, *values: float | None) -> str:
    return NOTHING if None in values else form.format(*values)


def _arrow(values: Iterable[str]) -> str:
    texts = [*values]
    return NOTHING if set(texts) == {NOTHING} else " → ".join(texts)
