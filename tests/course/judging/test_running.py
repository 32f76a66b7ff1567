import types

import pytest

from kmha.course.exercises.content import Item
from kmha.course.exercises.exercise import Check, Exercise
from kmha.course.judging import running
from kmha.course.judging.questions import plan
from kmha.course.judging.running import (
    BrokenExerciseError,
    needed,
    run,
    run_solution,
    solution,
    solution_smallest,
    solutions_needed,
)
from kmha.sandbox.results import ENDED, Answer, Ran


def test_the_solution_is_run_once(doubling, sandbox, monkeypatch):
    item = doubling.items[0]
    first = solution(item, sandbox, 101)
    monkeypatch.setattr(running, "run_solution", lambda *_: pytest.fail("it is run again"))
    assert solution(item, sandbox, 101) is first
    asked = plan(item.spec, 101)
    for answer, question in zip(first.answers[1:], asked.asked[1:], strict=True):
        assert (answer.result == 2 * question["inputs"]["array"]).all()


def test_a_wrong_answer(doubling, sandbox):
    item = doubling.items[0]
    found = running.wrong(item, item.spec.wrong[0], sandbox, 102)
    assert (found.answers[1].result == 3 * plan(item.spec, 102).inputs(1)["array"]).all()


def test_small_cases(doubling, sandbox):
    item = doubling.items[0]
    cases, ran = solution_smallest(item, item.spec.checks[2], sandbox, 103)
    assert [answer.result.size for answer in ran.answers] == [case["inputs"]["array"].size for case in cases.asked]
    assert max(answer.result.size for answer in ran.answers) <= 9


def test_files_that_are_needed(doubling):
    twice, again = doubling.items
    assert [*solutions_needed(again)] == ["twice.py"]
    assert solutions_needed(twice) == {}
    assert needed(again, {"twice.py": "mine", "other.py": "no"}) == {"twice.py": "mine"}
    assert needed(again, {"other.py": "no"}) == {}


def test_a_solution_that_needs_another(doubling, sandbox):
    item = doubling.items[1]
    ran = run_solution(item, sandbox, plan(item.spec, 104))
    assert (ran.answers[0].result == 4 * plan(item.spec, 104).inputs(0)["array"]).all()


def _broken(code, draw=lambda rng: {"array": rng.normal(size=2)}):
    """An exercise with this solution."""
    item = Item("a0", "f", None)
    checks = (Check("values", "right", 1, draw),)
    vars(item).update(spec=Exercise("f", "?", 1, 1, checks, ()), master=types.SimpleNamespace(solution=code))
    return item


@pytest.mark.parametrize(
    ("code", "says"), [("1 / 0\n", "ZeroDivisionError"), ("def f(array): raise KeyError('key')\n", "KeyError 'key'")]
)
def test_a_solution_that_does_not_run(sandbox, code, says):
    item = _broken(code)
    with pytest.raises(BrokenExerciseError, match=f"a0.f: its own solution fails: {says}"):
        solution(item, sandbox, 1)
    assert solution_smallest(item, item.spec.checks[0], sandbox, 1)[1] is None


def test_a_sandbox_that_ended_is_tried_again():
    """It may have been ended from elsewhere; if it ends again, that is the answer."""
    gone, right = Ran({"kind": "", "says": ENDED, "line": None, "text": ""}, ()), Ran(None, (Answer(5),))
    came = [gone, right, gone, gone, right]
    sandbox = types.SimpleNamespace(run=lambda *_, **__: came.pop(0))
    item = _broken("def f(array): return array\n")
    assert run(item, "", plan(item.spec, 1), sandbox) is right
    assert run(item, "", plan(item.spec, 1), sandbox) is gone
    assert came == [right]
