"""A class's grades as a table, CSV, JSON and Gradescope's results, and a summary of each exercise."""

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kmha.course.classroom.grading import GradedSubmission
from kmha.course.exercises.content import Assignment
from kmha.course.judging.marking import error_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet evaluates a cell that begins with one of these


@dataclasses.dataclass(frozen=True)
class StudentPoints:
    """A student's points for each assignment and for each exercise, keyed by id, and notes on the submission."""

    id: str
    of_assignments: dict[str, int]
    of_exercises: dict[str, int]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.of_assignments.values())


@dataclasses.dataclass(frozen=True)
class ExerciseSummary:
    """A class's results in one exercise.

    Attributes:
        id, title: Id and title of the exercise.
        handed_in: Number of answers handed in.
        passed: Number of answers with full points.
        mistakes: Known mistakes and how often each was made, most frequent first.
        checks: Checks and how many answers without a known mistake fail each.
        errors: Number of answers that are still the starter or could not be run.
    """

    id: str
    title: str
    handed_in: int
    passed: int
    mistakes: tuple[tuple[str, int], ...]
    checks: tuple[tuple[str, int], ...]
    errors: int


def student_points(graded: Mapping[str, GradedSubmission], assignments: Sequence[Assignment]) -> list[StudentPoints]:
    """Return the points of each student, in order."""
    found = []
    for student, submission in graded.items():
        points = {id: int(exercise["points"]) for id, exercise in submission["exercises"].items()}
        sums = {each.id: sum(points[item.id] for item in each.items) for each in assignments}
        found.append(StudentPoints(student, sums, points, tuple(submission["notes"])))
    return found


def possible(assignments: Sequence[Assignment]) -> dict[str, int]:
    """Return the possible points of each assignment, keyed by id."""
    return {each.id: each.points for each in assignments}


def as_csv(students: Sequence[StudentPoints], assignments: Sequence[Assignment]) -> str:
    """Return CSV with a line for each student: points per assignment, their total, points per exercise, and notes.

    Text that a spreadsheet would evaluate as a formula gets an apostrophe in front.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ids = [each.id for each in assignments]
    exercises = [item.id for each in assignments for item in each.items]
    writer.writerow(["student", *ids, "total", "possible", *exercises, "notes"])
    most = sum(possible(assignments).values())
    for student in students:
        of_exercises = [student.of_exercises[id] for id in exercises]
        of_assignments, notes = [student.of_assignments[id] for id in ids], _cell(" ".join(student.notes))
        writer.writerow([_cell(student.id), *of_assignments, student.total, most, *of_exercises, notes])
    return text.getvalue()


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_json(
    graded: Mapping[str, GradedSubmission], assignments: Sequence[Assignment], seed: int, ignored: Mapping[str, str]
) -> dict[str, Any]:
    """Return all grades as values that JSON can represent, without the students' code and its output.

    `ignored` are the reasons why entries of the class's folder were not graded, keyed by name.
    """
    students = []
    for student, submission in zip(student_points(graded, assignments), graded.values(), strict=True):
        exercises = {
            id: {key: value for key, value in exercise.items() if key not in ("code", "printed", "exercise", "case")}
            for id, exercise in submission["exercises"].items()
        }
        points = {"assignments": student.of_assignments, "total": student.total}
        students.append({"student": student.id, **points, "notes": submission["notes"], "exercises": exercises})
    return {
        "seed": seed,
        "possible": possible(assignments),
        "students": students,
        "ignored": dict(ignored),
        "common": [dataclasses.asdict(each) for each in summaries(graded)],
    }


def gradescope(submission: GradedSubmission) -> dict[str, Any]:
    """Return the content of Gradescope's `results.json`: a test for each check. Hidden tests show after publication."""
    tests = []
    for id, exercise in submission["exercises"].items():
        error = "" if exercise["error"] is None else error_text(exercise["error"])
        for check in exercise["checks"]:
            output = error or check["wrong"] or ""
            if output and exercise["mistake"] is not None and check["visible"]:
                output = f"{output}\n{exercise['mistake']['says']}"
            tests.append(
                {
                    "name": f"{id}: {check['says']}",
                    "score": check["points"],
                    "max_score": check["possible"],
                    "output": output,
                    "visibility": "visible" if check["visible"] else "after_published",
                }
            )
    score, notes = sum(test["score"] for test in tests), "\n".join(submission["notes"])
    texts = {"output_format": "text", "test_output_format": "text", "test_name_format": "text"}
    return {"score": score, **texts, "output": notes, "tests": tests}


def summaries(graded: Mapping[str, GradedSubmission]) -> list[ExerciseSummary]:
    """Return a summary of each exercise."""
    ids = next(iter(graded.values()))["exercises"] if graded else {}
    return [_summary(id, [submission["exercises"][id] for submission in graded.values()]) for id in ids]


def _summary(id: str, answers: Sequence[dict[str, Any]]) -> ExerciseSummary:
    handed_in = [answer for answer in answers if answer["handed_in"]]
    failed = [answer for answer in handed_in if not answer["passed"]]
    mistakes = tuple(Counter(answer["mistake"]["says"] for answer in failed if answer["mistake"]).most_common())
    unnamed = [answer for answer in failed if not answer["mistake"] and answer["error"] is None]
    checks = Counter(check["says"] for answer in unnamed for check in answer["checks"] if check["wrong"])
    errors, passed = sum(answer["error"] is not None for answer in failed), len(handed_in) - len(failed)
    title, common = answers[0]["title"], tuple(checks.most_common())
    return ExerciseSummary(id, title, len(handed_in), passed, mistakes, common, errors)
