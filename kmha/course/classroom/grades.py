"""A class's grades as a table, CSV, JSON and Gradescope's results, and a summary of each exercise."""

import csv
import dataclasses
import io
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kmha.course.classroom.grading import NOT_BEGUN, RIGHT, STATES, WRONG, GradedSubmission
from kmha.course.classroom.likeness import Alike, alike
from kmha.course.exercises.content import Assignment
from kmha.course.judging.error_advice import general
from kmha.course.judging.marking import error_text

_FORMULA = ("=", "+", "-", "−", "@")  # a spreadsheet evaluates a cell that begins with one of these


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
        id, title, difficulty: Id, title and difficulty of the exercise.
        states: Number of students for each of `kmha.course.classroom.grading.STATES`.
        mistakes: Known mistakes and how often each was made, most frequent first.
        checks: Checks and how many answers without a known mistake fail each.
        alike: Groups of students with identical answers.
    """

    id: str
    title: str
    difficulty: int
    states: dict[str, int]
    mistakes: tuple[tuple[str, int], ...]
    checks: tuple[tuple[str, int], ...]
    alike: tuple[Alike, ...]

    @property
    def begun(self) -> int:
        return sum(self.states.values()) - self.states[NOT_BEGUN]

    @property
    def passed(self) -> float:
        """Share of the students who began the exercise and passed it, or 1 if nobody began."""
        return self.states[RIGHT] / self.begun if self.begun else 1.0


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
    # Where the comma is in numbers, spreadsheets also divide what is not quoted at semicolons.
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
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
    """Return a text as a spreadsheet shows it. Some leave out spaces, and read wide letters as narrow ones."""
    begin = unicodedata.normalize("NFKC", text.lstrip()[:10]).lstrip()
    return f"'{text}" if begin.startswith(_FORMULA) or text.startswith(("\t", "\r", "\n")) else text


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


def histogram(students: Sequence[StudentPoints], most: int, bins: int = 10) -> list[tuple[int, int, int]]:
    """Return the lowest and highest points of each bin, and how many students are in it.

    >>> students = [StudentPoints(str(total), {"a1": total}, {}) for total in (0, 3, 9, 10)]
    >>> histogram(students, 10, bins=3)
    [(0, 3, 2), (4, 7, 0), (8, 10, 2)]
    """
    width = most // bins + 1
    counts = Counter(student.total // width for student in students)
    return [(low, min(low + width - 1, most), counts[low // width]) for low in range(0, most + 1, width)]


def summaries(graded: Mapping[str, GradedSubmission]) -> list[ExerciseSummary]:
    """Return a summary of each exercise."""
    ids = next(iter(graded.values()))["exercises"] if graded else {}
    return [_summary(id, {name: submission["exercises"][id] for name, submission in graded.items()}) for id in ids]


def _summary(id: str, answers: Mapping[str, dict[str, Any]]) -> ExerciseSummary:
    first, states = next(iter(answers.values())), Counter(answer["state"] for answer in answers.values())
    failed = [answer for answer in answers.values() if answer["state"] == WRONG]
    made = [answer["mistake"] for answer in failed if answer["mistake"]]
    mistakes = Counter(mistake["id"] for mistake in made)
    # An answer chooses part of what is said of its errors. Other mistakes are said as for most of their answers.
    said = Counter((mistake["id"], mistake["says"]) for mistake in made)
    says = {id: general(id) or text for (id, text), _ in reversed(said.most_common())}
    checks = Counter(
        check["says"] for each in failed if not each["mistake"] for check in each["checks"] if check["wrong"]
    )
    solution = next((each["fingerprint"] for each in answers.values() if each["like_solution"]), "")
    same = alike(id, ((student, answer["fingerprint"]) for student, answer in answers.items()), solution)
    return ExerciseSummary(
        id,
        first["title"],
        first["difficulty"],
        {state: states[state] for state in STATES},
        tuple((says[mistake], count) for mistake, count in mistakes.most_common()),
        tuple(checks.most_common()),
        tuple(same),
    )
