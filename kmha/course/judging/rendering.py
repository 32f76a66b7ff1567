"""A grade in words: as plain text, as HTML, and as what JSON can hold.

>>> import numpy as np
>>> print(value_text(np.array([[1.0, 2.5]])))
[[1.  2.5]]
"""

import html
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmha.course.judging.marking import Grade, Outcome, Shown, error_text

SHOWN = 40  # elements of an array that is printed
WIDTH = 96


def headline(title: str, grade: Grade) -> str:
    """What it got."""
    return f"{grade.id}, {title}: {grade.points} of {count(grade.possible)}"


def count(number: int, word: str = "point") -> str:
    """A number of things.

    >>> count(1), count(2, "hint")
    ('1 point', '2 hints')
    """
    return f"{number:,} {word}" + "s" * (number != 1)


def text(title: str, grade: Grade, seed: int) -> str:
    """All that there is to say, in plain text."""
    lines = [headline(title, grade), ""]
    if grade.error is None:
        lines += [f"{'ok' if each.says is None else '--':>4}  {points}  {says}" for each, points, says in _rows(grade)]
    for heading, body in _parts(grade):
        lines += ["", f"{heading}:", *(f"  {line}" for line in body.splitlines())]
    return "\n".join([*lines, "", f"(seed {seed})"])


def page(title: str, grade: Grade, seed: int) -> str:
    """The same as HTML; everything that an answer had to do with is escaped."""
    colour = "#1a7f37" if grade.passed else "#b3261e"
    pieces = [f'<p><b style="color:{colour}">{html.escape(headline(title, grade))}</b></p>']
    if grade.error is None:
        rows = "".join(
            f"<tr><td>{'✓' if each.says is None else '✗'}</td><td>{html.escape(points)}</td>"
            f'<td style="text-align:left">{html.escape(says)}</td></tr>'
            for each, points, says in _rows(grade)
        )
        pieces.append(f"<table>{rows}</table>")
    pieces += [f"<p><b>{html.escape(head)}</b></p><pre>{html.escape(body)}</pre>" for head, body in _parts(grade)]
    return "\n".join([*pieces, f"<p><small>seed {seed}</small></p>"])


def as_dict(grade: Grade) -> dict[str, Any]:
    """Everything, as JSON can hold it."""
    named, shown = grade.named, grade.shown
    return {
        "exercise": grade.id,
        "points": grade.points,
        "possible": grade.possible,
        "passed": grade.passed,
        "checks": [
            {
                "layer": each.check.layer,
                "says": each.check.says,
                "points": each.points,
                "possible": each.check.points,
                "wrong": each.says,
            }
            for each in grade.outcomes
        ],
        "mistake": None if named is None else {"id": named.id, "says": named.says, "source": named.source},
        "error": None if grade.error is None else dict(grade.error),
        "printed": grade.printed,
        "case": None if shown is None else _case(shown),
    }


def _case(shown: Shown) -> dict[str, Any]:
    name, wrong = shown.where or (None, None)
    differs = None if name is None else {"in": name, "at": _plain(wrong)}
    return {"inputs": _plain(shown.inputs), "result": _plain(shown.result), "differs": differs}


def case(shown: Shown) -> list[tuple[str, str]]:
    """The inputs and the result of a small case, each with its name and shape."""
    given = [entry for name, value in shown.inputs.items() for entry in _entries(name, value)]
    return [*given, *_entries("your result", shown.result)]


def case_text(shown: Shown) -> str:
    """The same, as lines: what does not fit into one goes below its name."""
    lines = []
    for name, value in case(shown):
        one_line = "\n" not in value
        lines.append(f"{name} = {value}" if one_line else f"{name} =")
        lines += [] if one_line else [f"    {line}" for line in value.splitlines() if line.strip()]
    if shown.where is not None:
        name, wrong = shown.where
        lines.append(f"where {name} differs (■):")
        lines += ["    " + " ".join("■" if each else "·" for each in row) for row in wrong]
    return "\n".join(lines)


def value_text(value: Any) -> str:
    """An array that is small, or in its place that it is not; anything else as Python writes it."""
    if isinstance(value, np.ndarray):
        if value.size > SHOWN:
            return f"({value.size:,} elements)"
        return np.array2string(value, precision=4, suppress_small=True, max_line_width=WIDTH)
    said = repr(value)
    return said if len(said) <= 10 * WIDTH else f"{said[: 10 * WIDTH]}…"


def _parts(grade: Grade) -> Iterator[tuple[str, str]]:
    """Headings with what stands below them."""
    if grade.error is not None:
        yield "It could not be checked", error_text(grade.error)
    if grade.named is not None:
        yield "The mistake", grade.named.says
    if grade.shown is not None:
        yield "The smallest case that shows it", case_text(grade.shown)
    if grade.printed.strip():
        yield "It printed", grade.printed.rstrip()


def outcomes(grade: Grade) -> Iterator[tuple[Outcome, str | None]]:
    """Each check's outcome, and what is wrong: what was said already is not said again."""
    said: set[str] = set()
    for each in grade.outcomes:
        yield each, "as above" if each.says in said else each.says
        said.update(filter(None, [each.says]))


def _rows(grade: Grade) -> Iterator[tuple[Outcome, str, str]]:
    for each, wrong in outcomes(grade):
        says = each.check.says if wrong is None else f"{each.check.says}: {wrong}"
        yield each, f"{each.points} of {each.check.points}", says


def _entries(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _entries(f"{name}[{key!r}]", each)
    elif isinstance(value, tuple | list) and any(isinstance(each, np.ndarray) for each in value):
        for index, each in enumerate(value):
            yield from _entries(f"{name}[{index}]", each)
    else:
        shape = f" {value.shape}" if isinstance(value, np.ndarray) and value.shape else ""
        yield f"{name}{shape}", value_text(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.kind in "biuf" else str(value.tolist())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
