"""The grades of a class: as rows, CSV and JSON, as Gradescope's results, and which mistakes are common."""

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kmha.course.classroom.grading import Record
from kmha.course.exercises.content import Assignment
from kmha.course.judging.marking import error_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a cell begins that a spreadsheet computes


@dataclasses.dataclass(frozen=True)
class Row:
    """A student's points.

    Attributes:
        student: their id.
        of_assignments: by the assignments' ids.
        of_exercises: by the exercises' ids.
        notes: on what was handed in.
    """

    student: str
    of_assignments: dict[str, int]
    of_exercises: dict[str, int]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.of_assignments.values())


@dataclasses.dataclass(frozen=True)
class Common:
    """What went wrong in an exercise, and how often.

    Attributes:
        id: of the exercise.
        title: of it.
        handed_in: how many wrote something.
        passed: how many got all points.
        mistakes: what is known by name, with its number, the most frequent first.
        checks: what is checked, with how many fail there without a known mistake.
        errors: how many answers could not be run.
    """

    id: str
    title: str
    handed_in: int
    passed: int
    mistakes: tuple[tuple[str, int], ...]
    checks: tuple[tuple[str, int], ...]
    errors: int


def rows(records: Mapping[str, Record], assignments: Sequence[Assignment]) -> list[Row]:
    """In the order of the records."""
    found = []
    for student, record in records.items():
        points = {id: int(told["points"]) for id, told in record["exercises"].items()}
        sums = {each.id: sum(points[item.id] for item in each.items) for each in assignments}
        found.append(Row(student, sums, points, tuple(record["notes"])))
    return found


def possible(assignments: Sequence[Assignment]) -> dict[str, int]:
    """The points that there are, by the assignments' ids."""
    return {each.id: each.points for each in assignments}


def as_csv(found: Sequence[Row], assignments: Sequence[Assignment]) -> str:
    """A line for each student: the points of each assignment, their sum, and those of each exercise.

    A name that a spreadsheet would compute gets an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ids = [each.id for each in assignments]
    exercises = [item.id for each in assignments for item in each.items]
    writer.writerow(["student", *ids, "total", "possible", *exercises])
    most = sum(possible(assignments).values())
    for row in found:
        name = f"'{row.student}" if row.student.startswith(_FORMULA) else row.student
        of_exercises = [row.of_exercises[id] for id in exercises]
        writer.writerow([name, *[row.of_assignments[id] for id in ids], row.total, most, *of_exercises])
    return text.getvalue()


def as_json(records: Mapping[str, Record], assignments: Sequence[Assignment], seed: int) -> dict[str, Any]:
    """Everything but the code and what was printed."""
    students = []
    for row, record in zip(rows(records, assignments), records.values(), strict=True):
        exercises = {
            id: {key: value for key, value in told.items() if key not in ("code", "printed", "exercise", "case")}
            for id, told in record["exercises"].items()
        }
        points = {"assignments": row.of_assignments, "total": row.total}
        students.append({"student": row.student, **points, "notes": record["notes"], "exercises": exercises})
    return {
        "seed": seed,
        "possible": possible(assignments),
        "students": students,
        "common": [dataclasses.asdict(each) for each in common(records)],
    }


def gradescope(record: Record) -> dict[str, Any]:
    """What Gradescope reads as `results.json`: a test for each check; hidden ones show once grades do."""
    tests = []
    for id, told in record["exercises"].items():
        why = "" if told["error"] is None else error_text(told["error"])
        for check in told["checks"]:
            said = why or check["wrong"] or ""
            if said and told["mistake"] is not None and check["visible"]:
                said = f"{said}\n{told['mistake']['says']}"
            tests.append(
                {
                    "name": f"{id}: {check['says']}",
                    "score": check["points"],
                    "max_score": check["possible"],
                    "output": said,
                    "visibility": "visible" if check["visible"] else "after_published",
                }
            )
    texts = {"output_format": "text", "test_output_format": "text", "test_name_format": "text"}
    return {
        "score": sum(test["score"] for test in tests),
        **texts,
        "output": "\n".join(record["notes"]),
        "tests": tests,
    }


def common(records: Mapping[str, Record]) -> list[Common]:
    """Of each exercise what went wrong."""
    ids = next(iter(records.values()))["exercises"] if records else {}
    return [_common(id, [record["exercises"][id] for record in records.values()]) for id in ids]


def _common(id: str, every: Sequence[Record]) -> Common:
    tried = [told for told in every if told["handed_in"]]
    failed = [told for told in tried if not told["passed"]]
    mistakes = Counter(told["mistake"]["says"] for told in failed if told["mistake"])
    unnamed = [told for told in failed if not told["mistake"] and told["error"] is None]
    checks = Counter(check["says"] for told in unnamed for check in told["checks"] if check["wrong"])
    errors = sum(told["error"] is not None for told in failed)
    return Common(
        id,
        every[0]["title"],
        len(tried),
        len(tried) - len(failed),
        tuple(mistakes.most_common()),
        tuple(checks.most_common()),
        errors,
    )
