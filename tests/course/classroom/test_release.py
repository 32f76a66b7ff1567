import re
import time
from pathlib import Path

import pytest

pytest.importorskip("nbformat")

from kmha.course.classroom import release
from kmha.course.exercises import content
from kmha.course.exercises.content import ReleasedItem, UnknownExerciseError
from kmha.course.exercises.handout import NOTEBOOKS
from kmha.course.judging.running import BrokenExerciseError
from kmha.course.learner.checking import check
from kmha.course.learner.workspace import Workspace, find
from kmha.sandbox.sandbox import Pool


@pytest.fixture(scope="module")
def pool():
    with Pool() as found:
        yield found


@pytest.fixture(scope="module")
def released(tmp_path_factory, doubling):
    folder = tmp_path_factory.mktemp("teachers") / "class"
    seen = []
    release.release(folder, [doubling], seed=11, progress=seen.append)
    assert seen == ["a1.twice", "a1.again"]
    return folder


def test_released_files(released):
    found = {str(path.relative_to(released)) for path in released.rglob("*") if path.is_file()}
    kept = {f".checks/a1_doubling/{name}" for name in ("README.md", "again.checks", "assignment.toml", "twice.checks")}
    files = {"a1_doubling/README.md", "a1_doubling/again.py", "a1_doubling/twice.py", ".kmha-course.json", *kept}
    notebooks = {"a1_doubling.ipynb", ".kmha-course.json", *kept}
    assert found == {"README.md", *(f"files/{name}" for name in files), *(f"notebooks/{name}" for name in notebooks)}
    assert not list(released.parent.glob(".class*"))


def test_release_does_not_contain_the_solutions(released, doubling):
    held = b"".join(path.read_bytes() for path in released.rglob("*") if path.is_file())
    for item in doubling.items:
        known = re.sub(r"\s", "", item.master.starter + item.master.text)
        for line in item.master.solution.splitlines():
            if re.sub(r"\s", "", line) not in known:
                assert line.strip().encode() not in held
        for wrong in item.spec.wrong:
            assert wrong.id.encode() not in held
            assert wrong.says.encode() not in held
        for each in item.spec.checks:
            assert (each.says.encode() in held) is each.visible


def test_exercises_are_found_inside_a_release(released, monkeypatch):
    monkeypatch.chdir(released / "files" / "a1_doubling")
    items = list(content.items())
    assert [item.id for item in items] == ["a1.twice", "a1.again"]
    assert all(isinstance(item, ReleasedItem) for item in items)
    monkeypatch.chdir(released)
    assert content.root() == content.installed()


def test_files_are_checked(released, monkeypatch, doubling, pool):
    folder = released / "files"
    monkeypatch.chdir(folder)
    twice, again = content.items()
    workspace = find(folder)
    assert check(again, workspace, pool).grade.points == 0
    for item, solved in zip((twice, again), doubling.items, strict=True):
        workspace.path(item).write_text(solved.master.solution)
    assert check(twice, workspace, pool).grade.passed
    assert check(again, workspace, pool).grade.passed


def test_notebooks_are_checked(released, doubling, monkeypatch, pool):
    folder = released / "notebooks"
    monkeypatch.chdir(folder)
    twice, again = content.items()
    workspace = Workspace(folder, NOTEBOOKS)
    text = workspace.path(twice).read_text()
    stub = '    # YOUR CODE HERE\\n",\n    "    raise NotImplementedError(\\"write this part\\")'
    assert text.count(stub) == 1
    workspace.path(twice).write_text(text.replace(stub, "    return 2 * array"))
    assert check(twice, workspace, pool).grade.passed
    assert check(again, workspace, pool).grade.points == 0


def test_table_counts_hidden_checks(released):
    assert "| a1 | Doubling | 2 | 5 | 37 |" in (released / "README.md").read_text()


def test_folder_in_use_is_refused(tmp_path, doubling):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(release.ReleaseError, match="is not empty"):
        release.release(tmp_path, [doubling], seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("mounted", [False, True])
def test_folder_that_cannot_be_replaced_is_refused_first(tmp_path, doubling, monkeypatch, mounted):
    """The error comes before the long work."""
    if mounted:
        monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    else:
        monkeypatch.chdir(tmp_path)
    with pytest.raises(release.ReleaseError, match="is a mount point" if mounted else "is the current folder"):
        release.release(tmp_path if mounted else Path("."), [doubling], seed=1, progress=pytest.fail)


def test_link_to_a_folder(tmp_path, doubling):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    release.release(tmp_path / "link", [doubling], seed=1, forms=["files"])
    assert (tmp_path / "there" / "README.md").is_file()
    assert (tmp_path / "link").is_symlink()


def test_interrupted_release_leaves_nothing(tmp_path, doubling):
    def stop(item):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release.release(tmp_path / "class", [doubling], seed=1, progress=stop)
    assert not list(tmp_path.iterdir())


def test_release_of_a_release_is_refused(released, tmp_path):
    assignments = content.assignments(released / "files" / ".checks")
    with pytest.raises(release.ReleaseError, match="without solutions"):
        release.release(tmp_path / "class", assignments, seed=1)


def test_failing_solution_is_not_released(tmp_path, doubling, monkeypatch):
    monkeypatch.setattr(release.released, "_same_or_undecided", lambda *arguments: "it shrinks.")
    message = r"^a1\.twice: its solution fails a check that learners get: [^\n]*: it shrinks\.$"
    with pytest.raises(BrokenExerciseError, match=message):
        release.release(tmp_path / "class", [doubling], seed=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_exercise_that_needs_a_slower_one_is_released(tmp_path, doubling, monkeypatch):
    def write(item, *arguments):
        time.sleep(3 * (item.name == "twice"))  # `again` imports it
        written(item, *arguments)

    written = release.released.write
    monkeypatch.setattr(release.released, "write", write)
    release.release(tmp_path / "class", [doubling], seed=1, jobs=2, forms=["files"])
    assert (tmp_path / "class" / "files" / "a1_doubling" / "again.py").is_file()


def test_empty_checks_folder_is_ignored(tmp_path, monkeypatch):
    (tmp_path / ".checks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert content.root() == content.installed()
    with pytest.raises(UnknownExerciseError):
        content.find("nothing", tmp_path)
