import configparser
import dataclasses
import os
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from kmha.course.exercises import content
from kmha.course.exercises.content import Item, UnknownExerciseError, assignments, find, items

ROOT = Path(__file__).parents[3]


def test_the_assignments_of_a_folder(course):
    (found,) = assignments(course)
    assert (found.id, found.title, found.text) == ("a1", "Doubling", "# Doubling\n\nAn opening.\n")
    assert [item.id for item in items(course)] == ["a1.twice", "a1.again"]
    assert found.items[1].parent is found
    assert not found.items[0].released


def test_what_an_exercise_has(doubling):
    twice = doubling.items[0]
    assert twice.master.title == twice.spec.title == "Twice as much"
    assert twice.spec.points == 32


def test_the_exercises_that_one_needs(doubling):
    twice, again = doubling.items
    assert [other.id for other in again.needs] == ["a1.twice"]
    assert twice.needs == ()


@pytest.mark.parametrize(
    ("name", "ids"),
    [("a1", ["a1.twice", "a1.again"]), ("a1.again", ["a1.again"]), ("twice", ["a1.twice"])],
)
def test_exercises_by_name(course, name, ids):
    assert [item.id for item in find(name, course)] == ids


@pytest.mark.parametrize(
    ("place", "name", "ids"),
    [
        ("", "a1_doubling/again.py", ["a1.again"]),
        ("", "./a1_doubling/again.py", ["a1.again"]),
        ("", "again.py", ["a1.again"]),
        ("a1_doubling", "again.py", ["a1.again"]),
        ("", "a1_doubling", ["a1.twice", "a1.again"]),
        ("", "a1_doubling/", ["a1.twice", "a1.again"]),
        ("", "a1_doubling.ipynb", ["a1.twice", "a1.again"]),
        ("a1_doubling", ".", ["a1.twice", "a1.again"]),
    ],
)
def test_exercises_by_path(course, tmp_path, monkeypatch, place, name, ids):
    (tmp_path / "a1_doubling").mkdir()
    monkeypatch.chdir(tmp_path / place)
    assert [item.id for item in find(name, course)] == ids


def test_a_file_of_one_name_in_two_assignments(tmp_path, monkeypatch):
    for folder in ("a1_one", "a2_two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "assignment.toml").write_text('title = "T"\nexercises = ["same"]\n')
    monkeypatch.chdir(tmp_path)
    assert [item.id for item in find("same.py", tmp_path)] == ["a1.same", "a2.same"]
    assert [item.id for item in find("a2_two/same.py", tmp_path)] == ["a2.same"]
    monkeypatch.chdir(tmp_path / "a2_two")
    assert [item.id for item in find("same.py", tmp_path)] == ["a2.same"]


@pytest.mark.parametrize("name", [".", "a1_doubling/other/twice.py", "a1_doubling/twice.py.bak-1", "a1_other/zzz.py"])
def test_unknown_paths(course, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownExerciseError, match="there is no exercise"):
        find(name, course)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("a7.scaled", "a7.scaled_dot_product_attention"),
        ("a7.dot_product", "a7.scaled_dot_product_attention or a4.scaled_dot_product_attention"),
        ("crosskv", "a1.cross_kv"),
        ("a1_k_and_v/cross_k.py", "a1.cross_kv"),
        ("a7.encoder", "a7.Encoder or a7.EncoderLayer"),
        ("split_", "a2.split_kernel or a4.split_heads"),
    ],
)
def test_suggestions(name, near):
    """Some names occur in two assignments. Suggestions are at most three, without repetition, the likeliest first."""
    with pytest.raises(UnknownExerciseError) as error:
        find(name, content.installed())
    assert str(error.value) == f"there is no exercise {name!r}. Did you mean {near}?"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a1.twise", r"Did you mean a1.twice\?"),
        ("twise", r"Did you mean a1.twice\?"),
        ("zzz", "To see all exercises, run: kmha course list"),
        ("a9", "To see all exercises, run: kmha course list"),
        ("", "To see all exercises, run: kmha course list"),
    ],
)
def test_unknown_names(course, name, message):
    with pytest.raises(UnknownExerciseError, match=message):
        find(name, course)


