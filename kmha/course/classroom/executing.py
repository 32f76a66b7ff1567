"""Notebooks are run as a learner runs them: all cells in order, in a kernel of their own."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmha.course.classroom.verifying import Found
from kmha.course.exercises import extras, notebooks
from kmha.course.exercises.content import Assignment

SECONDS = 600  # that a cell may take; the check of a model that is trained is the longest


def verify(assignment: Assignment) -> Iterator[Found]:
    """What is wrong with the notebooks of an assignment: no cell may raise, and every solution gets all its points."""
    try:
        _executed(notebooks.student(assignment))
        run = _executed(notebooks.solved(assignment))
    except extras.load("nbclient").exceptions.CellExecutionError as error:
        yield Found(assignment.id, f"a cell of its notebook raises: {error.ename}: {error.evalue}")
        return
    said = {cell["metadata"]["nbgrader"]["grade_id"]: _said(cell) for cell in run.cells if cell.cell_type == "code"}
    for item in assignment.items:
        wanted, shown = f"{item.spec.points} of {item.spec.points} points", said[f"check-{item.name}"]
        if wanted not in shown:
            first = shown.strip().splitlines()[0] if shown.strip() else "nothing"
            yield Found(item.id, f"its solution in the notebook gets less than {wanted}: {first}")


def _executed(notebook: Any) -> Any:
    """The notebook with what its cells gave.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised.
    """
    client = extras.load("nbclient").NotebookClient
    source = str(Path(__file__).parents[3])  # the kernel runs elsewhere, and needs this kmha
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="kmha-notebook-") as folder:
        runner = client(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # what TensorFlow logs is in no cell: it would come between our lines
        return runner.execute(env={**quiet, **os.environ, "PYTHONPATH": paths})


def _said(cell: Any) -> str:
    """What a cell shows, as text."""
    return "\n".join(
        str(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in cell.get("outputs", ())
    )
