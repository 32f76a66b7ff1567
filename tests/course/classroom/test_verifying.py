import dataclasses
import re

import pytest

from kmha.course.classroom.verifying import Problem, verify, verify_notebooks
from kmha.course.exercises import content, notebooks


def test_valid_exercises(doubling, sandbox):
    for item in doubling.items:
        assert list(verify(item, sandbox, 401)) == []


SOLUTION = "    factor_of_the_solution = 2\n    return factor_of_the_solution * np.asarray(array)\n"
WRONG = 'Wrong("thrice-as-much", "The factor is 3.", {"of_the_solution = 2": "of_the_solution = 3"}, "a thread"),'


GIVEN = "    ### STARTER\n    # return 2 * array\n    ### END SOLUTION"
SHRINKS = [("it shrinks", "it shrank"), ("result[inputs", "-result[inputs")]
FIXED = ("from kmha.course.exercises import Check", "import numpy as np\nfrom kmha.course.exercises import Check")
TOLD = [("The second hint.", "It is `return factor_of_the_solution * np.asarray(array)`.")]


ANY_SHAPE = 'values=4, unchanged=1),\n        Check("shape", "any shape", 2, draw, judge=lambda *_: None),'
ALIKE = [("shape=2, values=4, unchanged=1),", ANY_SHAPE)]


@pytest.mark.parametrize(
    ("master", "checks", "says"),
    [
        ([("    ### END SOLUTION", GIVEN)], [], "its starter gets 32 points"),
        ([], SHRINKS, "its solution fails the check 'what is positive grows': it shrank"),
        ([(SOLUTION, "    1 / 0\n")], [(WRONG, "")], "its own solution fails: ZeroDivisionError"),
        ([], [("= 3", "= 2.0")], "its wrong answer thrice-as-much gets full points."),
        ([], [("of_the_solution = 3", "of_the_solution = 0 / 0")], None),
        ([], [('"of_the_solution = 2"', '"of_no_solution = 2"')], "thrice-as-much: expected 'of_no_solution = 2' once"),
        (
            [],
            [(WRONG, WRONG + WRONG.replace("thrice", "again"))],
            "wrong answer again-as-much is named thrice-as-much.",
        ),
        ([], [(WRONG, WRONG + WRONG.replace("= 3", "= 5"))], "two of its wrong answers have the same id."),
        ([], [("= 3", "= (")], "its wrong answer thrice-as-much cannot be run"),
        (
            [("# # Twice", "# # Two times")],
            [],
            "the title of its text is 'Two times as much', that of its checks 'Twice as much'.",
        ),
        ([("def twice(", "def double(")], [], "its starter does not define twice."),
        ([], [("difficulty=1", "difficulty=4")], "its difficulty must be 1, 2 or 3. Received: 4."),
        (
            [],
            [('"array": rng.normal(size=(rows, columns))', '"array": np.arange(6.0)'), FIXED],
            "with another seed get 32",
        ),
        (TOLD, [], "hint 2 contains a line of the solution"),
        ([], ALIKE, "results without their axes of size 1 get full points"),
    ],
)
def test_problems_of_an_exercise(changed, sandbox, master, checks, says):
    found = list(verify(changed(master, checks), sandbox, 402))
    if says is None:  # a wrong answer may also be one that raises
        assert found == []
        return
    assert any(re.search(re.escape(says), each.message) for each in found), found
    assert all(isinstance(each, Problem) and each.id == "a1.twice" for each in found)


@pytest.fixture
def assignment():
    """The first two exercises of the first assignment."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    (found, *_) = content.assignments(content.root())
    return dataclasses.replace(found, items=found.items[:2])


@pytest.mark.slow
def test_valid_notebook(assignment):
    assert list(verify_notebooks(assignment)) == []


@pytest.mark.slow
def test_problems_of_a_notebook(assignment, monkeypatch):
    monkeypatch.setattr(notebooks, "solved", notebooks.student)
    found = list(verify_notebooks(assignment))
    assert [each.id for each in found] == [item.id for item in assignment.items]

    def raising(assignment):
        notebook = notebooks.student(assignment)
        notebook.cells[2].source = "raise ValueError('seen')"
        return notebook

    monkeypatch.setattr(notebooks, "solved", raising)
    assert [each.message for each in verify_notebooks(assignment)] == ["a cell of its notebook raises ValueError: seen"]
