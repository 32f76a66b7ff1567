import dataclasses
import types

import pytest

from kmha.course.exercises.content import Item
from kmha.course.exercises.exercise import Check, Exercise
from kmha.course.judging import running
from kmha.course.judging.planning import plan
from kmha.course.judging.running import Answer, BrokenExerciseError, Runner, needed_files, needed_solutions
from kmha.sandbox.sandbox import UNFINISHED, CallResult, TaskResult


def test_the_solution_is_run_once(doubling, sandbox, monkeypatch):
    item = doubling.items[0]
    first = Runner(item, sandbox, 101).expected()
    monkeypatch.setattr(Runner, "run_solution", lambda *_: pytest.fail("it is run again"))
    assert Runner(item, sandbox, 101).expected() is first
    for result, call in zip(first[1:], plan(item.spec.checks, 101).calls[1:], strict=True):
        assert (result.value == 2 * call.inputs["array"]).all()


def test_a_wrong_answer(doubling, sandbox):
    item = doubling.items[0]
    runner = Runner(item, sandbox, 102)
    found = runner.wrong(item.spec.wrong[0])
    assert (found.results[1].value == 3 * runner.plan.inputs(1)["array"]).all()


def test_small_cases(doubling, sandbox):
    item = doubling.items[0]
    cases, results = Runner(item, sandbox, 103).smallest(item.spec.checks[2])
    assert [result.value.size for result in results] == [case.inputs["array"].size for case in cases.calls]
    assert max(result.value.size for result in results) <= 9


def test_files_that_are_needed(doubling):
    twice, again = doubling.items
    assert [*needed_solutions(again)] == ["twice.py"]
    assert needed_solutions(twice) == {}
    assert needed_files(again, {"twice.py": "mine", "other.py": "no"}) == {"twice.py": "mine"}
    assert needed_files(again, {"other.py": "no"}) == {}


def test_a_solution_that_needs_another(doubling, sandbox):
    item = doubling.items[1]
    runner = Runner(item, sandbox, 104)
    assert (runner.run_solution()[0].value == 4 * runner.plan.inputs(0)["array"]).all()


def _broken(code, draw=lambda rng: {"array": rng.normal(size=2)}, apart=""):
    """Return an exercise with this solution."""
    item = Item("a0", "f", None)
    checks = (Check("values", "right", 1, draw, apart=apart),)
    vars(item).update(spec=Exercise("f", "?", 1, 1, checks, ()), master=types.SimpleNamespace(solution=code))
    return item


@pytest.mark.parametrize(
    ("code", "says"), [("1 / 0\n", "ZeroDivisionError"), ("def f(array): raise KeyError('key')\n", "KeyError 'key'")]
)
def test_a_solution_that_does_not_run(sandbox, code, says):
    item = _broken(code)
    with pytest.raises(BrokenExerciseError, match=f"a0.f: its own solution fails: {says}"):
        Runner(item, sandbox, 1).expected()
    assert Runner(item, sandbox, 1).smallest(item.spec.checks[0])[1] is None


def test_run_is_repeated_if_the_sandbox_ended():
    """Something else may have ended it. If it ends twice, that is the result."""
    gone, right = UNFINISHED, TaskResult(None, (CallResult(5),))
    forged = dataclasses.replace(gone)  # an answer can raise an error with the same words
    came = [gone, right, gone, gone, right, forged]
    sandbox = types.SimpleNamespace(run=lambda *_, **__: came.pop(0))
    item = _broken("def f(array): return array\n")
    assert Runner(item, sandbox, 1).run(Answer("")) is right
    assert Runner(item, sandbox, 1).run(Answer("")) is gone
    assert came.pop(0) is right
    assert Runner(item, sandbox, 1).run(Answer("")) is forged


REMEMBERS = """
import os

seen = []

def f(number):
    if number == 8:
        raise ValueError("eight")
    while number == 9:
        pass
    seen.append(number)
    open(f"seen {number}", "w").close()
    print("number", number)
    return [len(seen), sum(name.startswith("seen") for name in os.listdir())]
"""


def _apart(*numbers):
    return _broken(REMEMBERS, lambda rng: {"number": [*numbers]}, apart="number")


def test_parts_of_a_call_that_know_nothing_of_each_other(sandbox):
    runner = Runner(_apart(1, 2, 3), sandbox, 1)
    result = runner.run(Answer(REMEMBERS)).results[0]
    assert (result.value, result.printed) == ([[1, 1]] * 3, "number 1\n")
    assert runner.run_solution()[0].value == [[1, 1], [2, 2], [3, 3]]


def test_an_error_in_one_part_is_the_error_of_the_call(sandbox):
    result = Runner(_apart(1, 8, 3), sandbox, 1).run(Answer(REMEMBERS)).results[0]
    assert (result.value, result.error["kind"], result.error["says"]) == (None, "ValueError", "eight")


@pytest.mark.slow
def test_all_parts_have_one_time_limit(sandbox, monkeypatch):
    runner, calls, run = Runner(_apart(1, 9, 9, 9, 9), sandbox, 1), [], sandbox.run
    monkeypatch.setattr(sandbox, "run", lambda *given, **more: calls.append(given[2]) or run(*given, **more))
    results = runner.run(Answer(REMEMBERS, seconds=1.0)).results
    assert {result.error["says"][:37] for result in results} == {"your code took longer than 1 seconds."}
    assert [len(each) for each in calls] == [0, 1, 1]  # loading, 1, and 9, after which no time is left
    assert runner.endless(Answer(REMEMBERS)) is None
    assert Runner(_apart(9, 1), sandbox, 1).endless(Answer(REMEMBERS)) is not None


def test_waits_for_replies_in_all_parts_have_a_limit(sandbox, monkeypatch):
    """Without one, each of 70 parts could keep the grader busy for three times the limit."""
    clock, calls = [0.0], []

    def waits(*given, **more):
        calls.append(given[2])
        clock[0] += 1.5  # of which the supervisor counts nothing
        return TaskResult(None, (CallResult(1),) * len(given[2]))

    monkeypatch.setattr(running, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(sandbox, "run", waits)
    result = Runner(_apart(*range(9)), sandbox, 1).run(Answer(REMEMBERS, seconds=1.0)).results[0]
    assert result.error["says"].startswith("your code took longer than 1 seconds")
    assert len(calls) == 1 + 3  # loading, and those that begin within four seconds


FLOODS = """
import numpy as np

def f(number):
    return np.zeros(100_000) if number else [[] for _ in range(60_000)]
"""


@pytest.mark.parametrize("number", [0, 1])
def test_all_parts_have_one_limit_of_size(sandbox, monkeypatch, number):
    """The results of 123 processes took 3.9 GB, and empty lists counted as nothing."""
    item = _broken(FLOODS, lambda rng: {"number": [number] * 9}, apart="number")
    runner, calls, run = Runner(item, sandbox, 1), [], sandbox.run
    monkeypatch.setattr(sandbox, "run", lambda *given, **more: calls.append(given[2]) or run(*given, **more))
    result = runner.run(Answer(FLOODS)).results[0]
    assert "far more than expected" in result.error["says"]
    assert len(calls) < 9
