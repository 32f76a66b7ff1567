"""Run an assignment's notebooks as a learner does: all cells in order, in a new kernel."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmha.course.classroom.verifying import Problem
from kmha.course.exercises import extras, notebooks
from kmha.course.exercises.content import Assignment

SECONDS = 600  # time limit of a cell; the longest checks train a model


def verify(assignment: Assignment) -> Iterator[Problem]:
    """Yield the problems of an assignment's notebooks: cells that raise, and solutions that lose points."""
    try:
        _executed(notebooks.student(assignment))
        run = _executed(notebooks.solved(assignment))
    except extras.load("nbclient").exceptions.CellExecutionError as error:
        yield Problem(assignment.id, f"a cell of its notebook raises {error.ename}: {error.evalue}")
        return
    shown = {cell["metadata"]["nbgrader"]["grade_id"]: _output(cell) for cell in run.cells if cell.cell_type == "code"}
    for item in assignment.items:
        wanted, output = f"{item.spec.points} of {item.spec.points} points", shown[f"check-{item.name}"]
        if wanted not in output:
            first = output.strip().splitlines()[0] if output.strip() else "nothing"
            yield Problem(item.id, f"its solution gets fewer than {wanted} in the notebook: {first}")


def _executed(notebook: Any) -> Any:
    """Return the notebook with the outputs of its cells.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised.
    """
    client = extras.load("nbclient").NotebookClient
    source = str(Path(__file__).parents[3])  # the kernel runs in another folder and must find this kmha
    paths = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="kmha-notebook-") as folder:
        runner = client(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # TensorFlow logs to the terminal, between our lines
        return runner.execute(env={**quiet, **os.environ, "PYTHONPATH": paths})


def _output(cell: Any) -> str:
    """Return the output of a cell as text."""
    return "\n".join(
        str(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in cell.get("outputs", ())
    )
