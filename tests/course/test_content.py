import configparser
from pathlib import Path

import pytest

from kmha.course import content
from kmha.course.content import Item, UnknownExerciseError, assignments, find, items

ROOT = Path(__file__).parents[2]


def test_the_assignments_of_a_folder(course):
    (found,) = assignments(course)
    assert (found.id, found.title, found.text) == ("a1", "Doubling", "# Doubling\n\nAn opening.\n")
    assert [item.id for item in items(course)] == ["a1.twice", "a1.again"]
    assert found.items[1].beside == found.items
    assert not found.items[0].released


def test_what_an_exercise_has(doubling):
    twice = doubling.items[0]
    assert twice.master.title == twice.spec.title == "Twice as much"
    assert twice.spec.points == 32


@pytest.mark.parametrize(
    ("name", "ids"),
    [("a1", ["a1.twice", "a1.again"]), ("a1.again", ["a1.again"]), ("twice", ["a1.twice"])],
)
def test_exercises_by_name(course, name, ids):
    assert [item.id for item in find(name, course)] == ids


@pytest.mark.parametrize(
    ("name", "message"),
    [("a1.twise", "Did you mean a1.twice"), ("zzz", "See: kmha course list"), ("", "See: kmha course list")],
)
def test_a_name_that_there_is_not(course, name, message):
    with pytest.raises(UnknownExerciseError, match=message):
        find(name, course)


def test_checks_that_are_not_there(tmp_path):
    with pytest.raises(UnknownExerciseError, match=r"a1.f has no .*checks"):
        _ = Item("a1", "f", tmp_path).spec


def test_checks_that_are_none(tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "f.py").write_text("EXERCISE = 3\n")
    with pytest.raises(UnknownExerciseError, match="EXERCISE must be"):
        _ = Item("a1", "f", tmp_path).spec


def test_where_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert content.root() == content.installed()
    kept = tmp_path / content.KEPT / "a1_doubling"
    kept.mkdir(parents=True)
    assert content.root() == content.installed()
    (kept / "assignment.toml").write_text('title = "Doubling"\nexercises = []\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert content.root() == tmp_path / content.KEPT


def test_they_are_nowhere(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "__file__", str(tmp_path / "a" / "b" / "content.py"))
    monkeypatch.setattr(content.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UnknownExerciseError, match="install kmha again"):
        content.installed()
    shared = tmp_path / "share" / "kmha" / "assignments"
    shared.mkdir(parents=True)
    assert content.installed() == shared


def test_all_of_them_are_installed():
    """setup.cfg names every folder of assignments, since it cannot name them all at once."""
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
