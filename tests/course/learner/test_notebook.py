import sys
import types

import pytest

from kmha.course.exercises import content
from kmha.course.exercises.content import UnknownExerciseError
from kmha.course.learner import workspace
from kmha.course.learner.notebook import NotebookGrade, check

RIGHT = "def twice(array):\n    return factor * array"


@pytest.fixture
def cells(course, tmp_path, monkeypatch):
    """Return a function that simulates a notebook: it sets the cells that were run."""
    monkeypatch.setattr(content, "installed", lambda: course)
    monkeypatch.chdir(tmp_path)

    def run(*sources, **more):
        main = types.ModuleType("__main__")
        vars(main).update({"In": [*sources]} if sources else {}, **more)
        monkeypatch.setitem(sys.modules, "__main__", main)

    return run


def test_check_is_exported_by_the_package():
    import kmha.course

    assert kmha.course.check is check
    with pytest.raises(AttributeError, match=r"'kmha.course' has no attribute 'chek'\. It has: check"):
        _ = kmha.course.chek


def test_check_uses_the_last_definition(cells):
    cells("", "factor = 3", "import numpy", RIGHT, "print(1 / 0)", "factor = 2", "twice(3)")
    found = check("a1.twice")
    assert isinstance(found, NotebookGrade)
    assert (found.passed, found.points) == (True, 32)
    assert repr(found).startswith("a1.twice, Twice as much: 32 of 32 points\n")
    assert "32 of 32 points" in found._repr_html_()


def test_show_displays_the_grade_and_returns_a_number(cells, capsys):
    cells("factor = 2", RIGHT)
    assert check("a1.twice").show() == 32
    assert "32 of 32 points" in capsys.readouterr().out


def test_mistake_is_named(cells):
    cells("factor = 3", RIGHT)
    found = check("twice", seed=3)
    assert (found.passed, found.grade.mistake.id, found.seed) == (False, "thrice-as-much", 3)


def test_starter(cells, doubling):
    """A notebook says what the command line says, and nothing of errors."""
    cells("import numpy as np", doubling.items[0].master.starter)
    found = check("a1.twice")
    assert found.is_starter
    for shown in (repr(found), found._repr_html_()):
        assert "This is still the starter, as it was handed out." in shown
        assert "NotImplementedError" not in shown


def test_exercise_that_uses_another(cells):
    cells("factor = 2", RIGHT, "def again(array):\n    return twice(twice(array))")
    assert check("a1.again").passed
    cells("factor = 3", RIGHT, "def again(array):\n    return twice(twice(array))")
    assert not check("a1.again").passed


def test_script(cells, tmp_path):
    (tmp_path / "script.py").write_text(f"factor = 2\n\n\n{RIGHT}\n")
    cells(__file__=str(tmp_path / "script.py"))
    assert check("a1.twice").passed


def test_check_is_recorded_in_a_learners_folder(cells, course, tmp_path):
    folder, _ = workspace.start(tmp_path, content.assignments(course))
    cells("factor = 2", RIGHT)
    check("a1.twice")
    assert folder.progress.record("a1.twice").passed


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("a1.twise", UnknownExerciseError, "Did you mean a1.twice"),
        ("a1", UnknownExerciseError, "'a1' matches 2 exercises: a1.twice, a1.again"),
        ("a1.twice", ValueError, "no cell that was run defines `twice`"),
    ],
)
def test_invalid_names(cells, name, error, message):
    cells("x = 1")
    with pytest.raises(error, match=message):
        check(name)


def test_no_cells(cells):
    cells()
    with pytest.raises(ValueError, match="there are no notebook cells here"):
        check("a1.twice")
