import pytest

from kmha.course.exercises import content
from kmha.course.judging.planning import plan
from kmha.course.learner import checking, workspace
from kmha.course.learner.checking import check, first_open, fresh_seed, next_open
from kmha.course.learner.progress import Record, WorkspaceError
from kmha.sandbox.sandbox import Pool

RIGHT = "def twice(array):\n    return 2 * array\n"
WRONG = "def twice(array):\n    return 3 * array\n"


@pytest.fixture
def mine(course, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "installed", lambda: course)
    monkeypatch.chdir(tmp_path)
    return workspace.start(tmp_path / "mine", content.assignments(course))[0]


@pytest.fixture(scope="module")
def pool():
    with Pool() as found:
        yield found


def test_check_is_recorded(doubling, mine, pool):
    item = doubling.items[0]
    found = check(item, mine, pool, 5)
    assert (found.grade.points, found.seed, found.is_starter) == (0, 5, True)
    assert found.record == Record()
    assert mine.progress.records() == {}
    mine.path(item).write_text(WRONG)
    found = check(item, mine, pool)
    assert found.grade.mistake.id == "thrice-as-much"
    assert (found.is_starter, found.not_passed) == (False, ())
    mine.path(item).write_text(RIGHT)
    found = check(item, mine, pool)
    assert found.grade.passed
    assert mine.progress.record("a1.twice") == Record(attempts=2, points=32, passed=True) == found.record


def test_answer_that_uses_a_wrong_answer(doubling, mine, pool):
    twice, again = doubling.items
    mine.path(again).write_text("from twice import twice\n\n\ndef again(array):\n    return twice(twice(array))\n")
    mine.path(twice).write_text(WRONG)
    assert check(again, mine, pool).not_passed == ("a1.twice",)
    mine.path(twice).write_text(RIGHT)
    found = check(again, mine, pool)
    assert found.grade.passed
    assert found.not_passed == ()


def test_missing_file(doubling, mine, pool):
    mine.path(doubling.items[0]).unlink()
    with pytest.raises(WorkspaceError, match="is missing"):
        check(doubling.items[0], mine, pool)
    assert mine.progress.records() == {}


def test_confirm_uses_a_second_seed(doubling, mine, pool, monkeypatch):
    """Check an answer that recognizes the inputs of one seed."""
    item = doubling.items[0]
    monkeypatch.setattr(checking, "fresh_seed", lambda: 6)
    known = {call.inputs["array"].shape for call in plan(item.spec.checks, 5).calls[1:]}
    mine.path(item).write_text(f"def twice(array):\n    return array * (2 if array.shape in {known} else 3)\n")
    assert check(item, mine, pool, 5).grade.passed
    found = check(item, mine, pool, 5, confirm=True)
    assert (found.seed, found.grade.passed) == (6, False)
    mine.path(item).write_text(WRONG)
    assert check(item, mine, pool, 5, confirm=True).seed == 5


def test_fresh_seeds_differ():
    assert len({fresh_seed() for _ in range(20)}) > 15


def test_next_exercise(doubling, mine):
    twice, again = doubling.items
    passed = Record(passed=True)
    assert first_open({}).id == twice.id
    assert first_open({twice.id: passed}).id == again.id
    assert first_open({twice.id: passed, again.id: passed}) is None
    assert next_open({}, twice).id == again.id
    assert next_open({again.id: passed}, again).id == twice.id
    assert next_open({twice.id: passed, again.id: passed}, again) is None
