"""The learner's commands of `kmha course`, on a small course."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kmha.cli import common, course_checking, main

OURS = Path(__file__).parents[1] / "course" / "conftest.py"
RIGHT = "def twice(array):\n    return 2 * array\n"
WRONG = "def twice(array):\n    print('[red]seen[/]')\n    return 3 * array\n"


@pytest.fixture(scope="module")
def assignments(tmp_path_factory):
    """The small course of the tests of `kmha.course`."""
    spec = importlib.util.spec_from_file_location("the_course_of_the_tests", OURS)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    folder = tmp_path_factory.mktemp("all") / "a1_doubling"
    (folder / "checks").mkdir(parents=True)
    (folder / "assignment.toml").write_text('title = "Doubling"\nexercises = ["twice", "again"]\n')
    (folder / "README.md").write_text("# Doubling\n")
    for name, (master, checks) in pages.PAGES.items():
        (folder / f"{name}.py").write_text(master)
        (folder / "checks" / f"{name}.py").write_text(checks)
    return folder.parent


@pytest.fixture
def run(assignments, tmp_path, monkeypatch):
    """Return a function that runs a command of `kmha course`, in an empty folder at first."""
    from kmha.course.exercises import content

    monkeypatch.setattr(content, "installed", lambda: assignments)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, given=None, status=0):
        result = CliRunner().invoke(main, ["course", *arguments], input=given)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result.output

    return invoke


@pytest.fixture
def begun(run, monkeypatch):
    """The same function, inside a learner's folder."""
    run("start")
    monkeypatch.chdir("kmha-course")
    return run


@pytest.fixture
def answer():
    def write(text, name="twice"):
        Path("a1_doubling", f"{name}.py").write_text(text)

    return write


def _noted(id="a1.twice"):
    return json.loads(Path(".kmha-course.json").read_text())["exercises"][id]


def test_start_says_what_to_do_next(run, tmp_path):
    output = run("start")
    assert "kmha-course: 2 exercises, 37 points, about 5 minutes. Added 4 files, overwrote none." in output
    assert "Begin with kmha-course/a1_doubling/twice.py: Twice as much, 32 points, about 2 minutes." in output
    assert "  cd kmha-course\n" in output
    assert "kmha course check" in output
    for name in ("README.md", "a1_doubling/twice.py"):
        assert (tmp_path / "kmha-course" / name).exists()


def test_start_again(begun, answer):
    answer("mine")
    Path("a1_doubling/again.py").unlink()
    output = begun("start")
    assert "Added 1 file," in output
    assert "cd " not in output
    assert Path("a1_doubling/twice.py").read_text() == "mine"
    assert not Path("kmha-course").exists()


def test_start_with_nothing_missing(run, begun, tmp_path, monkeypatch):
    following = "Next: a1.twice, Twice as much (a1_doubling/twice.py)\n"
    assert begun("start") == f"Nothing was missing in this folder. {following}"
    monkeypatch.chdir(tmp_path)
    assert run("start") == "Nothing was missing in kmha-course. " + following.replace("(", "(kmha-course/")


def test_start_inside_a_workspace(run, begun, tmp_path, monkeypatch):
    assert begun("start", "kmha-course", status=1).startswith("Error: kmha-course would be inside ")
    monkeypatch.chdir(tmp_path)
    assert "would be inside" in run("start", "kmha-course/a1_doubling/deep", status=1)
    assert not (tmp_path / "kmha-course" / "a1_doubling" / "deep").exists()


