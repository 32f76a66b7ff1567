"""`kmha course release` and `kmha course grade`, on a course of one exercise."""

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("nbformat")
pytest.importorskip("jinja2")

from kmha.cli import course_teacher
from kmha.cli.course import course
from kmha.course.classroom import grading
from kmha.course.exercises import content
from kmha.sandbox import limits

MASTER = '''# %% [markdown]
# # Twice as much
#
# Doubles an array of shape (B, T).

# %%
def twice(array):
    """The array (B, T), doubled."""
    ### BEGIN SOLUTION
    factor_of_the_solution = 2
    return factor_of_the_solution * array
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# One.

# %% [markdown] tags=["hint"]
# Two.

# %% [markdown] tags=["hint"]
# Three.
'''
CHECKS = """from kmha.course.exercises import Exercise, Wrong, sizes, standard


def draw(rng):
    rows, columns = sizes(rng, 2)
    return {"array": rng.normal(size=(rows, columns))}


EXERCISE = Exercise(
    title="Twice as much",
    question="?",
    difficulty=1,
    minutes=2,
    checks=standard(draw, values=5),
    wrong=(Wrong("thrice", "The factor is 3.", {"of_the_solution = 2": "of_the_solution = 3"}),),
    seconds=60,
)
"""
RIGHT = "def twice(array):\n    return array * 2\n"


@pytest.fixture(autouse=True)
def one_exercise(tmp_path, monkeypatch):
    """Make a course of one exercise in a1, and an empty a2."""
    folder = tmp_path / "assignments" / "a1_doubling"
    (folder / "checks").mkdir(parents=True)
    (folder / "assignment.toml").write_text('title = "Doubling"\nexercises = ["twice"]\n')
    (folder / "README.md").write_text("# Doubling\n")
    (folder / "twice.py").write_text(MASTER)
    (folder / "checks" / "twice.py").write_text(CHECKS)
    other = tmp_path / "assignments" / "a2_other"
    other.mkdir()
    (other / "assignment.toml").write_text('title = "Other"\nexercises = []\n')
    (other / "README.md").write_text("# Other\n")
    monkeypatch.setattr(content, "installed", lambda: tmp_path / "assignments")
    monkeypatch.chdir(tmp_path)


def _hand_in(answers):
    for id, code in answers.items():
        path = Path("in", id, "a1_doubling", "twice.py")
        path.parent.mkdir(parents=True)
        path.write_text(code)


def _run(*arguments):
    return CliRunner().invoke(course, [str(argument) for argument in arguments])


def _lines(path):
    return list(csv.reader(io.StringIO(Path(path).read_text())))


def test_release_then_grade():
    made = _run("release", "class", "--assignment", "a1")
    assert made.exit_code == 0, made.output
    assert "class: 1 exercise of a1, as files and notebooks." in made.output
    os.renames("class/files", "in/anna")
    os.renames("class/notebooks", "in/bob")
    Path("in/anna/a1_doubling/twice.py").write_text(RIGHT)
    graded = _run("grade", "in", "--json", "grades.json", "--jobs", 2)
    assert graded.exit_code == 0, graded.output
    assert "2 submissions" in graded.output
    assert _lines("in-grades/grades.csv") == [
        ["student", "a1", "total", "possible", "a1.twice", "notes"],
        ["anna", "5", "5", "5", "5", ""],
        ["bob", "0", "0", "5", "0", ""],
    ]
    found = {str(path.relative_to("in-grades")) for path in Path("in-grades").rglob("*") if path.is_file()}
    assert found == {
        *("grades.csv", "grades.json", "index.html", "run.json", "students/anna.html", "students/bob.html"),
        *("gradescope/anna.json", "gradescope/bob.json", "results/anna.json", "results/bob.json"),
    }
    assert json.loads(Path("grades.json").read_text()) == json.loads(Path("in-grades/grades.json").read_text())
    assert json.loads(Path("in-grades/gradescope/anna.json").read_text())["score"] == 5


def test_release_in_one_form():
    assert _run("release", "class", "--assignment", "a1", "--form", "notebooks", "--seed", 3).exit_code == 0
    assert sorted(path.name for path in Path("class").iterdir()) == ["README.md", "notebooks"]


def test_release_into_a_folder_in_use():
    Path("class").mkdir()
    Path("class/mine").touch()
    made = _run("release", "class")
    assert made.exit_code == 1
    assert "class is not empty" in made.output


@pytest.mark.parametrize("command", ["release", "grade"])
def test_unknown_assignment(command):
    _hand_in({"anna": RIGHT})
    made = _run(command, "in", "--assignment", "a7")
    assert made.exit_code == 2
    assert "there is no assignment 'a7'. Expected one of a1, a2." in made.output


def test_failing_solution_ends_with_the_reason():
    """With kmha on PYTHONPATH, every correct answer got no points, and the exit status was 0."""
    _hand_in({"anna": RIGHT})
    path = Path("assignments/a1_doubling/twice.py")
    path.write_text(path.read_text().replace("    return factor", "    open('/etc/shadow')\n    return factor"))
    made = _run("grade", "in")
    assert made.exit_code == 1
    assert "a1.twice: its own solution fails: PermissionError" in made.output
    assert "Nothing is graded." in made.output
    assert not Path("in-grades/grades.csv").exists()


