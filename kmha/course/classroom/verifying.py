"""Verify exercises and notebooks: the starter fails, the solution passes, and each known wrong answer is named."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kmha.course.exercises import extras, notebooks
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.exercise import Check, Wrong
from kmha.course.judging.marking import mark
from kmha.course.judging.pipeline import judge, judge_with
from kmha.course.judging.planning import Plan
from kmha.course.judging.running import Answer, BrokenExerciseError, Runner, needed_solutions
from kmha.sandbox.sandbox import STARTUP, Sandbox, TaskResult
from kmha.sandbox.worker import arrays

CELL_SECONDS = 600  # time limit of a notebook cell; the longest checks train a model
COPIED_SHARE = 0.5  # maximum share of the points for numbers of another seed
COPIED = 24  # a hint must not contain a line of the solution with at least this many characters


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem of the exercise or assignment that has this id."""

    id: str
    message: str


def verify(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Problem]:
    """Yield the problems of an exercise."""
    yield from _verify_texts(item)
    try:
        yield from _verify_grades(item, sandbox, seed)
    except (BrokenExerciseError, ValueError) as error:
        yield Problem(item.id, str(error))


def verify_notebooks(assignment: Assignment) -> Iterator[Problem]:
    """Yield the problems of an assignment's notebooks: cells that raise, and solutions that lose points."""
    try:
        _execute(notebooks.student(assignment))
        run = _execute(notebooks.solved(assignment))
    except extras.load("nbclient").exceptions.CellExecutionError as error:
        yield Problem(assignment.id, f"a cell of its notebook raises {error.ename}: {error.evalue}")
        return
    shown = {cell["metadata"]["nbgrader"]["grade_id"]: _output(cell) for cell in run.cells if cell.cell_type == "code"}
    for item in assignment.items:
        wanted, output = f"{item.spec.points} of {item.spec.points} points", shown[f"check-{item.name}"]
        if wanted not in output:
            first = output.strip().splitlines()[0] if output.strip() else "nothing"
            yield Problem(item.id, f"its solution gets fewer than {wanted} in the notebook: {first}")


def _verify_grades(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Problem]:
    files = needed_solutions(item)
    starter = judge(item, item.master.starter, sandbox, seed=seed, files=files, explained=False)
    if starter.points:
        yield Problem(item.id, f"its starter gets {starter.points} points instead of none.")
    solved = judge(item, item.master.solution, sandbox, seed=seed, files=files)
    for outcome in solved.outcomes:
        if outcome.problem is not None:
            yield Problem(item.id, f"its solution fails the check {outcome.check.says!r}: {outcome.problem}")
    yield from _verify_variation(item, sandbox, seed)
    yield from _verify_axes(item, sandbox, seed)
    for wrong in item.spec.wrong:
        grade = judge_with(_StatedRunner(item, sandbox, seed, wrong), Answer(wrong.text(item.master.solution), files))
        if grade.error is not None:
            yield Problem(item.id, f"its wrong answer {wrong.id} cannot be run: {grade.error['says']}")
        elif grade.passed:
            yield Problem(item.id, f"its wrong answer {wrong.id} gets full points.")
        elif grade.mistake is None:
            yield Problem(item.id, f"its wrong answer {wrong.id} is not named.")
        elif grade.mistake.id != wrong.id:
            yield Problem(item.id, f"its wrong answer {wrong.id} is named {grade.mistake.id}.")


class _StatedRunner(Runner):
    """Grade a stated wrong answer by the results that name mistakes, so that it runs once, in one process.

    An answer of a learner runs once more for its grade, in as many processes as the exercise asks for, and for the
    smallest case.
    """

    def __init__(self, item: Item, sandbox: Sandbox, seed: int, stated: Wrong) -> None:
        super().__init__(item, sandbox, seed)
        self.stated = stated

    def run(
        self, answer: Answer, calls: Plan | None = None, startup: float = STARTUP, trusted: bool = False
    ) -> TaskResult:
        return super().run(answer, calls, startup, trusted) if trusted else self.wrong(self.stated)

    def smallest(self, check: Check) -> tuple[Plan, None]:
        return Plan((), ()), None