def test_missing_checks(tmp_path):
    with pytest.raises(UnknownExerciseError, match=r"a1.f has no .*checks"):
        _ = Item("a1", "f", tmp_path).spec


def test_checks_without_an_exercise(tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "f.py").write_text("EXERCISE = 3\n")
    with pytest.raises(UnknownExerciseError, match="EXERCISE must be"):
        _ = Item("a1", "f", tmp_path).spec


def test_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert content.root() == content.installed()
    kept = tmp_path / content.RELEASED_FOLDER / "a1_doubling"
    kept.mkdir(parents=True)
    assert content.root() == content.installed()
    (kept / "assignment.toml").write_text('title = "Doubling"\nexercises = []\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert content.root() == tmp_path / content.RELEASED_FOLDER


def test_code_in_a_released_course_is_not_run(tmp_path, monkeypatch):
    """A student may have handed in the folder."""
    folder = tmp_path / content.RELEASED_FOLDER / "a1_doubling"
    (folder / "checks").mkdir(parents=True)
    (folder / "assignment.toml").write_text('title = "Doubling"\nexercises = ["twice"]\n')
    (folder / "twice.py").write_text("")
    (folder / "checks" / "twice.py").write_text("raise KeyboardInterrupt('it was run')\n")
    monkeypatch.chdir(tmp_path)
    (item,) = items()
    for part in ("spec", "master"):
        with pytest.raises(UnknownExerciseError, match=r"twice\.checks cannot be read: .*Download the course again"):
            getattr(item, part)


def _released(folder, toml):
    (folder / ".checks" / "a1_x").mkdir(parents=True)
    (folder / ".checks" / "a1_x" / "assignment.toml").write_text(toml)
    return folder / ".checks"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('title = "T"\nexercises = ["f", "../../startup/00"]', "expected a `title`, and `exercises`, a list of names"),
        ('title = "T"\nexercises = [3]', "expected a `title`"),
        ('exercises = ["f"]', "expected a `title`"),
        ('title = "T"', "expected a `title`"),
        ("title =", "Download the course again"),
        ("title = " + "[" * 5_000, "Download the course again"),
        ('title = "T"\n' + "a." * 4_000 + "a = 1", "line 2 has more than 100 dots. Download the course again"),
    ],
)
def test_names_that_are_paths(tmp_path, toml, says):
    """An untrusted course wrote a file of its choice outside of its folder."""
    with pytest.raises(UnknownExerciseError, match=re.escape(says)):
        assignments(_released(tmp_path, toml))


@pytest.mark.skipif(os.name != "posix", reason="needs pipes")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_files_of_a_course_that_do_not_end(tmp_path, make):
    """A list of the exercises waited for a pipe, or took all memory for a link to a device."""
    kept = _released(tmp_path, 'title = "T"\nexercises = ["f"]')
    (assignment,) = assignments(kept)
    for name in ("f.checks", "README.md", "assignment.toml"):
        (assignment.folder / name).unlink(missing_ok=True)
        make(assignment.folder / name)
    says = "cannot be read: it is not a regular file. Download the course again."
    with pytest.raises(UnknownExerciseError, match=says):
        print(assignment.items[0].spec)
    with pytest.raises(UnknownExerciseError, match=says):
        print(assignment.text)
    assignments.cache_clear()
    with pytest.raises(UnknownExerciseError, match=says):
        assignments(kept)


def test_a_file_of_a_course_that_is_too_long(tmp_path):
    with pytest.raises(UnknownExerciseError, match="it has more than 64 KiB"):
        assignments(_released(tmp_path, "#" * (64 << 10) + "\n"))


def test_titles_and_folders_do_not_control_the_terminal(tmp_path):
    kept = _released(tmp_path, 'title = "T \\u001b]0;x\\u0007\\nsecond line"\nexercises = ["f"]')
    (kept / "a2\x1b[31m_y").mkdir()
    (kept / "a2\x1b[31m_y" / "assignment.toml").write_text('title = "red"\nexercises = ["f"]')
    assert [each.title for each in assignments(kept)] == [r"T \x1b]0;x\x07"]


