"""Render a grade as plain text, as HTML, and as JSON.

>>> import numpy as np
>>> print(value_text(np.array([[1.0, 2.5]])))
[[1.  2.5]]
"""

import html
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmha.course.judging.marking import Grade, Outcome, SmallestCase, elements, error_text

LARGEST = 40  # maximum number of elements of an array that is printed in full
MOST = 1_000  # maximum number of parts of a list of which the first lines are printed
ENTRIES, KEY = 100, 60  # maximum numbers of the parts of a result that are shown, and of characters of a key
WIDTH = 96


def headline(title: str, grade: Grade) -> str:
    """Return the title and the points of a grade."""
    return f"{grade.id}, {title}: {grade.points} of {count(grade.possible)}"


def count(number: int, word: str = "point") -> str:
    """Return a number with its noun in the singular or plural.

    >>> count(1), count(2, "hint")
    ('1 point', '2 hints')
    """
    return f"{number:,} {word}" + "s" * (number != 1)


def text(title: str, grade: Grade, seed: int) -> str:
    """Render a grade as plain text."""
    lines = [headline(title, grade), ""]
    if grade.error is None:
        lines += [
            f"{'' if each.pending else 'ok' if each.problem is None else '--':>4}  {points}  {says}"
            for each, points, says in _rows(grade)
        ]
    for heading, body in _parts(grade):
        lines += ["", f"{heading}:", *(f"  {line}" for line in body.splitlines())]
    return "\n".join([*lines, "", f"(seed {seed})"])


def page(title: str, grade: Grade, seed: int) -> str:
    """Render a grade as HTML. All text that can come from an answer is escaped."""
    color = "#1a7f37" if grade.passed else "#b3261e"
    pieces = [f'<p><b style="color:{color}">{html.escape(headline(title, grade))}</b></p>']
    if grade.error is None:
        rows = "".join(
            f"<tr><td>{sign(each)}</td><td>{html.escape(points)}</td>"
            f'<td style="text-align:left">{html.escape(says)}</td></tr>'
            for each, points, says in _rows(grade)
        )
        pieces.append(f"<table>{rows}</table>")
    pieces += [f"<p><b>{html.escape(head)}</b></p><pre>{html.escape(body)}</pre>" for head, body in _parts(grade)]
    return "\n".join([*pieces, f"<p><small>seed {seed}</small></p>"])


def as_dict(grade: Grade) -> dict[str, Any]:
    """Return a grade as values that JSON can represent."""
    mistake = grade.mistake
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
                "wrong": each.problem,
            }
            for each in grade.outcomes
        ],
        "mistake": None if mistake is None else {"id": mistake.id, "says": mistake.says, "source": mistake.source},
        "error": None if grade.error is None else dict(grade.error),
        "printed": grade.printed,
        "case": None if grade.case is None else _case_dict(grade.case),
    }


def _case_dict(case: SmallestCase) -> dict[str, Any]:
    name, wrong = case.where or (None, None)
    differs = None if name is None else {"in": name, "at": _plain(wrong)}
    return {"inputs": _plain(case.inputs), "result": _plain(case.result), "differs": differs}


def case_text(case: SmallestCase) -> str:
    """Render the inputs and the result of a small case. An array of several lines goes below its name."""
    inputs = [entry for name, value in case.inputs.items() for entry in _entries(name, value)]
    shown = [*inputs, *itertools.islice(_entries("your result", case.result), ENTRIES + 1)]
    lines = []
    for name, value in shown[: len(inputs) + ENTRIES]:
        one_line = "\n" not in value
        lines.append(f"{name} = {value}" if one_line else f"{name} =")
        lines += [] if one_line else [f"    {line}" for line in value.splitlines() if line.strip()]
    lines += ["…"] if len(shown) > len(inputs) + ENTRIES else []
    if case.where is not None:
        name, wrong = case.where
        lines.append(f"where {name} differs (■):")
        lines += ["    " + " ".join("■" if each else "·" for each in row) for row in wrong]
    return "\n".join(lines)


def value_text(value: Any) -> str:
    """Return a small array in full, how many elements or parts a large value has, or the `repr` of anything else."""
    if isinstance(value, np.ndarray):
        if value.size > LARGEST:
            return f"({value.size:,} elements)"
        return np.array2string(value, precision=4, suppress_small=True, max_line_width=WIDTH)
    if isinstance(value, Mapping | tuple | list) and (many := elements(value)) > MOST:
        return f"(a {type(value).__name__} with {many:,} parts)"
    return _short(repr(value), 10 * WIDTH)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _parts(grade: Grade) -> Iterator[tuple[str, str]]:
    """Yield each heading with the text below it."""
    if grade.error is not None:
        yield "Your code could not be checked", error_text(grade.error)
    if grade.mistake is not None:
        yield "The mistake", grade.mistake.says
    if grade.case is not None:
        yield "The smallest case that shows it", case_text(grade.case)
    if grade.printed.strip():
        yield "Your code printed", grade.printed.rstrip()


def sign(outcome: Outcome) -> str:
    """Return the sign of an outcome: passed, not passed, or not yet worth anything."""
    return "–" if outcome.pending else "✓" if outcome.problem is None else "✗"


def claim(outcome: Outcome) -> str:
    """Return what a check checks. If it passes but earns no points yet, say when it will."""
    noun = "point" if outcome.check.points == 1 else "points"
    return outcome.check.says + (f" (earns its {noun} once a result is right)" if outcome.pending else "")


def failure(grade: Grade) -> str:
    """Return why a grade is not full: the error, or the first check that earns no points and its problem."""
    if grade.error is not None:
        return error_text(grade.error)
    failed = next(each for each in grade.outcomes if each.points < each.check.points)
    return f"{claim(failed)}: {failed.problem}" if failed.problem else claim(failed)


def outcomes(grade: Grade) -> Iterator[tuple[Outcome, str | None]]:
    """Yield each outcome with its problem. A problem that an earlier check has too is not repeated."""
    known: dict[str, str] = {}  # each problem, and the layer of the first check that has it
    for each in grade.outcomes:
        layer = known.get(each.problem or "")
        again = (
            "the same problem as above" if layer == each.check.layer else "not checked, because of the problem above"
        )
        yield each, again if layer else each.problem
        if each.problem:
            known.setdefault(each.problem, each.check.layer)


def _rows(grade: Grade) -> Iterator[tuple[Outcome, str, str]]:
    for each, problem in outcomes(grade):
        says = claim(each) if problem is None else f"{claim(each)}: {problem}"
        yield each, f"{each.points} of {each.check.points}", says


def _entries(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _entries(f"{name}[{_short(repr(key), KEY)}]", each)
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
        with np.errstate(over="ignore"):
            value = value.astype(float) if value.dtype == np.longdouble else value  # JSON has no other
        return value.tolist() if value.dtype.kind in "biuf" else str(value.tolist())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
