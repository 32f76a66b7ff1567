"""Run Gradescope's autograder as Gradescope does, except for the installation of kmha."""

import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kmha.course.classroom import gradescope
from kmha.course.exercises import content

pytest.importorskip("jinja2")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def autograder(tmp_path):
    """Unpack the autograder of a1, and return a function that grades a submission of some files."""
    (assignment, *_) = content.assignments(content.installed())
    with zipfile.ZipFile(io.BytesIO(gradescope.archive([assignment]))) as made:
        assert [stat.filemode(info.external_attr >> 16) for info in made.infolist()] == ["-rwxr-xr-x"] * 2
        made.extractall(tmp_path / "source")
    program = tmp_path / "kmha" / "bin" / "kmha"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from kmha.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)

    def run(**files):
        (tmp_path / "submission").mkdir()
        for name, text in files.items():
            (tmp_path / "submission" / f"{name}.py").write_text(text)
        environment = {"AUTOGRADER_ROOT": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        script = str(tmp_path / "source" / "run_autograder")
        ran = subprocess.run(["bash", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
        path = tmp_path / "results" / "results.json"
        return ran, json.loads(path.read_text()) if path.exists() else None

    return run


def test_scripts_are_valid(autograder, tmp_path):
    for name in ("setup.sh", "run_autograder"):
        assert subprocess.run(["bash", "-n", str(tmp_path / "source" / name)], check=False).returncode == 0
    text = (tmp_path / "source" / "setup.sh").read_text()
    assert "kmha[course]==" in text
    assert "{" not in text


@pytest.mark.slow
def test_a_submission_gets_its_points(autograder):
    (right,) = content.find("a1.cross_kv", content.installed())
    (wrong,) = content.find("a1.cross_mask", content.installed())
    wrong_code = wrong.spec.wrong[0].text(wrong.master.solution)
    ran, results = autograder(cross_kv=right.master.solution, cross_mask=wrong_code)
    assert ran.returncode == 0, ran.stderr
    assert 10 <= results["score"] < 20
    tests = {test["name"]: test for test in results["tests"]}
    assert sum(test["score"] for test in tests.values()) == results["score"]
    assert all(test["score"] == test["max_score"] for name, test in tests.items() if name.startswith("a1.cross_kv:"))
    assert any(wrong.spec.wrong[0].says in test["output"] for test in tests.values())


@pytest.mark.slow
def test_failing_autograder_writes_no_results(autograder, tmp_path):
    (tmp_path / "kmha" / "bin" / "kmha").write_text("#!/bin/sh\nexit 1\n")
    ran, results = autograder(cross_kv="")
    assert (ran.returncode != 0, results) == (True, None)
