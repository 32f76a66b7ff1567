"""Render the report of a diagnosis as lines of text, from plain data alone (`kmha.verify.diagnosing.report.to_dict`).

The command line adds colours, and a notebook or `print` shows the lines as they are.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kmha.verify.diagnosing.verdicts import KNOWN, RIGHT, UNJUDGED, UNKNOWN

WIDTH = 100  # width of the text if it is not printed to a terminal
SHADES = "·░▒▓█"
CODE = "code"  # style of a line of Python
STYLES = {KNOWN: "bold red", UNKNOWN: "bold yellow", UNJUDGED: "bold yellow"}


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a report, before it is wrapped.

    Attributes:
        text: The text of the line.
        style: Style of rich, or `CODE`.
        lead: Text at the beginning of the line in the style `lead_style`.
        lead_style: Style of `lead`.
        wraps: Whether the line may be wrapped.
    """

    text: str = ""
    style: str = ""
    lead: str = ""
    lead_style: str = "bold"
    wraps: bool = True


def lines(report: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines of a report, without the details."""
    yield from verdict(report)
    if report["remarks"]:
        yield Line()
    for remark in report["remarks"]:
        yield Line(remark)
    if report["case"]:
        yield from (Line(), Line("The smallest case that shows it:", style="bold"), Line())
        for line in report["case"].splitlines():
            yield Line(line, style=CODE, wraps=False)
    if report["picture"]:
        yield Line()
        yield from picture(**report["picture"])


def verdict(report: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the first lines: the verdict with how sure it is, what is wrong, and the line to look at."""
    yield Line(f": {report['sure']}", lead=report["headline"], lead_style=_style(report))
    known = {mistake["id"] for mistake in report["mistakes"]}
    for text in report["wrong"]:
        name, colon, says = text.partition(": ")
        yield Line(f": {says}", lead=name) if colon and name in known else Line(text)
    line = report["line"]
    if line:
        yield Line(f": {line['text']}", lead=f"{line['path']}:{line['number']}")
    elif report["look"]:
        yield Line(f"Look at {report['look']}.")
    for advice in report["advice"]:
        yield Line(advice)
    if report["verdict"] == RIGHT:
        yield from _coverage(report)


def _style(report: Mapping[str, Any]) -> str:
    if report["verdict"] == RIGHT:
        return "bold yellow" if any(gap["important"] for gap in report["untested"]) else "bold green"
    return STYLES.get(report["verdict"], "bold red")


def _coverage(report: Mapping[str, Any]) -> Iterator[Line]:
    if report["tested"]:
        yield Line(f"Tested: {', '.join(report['tested'])}.")
    if report["untested"]:
        important = any(gap["important"] for gap in report["untested"])
        gaps = "; ".join(gap["says"] for gap in report["untested"])
        yield Line(f"Not tested: {gaps}.", style="yellow" if important else "")


def picture(title: str, values: Sequence[Sequence[float]], columns: str) -> Iterator[Line]:
    """Yield a matrix as shaded characters, with its rows and columns numbered from 0."""
    largest = max(max(row) for row in values)
    numbers = [str(number) for number in range(max(len(values), len(values[0])))]
    width = max(len(number) for number in numbers)
    yield Line(f"{title[0].upper()}{title[1:]}:")
    yield Line()
    header = " ".join(number.rjust(width) for number in numbers[: len(values[0])])
    yield Line(f"{'':>{width}} {header}", wraps=False)
    for number, row in zip(numbers, values, strict=False):
        cells = " ".join(_shade(value / (largest or 1)).rjust(width) for value in row)
        yield Line(f"{number:>{width}} {cells}", wraps=False)
    yield Line()
    yield Line(f"rows: query positions  columns: {columns}  0 {SHADES} {largest:.3g}", wraps=False)


def _shade(share: float) -> str:
    return SHADES[min(round(share * (len(SHADES) - 1)), len(SHADES) - 1)]


def calls_table(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the table of calls, the first with the titles of the columns."""
    nearest = report["nearest"]
    columns = {
        "from_right": "from right",
        "from_found": f"from {' and '.join(mistake['id'] for mistake in report['mistakes'])}",
        "from_nearest": f"from {' and '.join(nearest['ids'])}" if nearest else "",
    }
    calls = report["calls"]
    shown = [name for name in columns if calls and name in calls[0]]
    rows = [["call", *(columns[name] for name in shown)]]
    return rows + [[call["call"], *(_distance_text(call[name], call["raised"]) for name in shown)] for call in calls]


def _distance_text(far: float | None, error: str | None) -> str:
    return "raises" if error else "∞" if far is None else "0" if far == 0 else f"{far:.1e}"


def text(report: Mapping[str, Any]) -> str:
    """Return the report as plain text, wrapped."""
    found = []
    for line in lines(report):
        whole = line.lead + line.text
        found += textwrap.wrap(whole, WIDTH, break_long_words=False) if line.wraps and whole else [whole]
    return "\n".join(found)