def test_start_elsewhere(run, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in run("start", "file", status=2)
    assert "file/inner: Not a directory." in run("start", "file/inner", status=1)
    run("start", "deep/inner")
    assert (tmp_path / "deep" / "inner" / ".kmha-course.json").exists()


def test_start_notebooks(run, monkeypatch):
    pytest.importorskip("nbformat")
    run("start", "books", "--notebooks")
    assert sorted(os.listdir("books")) == [".kmha-course.json", "README.md", "a1_doubling.ipynb"]
    monkeypatch.chdir("books")
    assert "This is still the starter" in run("check", status=1)
    assert "a folder of notebooks" not in run("start", "--notebooks")


def test_commands_outside_a_workspace(run):
    for command in (["check"], ["hint"], ["progress"], ["solution"], ["reset", "a1.twice"], ["watch"]):
        assert "you are not in a kmha-course folder. Run `kmha course start` to make one, or cd into yours." in run(
            *command, status=1
        )


def test_list(run, begun, answer):
    output = begun("list")
    assert "a1  Doubling" in output
    assert "a1.twice" in output
    assert "open" in output
    answer(RIGHT)
    begun("check")
    lines = begun("list").splitlines()
    (twice,) = (line for line in lines if "a1.twice" in line)
    assert twice.split()[:5] == ["a1.twice", "32", "2", "*", "passed"]


def test_list_needs_no_folder(run, monkeypatch):
    output = run("list")
    assert "a1.again" in output
    assert output.endswith("\nTo work on them: kmha course start\n")
    run("start")
    monkeypatch.chdir("kmha-course")
    assert "kmha course start" not in run("list")


def test_check_of_the_starter(begun):
    output = begun("check", status=1)
    assert "a1.twice, Twice as much: 0 of 32 points" in output
    says = "This is still the starter, as it was handed out. Read the text and write the missing code in"
    assert f"{says} a1_doubling/twice.py." in " ".join(output.split())
    assert "stuck? kmha course hint a1.twice" in output
    assert "You have made 0 checks" in begun("progress")
    (twice,) = (line for line in begun("list").splitlines() if "a1.twice" in line)
    assert twice.split()[4] == "open"


@pytest.mark.parametrize("path", ["a1_doubling/twice.py", "twice.py"])
def test_check_by_path(begun, path):
    assert begun("check", path, status=1).startswith("a1.twice, Twice as much")


def test_check_inside_an_assignment(begun, answer, monkeypatch, tmp_path):
    answer(RIGHT)
    monkeypatch.chdir("a1_doubling")
    assert "a1.twice, Twice as much: 32 of 32 points" in begun("check", "twice.py")
    assert "1 of 2 exercises passed" in begun("check", ".", status=1)
    other = tmp_path / "other" / "a1_doubling"
    other.mkdir(parents=True)
    (other / "twice.py").write_text(RIGHT)
    assert "First cd into the folder that holds it" in begun("check", str(other / "twice.py"), status=1)


def test_check_names_the_mistake(begun, answer):
    answer(WRONG)
    output = begun("check", "--seed", "5", status=1)
    assert "✗    0 of 4  every element of the result is right\n               " in output
    assert "elements differ, the first at [0, 0]: yours is" in output
    assert "The mistake\n  The factor is 3.\n  Known from: a thread\n" in output
    assert "The smallest case that shows it\n  array (1, 1) = [[" in output
    assert "Your code printed\n  [red]seen[/]\n" in output
    assert "seed 5" in output
    assert not any(line != line.rstrip() for line in output.splitlines())


def test_seeds(begun, answer):
    answer(WRONG)
    one, again, other, drawn = (
        begun("check", *seed, status=1) for seed in (["--seed", "5"],) * 2 + (["--seed", "6"], [])
    )
    assert one == again
    assert one != other
    assert "seed 5 " not in drawn


def test_check_that_passes(begun, answer):
    answer(RIGHT)
    output = begun("check")
    assert "a1.twice, Twice as much: 32 of 32 points" in output
    assert "a1 ████████████████████░░░░ 32 of 37 points" in output
    assert "compare it with our solution: kmha course solution a1.twice" in output
    assert "Next: a1.again, Four times as much, about 3 minutes (a1_doubling/again.py)" in output
    assert "factor_of_the_solution" in begun("solution")
    assert not _noted()["solution"]


def test_check_moves_on_to_the_next_exercise(begun, answer):
    answer(RIGHT)
    begun("check")
    assert begun("check", status=1).splitlines()[0].startswith("a1.again")
    answer("from twice import twice\n\n\ndef again(array):\n    return twice(twice(array))\n", "again")
    assert "That was the last one. You have passed all exercises." in begun("check")
    assert "you have passed all exercises" in begun("check", status=1)
    assert "You have passed all exercises." in begun("progress")
    assert "You have passed all exercises." in begun("start")


def test_check_of_an_assignment(begun, answer, tmp_path):
    answer(RIGHT)
    output = begun("check", "a1", "--json", str(tmp_path / "found.json"), status=1)
    assert "32 of 37 points; 1 of 2 exercises passed." in output
    assert "stuck? kmha course hint a1.again" in output
    one, two = json.loads((tmp_path / "found.json").read_text())
    assert (one["exercise"], one["points"], one["passed"]) == ("a1.twice", 32, True)
    assert (two["exercise"], two["points"], two["passed"]) == ("a1.again", 0, False)
    assert {"seed", "seconds", "checks"} <= {*one}


def test_check_of_an_answer_that_uses_another(begun, answer):
    answer("from twice import twice\n\n\ndef again(array):\n    return twice(twice(array))\n", "again")
    output = begun("check", "again", status=1)
    assert "It uses your answer to a1.twice, which you have not passed yet. Check that one first." in output


def test_several_answers_that_are_not_passed_are_named_once(monkeypatch, begun, answer):
    answer("def again(array):\n    return array\n", "again")
    found = course_checking.checking.check
    names = ("a1.twice", "a1.thrice")
    monkeypatch.setattr(
        course_checking.checking, "check", lambda *args, **more: replace(found(*args, **more), not_passed=names)
    )
    output = begun("check", "again", status=1)
    says = (
        "It uses your answers to a1.twice, a1.thrice, which you have not passed yet. Check them first, in this order."
    )
    assert says in output


def test_what_a_check_checks_fits_into_the_terminal(monkeypatch, begun, answer):
    answer("def twice(array):\n    return array\n")
    monkeypatch.setattr(common, "WIDTH", 60)
    output = begun("check", status=1)
    assert "result is right)" in output
    assert max(map(len, output.splitlines())) <= 60


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def twice(:\n", "It could not be checked: SyntaxError: invalid syntax (line 1: def twice(:)"),
        ("import torch\n", "you import torch in line 1"),
        ("print('[bold]')\n1 / 0\n", "ZeroDivisionError: division by zero (line 2: 1 / 0)"),
        ("\xe9", "is not valid UTF-8"),
    ],
)
def test_answer_that_cannot_be_run(begun, text, said):
    Path("a1_doubling/twice.py").write_bytes(text.encode("latin-1"))
    assert said in begun("check", status=1)


def test_missing_file(begun):
    Path("a1_doubling/twice.py").unlink()
    assert "is missing. Run `kmha course start` to restore missing files." in begun("check", status=1)
    begun("start")
    begun("check", status=1)


def test_unreadable_progress(begun):
    Path(".kmha-course.json").write_text("{")
    assert ".kmha-course.json cannot be read" in begun("progress", status=1)


@pytest.mark.parametrize("command", ["check", "hint", "solution", "reset"])
def test_unknown_exercise(begun, command):
    assert "Did you mean a1.twice" in begun(command, "a1.twise", status=1)


def test_one_exercise_at_a_time(begun):
    for command in ("hint", "solution", "reset"):
        assert "'a1' matches 2 exercises. Name one of a1.twice, a1.again." in begun(command, "a1", status=1)


def test_hints(begun):
    for number, said in enumerate(("first", "second", "third"), 1):
        output = begun("hint")
        assert f"a1.twice, hint {number} of 3" in output
        assert f"The {said} hint." in output
        assert _noted()["hints"] == number
    output = begun("hint")
    assert "you have seen all 3 hints" in output
    assert "The first hint." in output
    assert _noted()["hints"] == 3
    assert "stuck? kmha course solution a1.twice" in begun("check", status=1)
    assert "The first hint of again." in begun("hint", "again")
    assert "asked for 4 hints and 0 solutions" in begun("progress")


def test_a_hint_cannot_turn_text_around_or_hide_an_address(begun, monkeypatch):
    """Markdown makes characters of entities, after the characters of a released course were written out."""
    from kmha.course.exercises.content import Item
    from kmha.course.exercises.master import Master

    hint = "a&#x202e;b&rlm;c&#8238;d &lt;e&gt; [https://a.example](http://b.example) &amp;"
    monkeypatch.setattr(Item, "master", property(lambda item: Master("# Text", "", (hint,))))
    output = begun("hint", "a1.twice")
    assert r"a\u202eb\u200fc\u202ed <e> https://a.example (http://b.example) &" in output
    assert output.replace("\n", "").isprintable()


def test_solution_before_passing(begun):
    output = begun("solution", given="n\n", status=1)
    assert "You have not passed a1.twice yet. Show its solution? This is recorded." in output
    assert "factor_of_the_solution" not in output
    assert "factor_of_the_solution" in begun("solution", given="y\n")
    assert _noted()["solution"]
    assert "Show its solution" not in begun("solution")
    assert "and 1 solution." in begun("progress")
    assert "### " not in begun("solution", "again", "--yes")


def test_unanswered_question(begun):
    output = begun("solution", given="", status=1)
    assert "\nNo answer was given, so nothing was done. Use --yes to skip the question.\n" in output
    assert "factor_of_the_solution" not in output
    assert json.loads(Path(".kmha-course.json").read_text())["exercises"] == {}


def test_ctrl_c_at_a_question(begun, monkeypatch):
    import click

    def interrupted(*_, **__):
        raise click.Abort from KeyboardInterrupt()

    monkeypatch.setattr(click, "confirm", interrupted)
    assert "Stopped" in begun("solution", status=common.INTERRUPTED)


def test_progress(begun, answer):
    answer(RIGHT)
    begun("check")
    output = begun("progress")
    assert " a1 Doubling  ████████████████████░░░░  32 of 37  1 of 2" in output
    assert "You have made 1 check and asked for 0 hints and 0 solutions." in output
    assert "Next: a1.again" in output


@pytest.mark.parametrize("command", ["list", "progress"])
def test_narrow_terminals(command, tmp_path, monkeypatch):
    """At 80 columns, no number and no title of the real assignments is cut."""
    from kmha.course.exercises import content

    monkeypatch.setattr(common, "WIDTH", 80)
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(main, ["course", "start", "mine"], catch_exceptions=False)
    monkeypatch.chdir("mine")
    output = CliRunner().invoke(main, ["course", command], catch_exceptions=False).output
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    words = output.split()
    if command == "list":
        for item in content.items():
            assert item.id in words
            assert item.spec.title.split()[-1] in words
    else:
        assert f"0 of {sum(item.spec.points for item in content.items())}" in output
        assert "░░░░" in output


def test_reset(begun, answer):
    answer("mine")
    assert "Restore the starter of a1.twice" in begun("reset", "twice", given="n\n", status=1)
    assert Path("a1_doubling/twice.py").read_text() == "mine"
    assert "A copy of your answer is in a1_doubling/twice.py.bak-1." in begun("reset", "twice", given="y\n")
    assert Path("a1_doubling/twice.py.bak-1").read_text() == "mine"
    assert "NotImplementedError" in Path("a1_doubling/twice.py").read_text()


def test_reset_of_the_starter(begun, answer):
    before = sorted(os.listdir("a1_doubling"))
    assert begun("reset", "twice") == "a1.twice is still the starter. There is nothing to reset.\n"
    assert sorted(os.listdir("a1_doubling")) == before
    answer("mine")
    assert "No answer was given" in begun("reset", "twice", given="", status=1)
    assert Path("a1_doubling/twice.py").read_text() == "mine"


def test_missing_protection_is_reported_once(begun, monkeypatch):
    from kmha.sandbox import limits

    monkeypatch.setattr(limits, "missing", lambda: ["using the network", "reading your files"])
    said = "it cannot keep code from using the network or reading your files."
    assert said in begun("check", status=1)
    assert said not in begun("check", status=1)


def test_missing_package(begun, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert "watchfiles is not installed. Run: pip install 'kmha[course]'" in begun("watch", status=1)


def test_ctrl_c(begun, answer, monkeypatch):
    from kmha.course.learner import checking

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "check", interrupted)
    assert "Stopped. Everything recorded so far is kept." in begun("check", status=common.INTERRUPTED)


def test_watch(begun, answer, assignments):
    """Watch in a separate process, and end it by Ctrl-C."""
    pytest.importorskip("watchfiles")
    code = (
        "import pathlib, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kmha.course.exercises import content\n"
        "content.installed = lambda: pathlib.Path(sys.argv[1])\n"
        "from kmha.cli import main\n"
        "main(['course', 'watch'])"
    )
    answer(WRONG)
    command = [sys.executable, "-u", "-c", code, str(assignments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(60, process.kill)
        late.start()
        assert "An answer is checked when its text changes" in process.stdout.readline()
        time.sleep(1)
        Path("a1_doubling/notes.txt").write_text("not an answer")
        answer(RIGHT)
        seen = []
        while seen[-1:] != [""] and "Next:" not in "".join(seen):
            seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        status = process.wait()
        late.cancel()
    assert "a1.twice, Twice as much: 32 of 32 points" in "".join(seen)
    assert status == common.INTERRUPTED
    assert _noted()["attempts"] == 1


def test_verify(run, tmp_path):
    output = run("verify", "a1.twice", "again", "a1", "--json", str(tmp_path / "found.json"))
    assert "a1.twice    32 points    1 wrong answer " in output
    assert "2 exercises, 37 points, 2 wrong answers (seed 1): no problems." in output
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(each["id"], each["points"], each["found"]) for each in found["exercises"]] == [
        ("a1.twice", 32, []),
        ("a1.again", 5, []),
    ]
    assert [each["edits"] for each in found["exercises"]] == [[], []]


def test_verify_lists_edits_with_full_points(run, tmp_path):
    output = run("verify", "a1.twice", "--edits", "30", "--json", str(tmp_path / "found.json"))
    line = "full points with line 7 as: factor_of_the_solution * array    # factor_of_the_solution * np.asarray(array)"
    assert line in output
    assert "no problems" in output
    [exercise] = json.loads((tmp_path / "found.json").read_text())["exercises"]
    assert "factor_of_the_solution * array" in [edit["new"] for edit in exercise["edits"]]


def test_verify_all(run, assignments):
    page = assignments / "README.md"
    page.unlink(missing_ok=True)
    assert "kmha course verify --write-readme" in run("verify", "--jobs", "1", status=1)
    assert "Wrote " in run("verify", "--write-readme")
    assert "no problems" in run("verify")
    assert "do not name any" in run("verify", "a1", "--write-readme", status=2)


def test_verify_runs_notebooks(run, monkeypatch):
    from kmha.course.classroom import verifying
    from kmha.course.classroom.verifying import Problem

    monkeypatch.setattr(
        verifying, "verify_notebooks", lambda assignment: iter([Problem(assignment.id, "a cell raises")])
    )
    assert "a1: a cell raises\n" in run("verify", "a1.twice", "--notebooks", status=1)
    assert "a cell raises" not in run("verify", "a1.twice")


def test_help_imports_neither_numpy_nor_tensorflow():
    """Check the help of every command."""
    code = (
        "import sys\nfrom kmha.cli.course import course\n"
        "for name in course.commands:\n    course([name, '--help'], standalone_mode=False)\n"
        "print(sorted({'keras', 'tensorflow', 'numpy', 'jupytext', 'watchfiles'} & {*sys.modules}))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert output.endswith("\n[]\n")
    for name in ("start", "list", "check", "watch", "hint", "progress", "solution", "reset", "verify"):
        assert f" {name} [" in output


def test_help_begins_with_what_learners_need(run):
    output = run("--help")
    learners, _, teachers = output.partition("\nCommands:\n")[2].partition("\nFor teachers:\n")
    assert [line.split()[0] for line in learners.splitlines() if line] == [
        *("start", "list", "check", "watch", "hint", "progress", "solution", "reset")
    ]
    assert [line.split()[0] for line in teachers.splitlines()] == ["verify", "release", "grade"]
    assert "..." not in learners + teachers
    assert "check     Check an answer and explain its mistake.\n" in output


def test_verify_reports_problems(run, assignments, tmp_path, monkeypatch):
    import shutil

    from kmha.course.exercises import content

    other = shutil.copytree(assignments, tmp_path / "other")
    checks = other / "a1_doubling" / "checks"
    (checks / "twice.py").write_text((checks / "twice.py").read_text().replace("solution = 3", "solution = 2.0"))
    (checks / "again.py").write_text("1 / 0\n")
    monkeypatch.setattr(content, "installed", lambda: other)
    output = run("verify", "a1", status=1)
    assert "its wrong answer thrice-as-much gets full points." in output
    assert "it cannot be read: ZeroDivisionError: division by zero" in output
    assert "): 2 problems." in output


def test_released_course_has_no_solutions(run, assignments, tmp_path, monkeypatch):
    from kmha.course.classroom import release
    from kmha.course.exercises import content

    release.release(tmp_path / "class", content.assignments(assignments), seed=3, forms=["files"])
    monkeypatch.chdir(tmp_path / "class" / "files")
    Path("a1_doubling/twice.py").write_text(WRONG)
    output = run("check", status=1)
    assert "seed" not in output
    assert "stuck? kmha course hint a1.twice" in output
    Path("a1_doubling/twice.py").write_text(RIGHT)
    assert "kmha course solution" not in run("check")
    assert "Error: this c" in run("solution", "--yes", status=1)
    assert "It has nothing to verify" in run("verify", status=1)


@pytest.mark.parametrize(
    ("command", "says"),
    [("release file/class", "file: File exists."), ("grade in --out file/grades", "file/grades: Not a directory.")],
)
def test_system_errors_are_one_line(run, command, says):
    Path("file").touch()
    Path("in", "anna").mkdir(parents=True)
    last = run(*command.split(), status=1).splitlines()[-1]
    assert last.startswith("Error: ")
    assert last.endswith(says)
