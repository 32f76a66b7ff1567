"""Grade notebooks with nbgrader itself, as README tells a teacher to."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kmha.course.exercises import content, notebooks

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbgrader")

ROOT = Path(__file__).parents[3]
README = ROOT / "kmha" / "course" / "classroom" / "README.md"


def _nbgrader(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "jupyter")}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr[-3000:]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Return the scores that nbgrader gives to some students' notebooks of an assignment, and the possible score."""
    folder = tmp_path_factory.mktemp("nbgrader")
    config = re.search(r"```\n(c = .*?)```", README.read_text(), re.S)[1]
    (folder / "nbgrader_config.py").write_text(config)
    whole = content.assignments(content.installed())[0]
    items = tuple(item for item in whole.items if item.name in ("cross_kv", "letter_sizes", "cross_mask"))
    assignment = content.Assignment("a1", whole.title, whole.folder, items)
    untouched, right = notebooks.student(assignment), notebooks.solved(assignment)
    wrong = notebooks.solved(assignment)
    (code,) = (cell for cell in wrong.cells if cell.id == "code-cross-kv")
    code.source = items[0].spec.wrong[0].text(code.source + "\n")
    tampered = notebooks.student(assignment)
    for cell in tampered.cells:
        cell.source = "10" if cell.id.startswith("check-") else cell.source
    source = folder / "source" / "week1"
    source.mkdir(parents=True)
    nbformat.write(untouched, source / "a1_k_and_v.ipynb")
    _nbgrader(folder, "generate_assignment", "week1", "--create")
    for name, notebook in {"untouched": untouched, "right": right, "wrong": wrong, "tampered": tampered}.items():
        place = folder / "submitted" / name / "week1"
        place.mkdir(parents=True)
        nbformat.write(notebook, place / "a1_k_and_v.ipynb")
    released = nbformat.read(folder / "release" / "week1" / "a1_k_and_v.ipynb", 4)
    assert [cell.source for cell in released.cells] == [cell.source for cell in untouched.cells]
    _nbgrader(folder, "autograde", "week1", "--create")
    _nbgrader(folder, "export")
    rows = list(csv.DictReader((folder / "grades.csv").read_text().splitlines()))
    return {row["student_id"]: float(row["score"]) for row in rows}, float(rows[0]["max_score"])


@pytest.mark.slow
def test_scores(scores):
    found, possible = scores
    assert possible == 30
    assert found == {"untouched": 0, "right": 30, "wrong": 20, "tampered": 0}
