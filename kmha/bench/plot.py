"""Plot time and peak memory against the length, on logarithmic axes."""

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from kmha.bench.cases import BUILTIN, OURS
from kmha.bench.report import Report, Result
from kmha.bench.table import LABELS

# Okabe and Ito's colours, which colour-blind readers can tell apart. The built-in and kmha have thick lines.
COLOURS = {BUILTIN: "#333333", OURS: "#D55E00", "addons": "#CC79A7", "torch": "#0072B2", "sdpa": "#56B4E9"}
WIDTHS = {BUILTIN: 2.2, OURS: 2.8, "addons": 1.3, "torch": 1.3, "sdpa": 1.3}
DASHES: dict[bool, Any] = {True: "-", False: (0, (3, 1.5))}
PASSES = {True: "training step", False: "forward"}
GREY, FAINT = "#707070", "#e6e6e6"

Value = Callable[[Result, str], float | None]


def figure(report: Report) -> Figure:
    """Return a figure of a series (`cases.check_series`), with two panels and a line for each contender and pass."""
    figure = Figure(figsize=(11, 5.8), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06), facecolor="white")
    panels = figure.subplots(1, 2)
    _draw(panels[0], report, Result.median, _milliseconds)
    _draw(panels[1], report, lambda result, name: result.memory.get(name), _bytes)
    panels[0].set_title("Median time of one pass", loc="left", fontsize=11.5)
    panels[1].set_title("Peak memory of one pass, over the start", loc="left", fontsize=11.5)
    row, machine = report.results[0].row, report.machine
    device = machine.get("accelerator") or f"{machine['cores']} cores ({machine['processor']})"
    figure.suptitle(
        f"{row.kind.capitalize()} self-attention: batch {row.batch}, width {row.width}, {row.heads} heads, "
        f"{row.dtype}, {row.mode} mode on {row.backend}, {device}",
        fontsize=12.5,
    )
    figure.legend(handles=_handles(report), loc="outside lower center", ncols=9, frameon=False, handlelength=2.8)
    return figure


def _draw(axes: Any, report: Report, value: Value, text: Callable[[float], str]) -> None:
    for name in reversed(report.contenders):  # the built-in and kmha are drawn last, on top
        for step in DASHES:
            points = _points(report, value, name, step)
            lengths, found = [*points], [*points.values()]
            axes.plot(lengths, found, **_style(name, step), markerfacecolor=COLOURS[name] if step else "white")
    lengths = sorted({result.row.length for result in report.results})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(lengths[0] / 1.2, lengths[-1] * 2)
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda length, _: f"{length:.0f}"))
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 3), numticks=24))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda found, _: text(found)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("length T", color=GREY)
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(which="both", color=GREY, labelsize=9.5)
    _draw_factor(axes, report, value)


def _points(report: Report, value: Value, name: str, step: bool) -> dict[int, float]:
    """Return the values of a contender's line, keyed by length and sorted."""
    results = sorted((r for r in report.results if r.row.step == step), key=lambda result: result.row.length)
    return {result.row.length: found for result in results if (found := value(result, name)) is not None}


def _style(name: str, step: bool) -> dict[str, Any]:
    colour, width = COLOURS[name], WIDTHS[name]
    marker = {"marker": "o", "markersize": 2.2 * width, "markeredgecolor": colour, "markeredgewidth": 1.2}
    return {"color": colour, "linewidth": width, "linestyle": DASHES[step], **marker}


def _draw_factor(axes: Any, report: Report, value: Value) -> None:
    """Draw the factor between the built-in and kmha at the largest length that both have."""
    step = any(result.row.step for result in report.results)
    theirs, ours = (_points(report, value, name, step) for name in (BUILTIN, OURS))
    both = theirs.keys() & ours.keys()
    if not both or theirs[max(both)] <= ours[max(both)]:
        return
    length = max(both)
    upper, lower = theirs[length], ours[length]
    arrow = {"arrowstyle": "->", "color": COLOURS[OURS], "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(1.17 * length, lower), xytext=(1.17 * length, upper), arrowprops=arrow)
    middle = (upper * lower) ** 0.5
    axes.text(1.23 * length, middle, f"÷ {upper / lower:.2g}", va="center", color=COLOURS[OURS], fontsize=11)


def _handles(report: Report) -> list[Line2D]:
    """Return the legend, with a colour for each contender and a line style for each pass."""
    contenders = [Line2D([], [], **_style(name, True), label=LABELS[name]) for name in report.contenders]
    steps = sorted({result.row.step for result in report.results}, reverse=True)
    style: dict[str, Any] = {"color": GREY, "linewidth": 1.6}
    return contenders + [Line2D([], [], linestyle=DASHES[step], label=PASSES[step], **style) for step in steps]


def _milliseconds(found: float) -> str:
    return f"{found / 1000:,g} s" if found >= 1000 else f"{found:g} ms"


def _bytes(found: float) -> str:
    return f"{found / 1e9:g} GB" if found >= 1e9 else f"{found / 1e6:g} MB"
