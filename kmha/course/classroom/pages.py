"""The grades as pages: one for each student, and one for the class.

Names, code and what it printed are a stranger's text: all of it is escaped, and the pages forbid scripts by themselves.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from kmha.course.classroom import grades
from kmha.course.classroom.grading import Record
from kmha.course.exercises import extras
from kmha.course.exercises.content import Assignment
from kmha.course.judging.marking import error_text

TEMPLATES = "templates"


def pages(
    records: Mapping[str, Record], assignments: Sequence[Assignment], names: Mapping[str, str], seed: int
) -> dict[str, str]:
    """All pages, by their paths: `index.html`, and `students/NAME.html`.

    Args:
        records: what came of each student's submission (`kmha.course.classroom.grading.grade`).
        assignments: that count.
        names: of the students' files, by their ids.
        seed: of the run.

    Raises:
        MissingPackageError: jinja2 is not installed.
    """
    environment = _environment()
    rows = grades.rows(records, assignments)
    shared = {"assignments": assignments, "possible": grades.possible(assignments)}
    index = environment.get_template("class.html")
    student = environment.get_template("student.html")
    found = {"index.html": index.render(rows=rows, common=grades.common(records), names=names, seed=seed, **shared)}
    for row, record in zip(rows, records.values(), strict=True):
        exercises = list(record["exercises"].values())
        found[f"students/{names[row.student]}.html"] = student.render(row=row, exercises=exercises, **shared)
    return found


def _environment() -> Any:
    jinja2 = extras.load("jinja2")
    folder = resources.files("kmha.course.classroom") / TEMPLATES
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in ("base.html", "class.html", "student.html")}
    style = (folder / "style.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(texts),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # The one style that the page allows is told by its hash; it is ours, and goes in as it is.
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment.globals.update(style=_as_it_is(style), style_hash=f"sha256-{hashed}")
    environment.filters["error_text"] = error_text
    return environment


def _as_it_is(text: str) -> Any:
    return extras.load("markupsafe").Markup(text)
