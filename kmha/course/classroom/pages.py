"""Grades as HTML pages: one for the class, and one for each student.

Names, code and the output of code are untrusted. All of them are escaped, and a policy in the pages forbids scripts.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from kmha.course.classroom import grades, grading
from kmha.course.classroom.grading import GradedSubmission
from kmha.course.exercises import extras
from kmha.course.exercises.content import Assignment
from kmha.course.judging.marking import error_text
from kmha.sandbox.control_characters import visible

TEMPLATES = "templates"


def pages(
    graded: Mapping[str, GradedSubmission],
    assignments: Sequence[Assignment],
    names: Mapping[str, str],
    seed: int,
    ignored: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page: `index.html`, and `students/NAME.html` for each student.

    Args:
        graded: Graded submissions, keyed by student (`kmha.course.classroom.grading.grade`).
        assignments: Assignments that were graded.
        names: File names, keyed by student.
        seed: Seed of the run.
        ignored: Reasons why entries of the class's folder were not graded, keyed by name.

    Raises:
        MissingPackageError: jinja2 is not installed.
    """
    environment = _environment()
    students = grades.student_points(graded, assignments)
    shared: dict[str, Any] = {"assignments": assignments, "possible": grades.possible(assignments)}
    index = environment.get_template("class.html")
    page = environment.get_template("student.html")
    summaries = grades.summaries(graded)
    about = {
        "students": students,
        "summaries": sorted(summaries, key=lambda each: each.passed),
        "histogram": grades.histogram(students, sum(shared["possible"].values())),
        "names": names,
        "seed": seed,
        "ignored": ignored,
        "states": [state for state in grading.STATES if state != grading.OUT_OF_TIME or _any(summaries, state)],
    }
    yield "index.html", index.render(**about, **shared)
    for points, submission in zip(students, graded.values(), strict=True):
        exercises = list(submission["exercises"].values())
        yield f"students/{names[points.id]}.html", page.render(student=points, exercises=exercises, **shared)


def _any(summaries: Sequence[grades.ExerciseSummary], state: str) -> bool:
    return any(each.states[state] for each in summaries)


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
    # The policy allows the style by its hash, so the style must not be escaped.
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment.globals.update(style=extras.load("markupsafe").Markup(style), style_hash=f"sha256-{hashed}")
    environment.filters |= {"error_text": error_text, "visible": visible}
    return environment