def _verify_variation(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Problem]:
    """Yield a problem if the solution's numbers for one seed get many points with another seed: they can be copied."""
    one, other = Runner(item, sandbox, seed), Runner(item, sandbox, seed + 1)
    results = one.expected()
    compared = tuple(dataclasses.replace(check, judge=None) for check in item.spec.checks)
    spec = dataclasses.replace(item.spec, checks=compared)
    copied = mark(item.id, spec, other.plan, TaskResult(None, results), other.expected())
    if copied.points > COPIED_SHARE * copied.possible and any(_has_numbers(result.value) for result in results):
        points = f"{copied.points} of {copied.possible} points"
        yield Problem(item.id, f"numbers that are copied from a run with another seed get {points}. Draw more of them.")


def _verify_axes(item: Item, sandbox: Sandbox, seed: int) -> Iterator[Problem]:
    """Yield a problem if results without their axes of size 1 get full points, although a check draws such sizes."""
    if not any(check.layer == "shape" and check.ones for check in item.spec.checks):
        return
    runner = Runner(item, sandbox, seed)
    expected = runner.expected()
    results = tuple(dataclasses.replace(each, value=_squeezed(each.value)) for each in expected)
    has_ones = any(1 in array.shape for each in expected for array in arrays(each.value))
    if has_ones and mark(item.id, item.spec, runner.plan, TaskResult(None, results), expected).passed:
        yield Problem(item.id, "results without their axes of size 1 get full points. Draw sizes of 1.")


def _squeezed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _squeezed(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(_squeezed, value))
    return np.squeeze(value) if isinstance(value, np.ndarray) else value


def _has_numbers(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = [*value.values()]
    return any(map(_has_numbers, value)) if isinstance(value, tuple | list) else isinstance(value, np.ndarray)


def _verify_texts(item: Item) -> Iterator[Problem]:
    master, spec = item.master, item.spec
    if master.title != spec.title:
        yield Problem(item.id, f"the title of its text is {master.title!r}, that of its checks {spec.title!r}.")
    if not re.search(rf"^(def|class) {item.name}\b", master.starter, re.M):
        yield Problem(item.id, f"its starter does not define {item.name}.")
    if len({wrong.id for wrong in spec.wrong}) < len(spec.wrong):
        yield Problem(item.id, "two of its wrong answers have the same id.")
    if not 1 <= spec.difficulty <= 3:
        yield Problem(item.id, f"its difficulty must be 1, 2 or 3. Received: {spec.difficulty}.")
    known = {_without_spaces(line) for line in master.starter.splitlines()}
    for line in master.solution.splitlines():
        if len(_without_spaces(line)) >= COPIED and _without_spaces(line) not in known:
            for number, hint in enumerate(master.hints, 1):
                if _without_spaces(line) in _without_spaces(hint):
                    yield Problem(item.id, f"hint {number} contains a line of the solution: {line.strip()}")


def _without_spaces(text: str) -> str:
    return re.sub(r"\s", "", text)


def _execute(notebook: Any) -> Any:
    """Run all cells in order, in a new kernel as a learner does, and return the notebook with their outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised.
    """
    client = extras.load("nbclient").NotebookClient
    source = str(Path(__file__).parents[3])  # the kernel runs in another folder and must find this kmha
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="kmha-notebook-") as folder:
        runner = client(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # TensorFlow logs to the terminal, between our lines
        return runner.execute(env={**quiet, **os.environ, "PYTHONPATH": paths})


def _output(cell: Any) -> str:
    """Return the output of a cell as text."""
    return "\n".join(
        str(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in cell.get("outputs", ())
    )
