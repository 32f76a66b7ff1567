import dataclasses

import pytest

from kmha.course.classroom import executing
from kmha.course.exercises import content, notebooks

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


@pytest.fixture
def assignment():
    """The beginning of the first."""
    (found, *_) = content.assignments(content.root())
    return dataclasses.replace(found, items=found.items[:2])


def test_a_notebook_is_executed_and_its_solutions_pass(assignment):
    assert list(executing.verify(assignment)) == []


@pytest.mark.slow
def test_a_cell_that_raises_and_a_check_that_fails_are_found(assignment, monkeypatch):
    monkeypatch.setattr(notebooks, "solved", notebooks.student)
    found = list(executing.verify(assignment))
    assert [each.id for each in found] == [item.id for item in assignment.items]

    def raising(assignment):
        notebook = notebooks.student(assignment)
        notebook.cells[2].source = "raise ValueError('seen')"
        return notebook

    monkeypatch.setattr(notebooks, "solved", raising)
    assert [each.message for each in executing.verify(assignment)] == ["a cell of its notebook raises ValueError: seen"]