def test_seed_is_kept_and_old_students_are_removed():
    _hand_in({"anna": RIGHT, "bob": RIGHT})
    graded = _run("grade", "in")
    assert graded.exit_code == 0
    assert "Grading a1 (2 submissions). Each counts for the whole class." in graded.output
    seed = json.loads(Path("in-grades/run.json").read_text())["seed"]
    before = Path("in-grades/results/anna.json").stat().st_mtime_ns
    os.renames("in/bob", "gone/bob")
    assert _run("grade", "in").exit_code == 0
    assert json.loads(Path("in-grades/run.json").read_text())["seed"] == seed
    assert Path("in-grades/results/anna.json").stat().st_mtime_ns == before
    assert [path.name for path in Path("in-grades/students").iterdir()] == ["anna.html"]
    assert len(_lines("in-grades/grades.csv")) == 2
    assert _run("grade", "in", "--seed", seed + 1).exit_code == 0
    assert Path("in-grades/results/anna.json").stat().st_mtime_ns != before


def test_assignments_that_were_handed_in_count():
    _hand_in({"anna": RIGHT})
    assert _run("grade", "in").exit_code == 0
    assert _lines("in-grades/grades.csv")[0][:2] == ["student", "a1"]
    assert _run("grade", "in", "--assignment", "a2", "--assignment", "a1", "--out", "both").exit_code == 0
    assert _lines("both/grades.csv")[0][:3] == ["student", "a1", "a2"]


def test_invalid_folders_for_grades():
    _hand_in({"anna": RIGHT})
    inside = _run("grade", "in", "--out", "in/grades")
    assert (inside.exit_code, "--out is inside the folder of submissions" in inside.output) == (2, True)
    Path("mine").mkdir()
    Path("mine/thesis.txt").touch()
    used = _run("grade", "in", "--out", "mine")
    assert (used.exit_code, "mine contains files other than grades" in used.output) == (2, True)
    Path("mine/run.json").write_text('{"seed": 1}')  # others call their files so too
    assert "mine contains files other than grades" in _run("grade", "in", "--out", "mine").output
    assert {path.name for path in Path("mine").iterdir()} == {"thesis.txt", "run.json"}


def _refused(says, out="grades"):
    graded = _run("grade", "in", "--out", out)
    assert (graded.exit_code, says in graded.output) == (2, True), graded.output


@pytest.mark.skipif(os.name != "posix", reason="needs users and permissions")
def test_folder_that_someone_else_prepared(monkeypatch):
    """A student who made the folder first could put a seed, results and a link for grades.csv into it. All counted."""
    _hand_in({"anna": RIGHT})
    assert _run("grade", "in", "--out", "grades").exit_code == 0
    assert Path("grades").stat().st_mode & 0o777 == 0o700
    kept = Path("precious")
    kept.write_text("mine")
    Path("grades/grades.csv").unlink()
    Path("grades/grades.csv").symlink_to(kept.absolute())
    _refused("grades.csv is a link or another user's")
    assert kept.read_text() == "mine"
    Path("grades/grades.csv").unlink()
    Path("there").symlink_to("nowhere")
    _refused("there is not a folder of yours", "there")
    assert not Path("nowhere").exists()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: Path("grades").stat().st_uid + 1)
        _refused("grades is not a folder of yours")
    assert _run("grade", "in", "--out", "grades").exit_code == 0


@pytest.mark.skipif(os.name != "posix", reason="needs users and permissions")
def test_folder_to_which_others_can_write():
    _hand_in({"anna": RIGHT})
    Path("grades").mkdir(mode=0o755)
    Path("grades").chmod(0o777)
    assert _run("grade", "in", "--out", "grades").exit_code == 0
    assert Path("grades").stat().st_mode & 0o777 == 0o755
    Path("grades/results").chmod(0o777)
    _refused("other users can write to grades/results. Run `chmod -R go-w grades`")
    Path("grades").chmod(0o700)
    assert _run("grade", "in", "--out", "grades").exit_code == 0


def test_folder_without_submissions():
    Path("in").mkdir()
    graded = _run("grade", "in")
    assert graded.exit_code == 1
    assert "in holds no submissions" in graded.output


def test_left_out_files_are_reported():
    _hand_in({"anna": RIGHT})
    Path("in/anna/link.py").symlink_to("/etc/passwd")
    graded = _run("grade", "in")
    assert graded.exit_code == 0
    assert "anna: link.py is left out: it is a link." in graded.output