@pytest.mark.skipif(os.name != "posix", reason="needs users")
def test_courses_of_other_users_do_not_count(tmp_path, monkeypatch):
    """Anyone can put a course into /tmp: it counted for everybody who works below."""
    kept = _released(tmp_path, 'title = "T"\nexercises = ["f"]')
    (tmp_path / "mine" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "deeper")
    assert content.root() == kept
    owners = {kept: 7001, tmp_path / "mine" / "deeper": 7002}
    lstat, stat = Path.lstat, Path.stat

    def owned(info, path):
        return os.stat_result([*info[:4], owners.get(path, 7003), *info[5:]])

    monkeypatch.setattr(os, "getuid", lambda: 7002)
    monkeypatch.setattr(Path, "lstat", lambda path: owned(lstat(path), path))
    monkeypatch.setattr(Path, "stat", lambda path, **options: owned(stat(path, **options), path))
    assert [*content.around(Path.cwd(), ".checks")] == []
    owners[kept] = 7002
    assert [*content.around(Path.cwd(), ".checks")] == [kept]
    owners[kept] = 0  # the administrator's
    assert [*content.around(Path.cwd(), ".checks")] == [kept]


def test_exercise_that_needs_itself(doubling, monkeypatch):
    other = dataclasses.replace(doubling.items[1].spec, needs=("again",))
    monkeypatch.setattr(Item, "spec", other)
    with pytest.raises(UnknownExerciseError, match=r"a1\.again needs itself"):
        _ = dataclasses.replace(doubling.items[1]).needs


def test_two_courses_with_an_exercise_of_the_same_id(course, tmp_path):
    """Each has a module of its own, so that `inspect` and `pickle` find the right one."""
    shutil.copytree(course, tmp_path / "other")
    (first,), (other,) = assignments(course), assignments(tmp_path / "other")
    draws = [each.items[0].spec.checks[1].draw for each in (first, other)]
    files = [Path(sys.modules[draw.__module__].__file__) for draw in draws]
    assert [file.parents[1] for file in files] == [first.folder, other.folder]


def test_no_assignments_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "__file__", str(tmp_path / "a" / "b" / "c" / "content.py"))
    monkeypatch.setattr(content.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(content.metadata, "files", lambda name: None)
    with pytest.raises(UnknownExerciseError, match="Install kmha again"):
        content.installed()
    shared = tmp_path / "share" / "kmha" / "assignments"
    shared.mkdir(parents=True)
    assert content.installed() == shared


def test_assignments_of_other_installations(tmp_path, monkeypatch):
    """After `pip install --user`, no assignments were found."""
    packages = tmp_path / "lib" / "python3" / "site-packages"
    shared = tmp_path / "share" / "kmha" / "assignments"
    for folder in (packages, shared / "a1_x"):
        folder.mkdir(parents=True)
    for path in (shared / "README.md", shared / "a1_x" / "README.md"):
        path.touch()
    listed = []
    for path in (shared / "a1_x" / "README.md", shared / "README.md"):
        listed.append(metadata.PackagePath("..", "..", "..", *path.relative_to(tmp_path).parts))
        listed[-1].dist = metadata.PathDistribution(packages / "kmha.dist-info")
    monkeypatch.setattr(content, "__file__", str(packages / "kmha" / "course" / "exercises" / "content.py"))
    monkeypatch.setattr(content.metadata, "files", {"kmha": listed}.get)
    assert content.installed() == shared
    beside = packages / "share" / "kmha" / "assignments"
    beside.mkdir(parents=True)  # pip install --target
    assert content.installed() == beside


def test_all_assignments_are_installed():
    """setup.cfg must name each folder, since setuptools would copy a whole tree into one."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    named = {folder: text.split() for folder, text in setup["options.data_files"].items()}
    for path in sorted((ROOT / "assignments").glob("a*_*")):
        inside = f"assignments/{path.name}"
        assert named[f"share/kmha/{inside}"] == [f"{inside}/*.*"]
        assert named[f"share/kmha/{inside}/checks"] == [f"{inside}/checks/*.*"]
        deep = [each for each in path.rglob("*") if each.is_dir() and each.name != "__pycache__"]
        assert deep == [path / "checks"]
    assert len(named) == 1 + 2 * len(list((ROOT / "assignments").glob("a*_*")))