def test_answers_beyond_the_time_of_a_submission_are_reported(monkeypatch):
    """The report names them and the option, which grades them again."""
    _hand_in({"anna": RIGHT, "bob": RIGHT})
    seconds = itertools.count(0, 70)
    monkeypatch.setattr(grading, "own_seconds", lambda: next(seconds))
    graded = _run("grade", "in", "--minutes", 1, "--jobs", 1)
    assert graded.exit_code == 0, graded.output
    why = "not run, because this submission took more than 1 minute"
    assert f"anna: 1 answer was {why}: a1.twice. Use a larger --minutes.\n" in graded.output
    assert [(line[1], why in line[-1]) for line in _lines("in-grades/grades.csv")[1:]] == [("0", True)] * 2
    assert "out of time</th>" in Path("in-grades/index.html").read_text()
    page = Path("in-grades/students/anna.html").read_text()
    assert "out of time: 0 of 5 points" in page
    assert f"It could not be checked: it was {why}. Use a larger --minutes." in page
    assert why in json.loads(Path("in-grades/gradescope/anna.json").read_text())["output"]
    assert _run("grade", "in", "--minutes", 2, "--jobs", 1).exit_code == 0
    assert [(line[1], line[-1]) for line in _lines("in-grades/grades.csv")[1:]] == [("5", "")] * 2
    assert "out of time" not in Path("in-grades/index.html").read_text()


def test_doubts_about_whose_file_it_is_are_reported():
    Path("in").mkdir()
    Path("in/ml_3_10234_anna.py").write_text(RIGHT)
    Path("in/ml_3_10235_bob.rar").write_text("damaged")
    graded = _run("grade", "in", "--assignment", "a1")
    note = "It could also be a file of the student ml_3 of Canvas."
    assert f"ml_3_10234_anna: {note}" in graded.output
    assert [(*line[:2], note in line[-1]) for line in _lines("in-grades/grades.csv")[1:]] == [
        ("ml_3_10234_anna", "5", True),
        ("ml_3_10235_bob", "0", True),
    ]


def test_invalid_archive_is_reported():
    _hand_in({"anna": RIGHT})
    Path("in/bob.zip").write_text("no archive")
    graded = _run("grade", "in")
    assert graded.exit_code == 0
    assert "bob: bob.zip could not be opened (not a zip file).\n" in graded.output
    assert "bob: No answer was found, so this submission gets 0 points.\n" in graded.output


def test_installed_files_are_read_only_before_answers_that_judge_implementations(monkeypatch):
    read = []
    monkeypatch.setattr(course_teacher.readable, "read_once", lambda uses: read.append({*uses}))
    for apart in ("", "suspects"):
        checks = [types.SimpleNamespace(apart=""), types.SimpleNamespace(apart=apart)]
        item = types.SimpleNamespace(spec=types.SimpleNamespace(checks=checks, uses=("numpy",)))
        course_teacher._hide_access_times([types.SimpleNamespace(items=[item])])
    assert read == [{"numpy"}]


def test_grade_refuses_without_protection(monkeypatch):
    _hand_in({"anna": RIGHT})
    monkeypatch.setattr(limits, "missing", lambda: ["using the network", "changing your files"])
    graded = _run("grade", "in")
    assert graded.exit_code == 1
    assert "keep submitted code from using the network or changing your files" in graded.output
    assert "pip install 'kmha[course]'" in graded.output
    assert not Path("in-grades").exists()
    assert _run("grade", "in", "--unprotected").exit_code == 0


def test_missing_package(monkeypatch):
    _hand_in({"anna": RIGHT})
    monkeypatch.setitem(sys.modules, "jinja2", None)
    graded = _run("grade", "in")
    assert graded.exit_code == 1
    assert graded.output == "Error: jinja2 is not installed. Run: pip install 'kmha[course]'\n"


PROGRAM = """
import sys
from pathlib import Path
from kmha.course.exercises import content
content.installed = lambda: Path("assignments")
from kmha.cli.course import course
course(sys.argv[1:])
"""


@pytest.mark.slow
def test_ctrl_c_then_resume(tmp_path):
    slow = "import time\ntime.sleep(0.3)\n"
    _hand_in({f"student{number:02}": slow + RIGHT for number in range(12)})
    command = [sys.executable, "-c", PROGRAM, "grade", "in", "--jobs", "2", "--seed", "5"]
    environment = {**os.environ, "PYTHONPATH": str(Path(content.__file__).parents[3])}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # Processes started by a background shell ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    end = time.monotonic() + 60
    while len(list(Path("in-grades/results").glob("*.json"))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all processes, too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Run the same command to resume" in errors
    kept = {path.name: path.stat().st_mtime_ns for path in Path("in-grades/results").iterdir()}
    assert 2 <= len(kept) < 12
    assert not Path("in-grades/grades.csv").exists()
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert {name: Path("in-grades/results", name).stat().st_mtime_ns for name in kept} == kept
    assert [line[1] for line in _lines("in-grades/grades.csv")[1:]] == ["5"] * 12


@pytest.mark.sampled(2)
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
@pytest.mark.parametrize("after", [1.5, 4])
def test_interrupt_ends_while_an_answer_runs(tmp_path, after):
    """Ctrl-C waits neither for the answer, nor for what a thread of the grader computes."""
    _hand_in({"student": "while True:\n    pass\n"})
    command = [sys.executable, "-c", PROGRAM, "grade", "in"]
    environment = {**os.environ, "PYTHONPATH": str(Path(content.__file__).parents[3])}
    process = subprocess.Popen(
        command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)  # about one second, on a machine that does nothing else
    assert process.returncode == 130
