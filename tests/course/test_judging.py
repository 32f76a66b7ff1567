import pytest

from kmha.course.judging import judge

SEED = 201


def _judge(doubling, sandbox, code, place=0, **more):
    return judge(doubling.items[place], code, sandbox, seed=SEED, **more)


def _twice(line):
    return f"import numpy as np\n\n\ndef twice(array):\n    {line}\n"


def test_the_solution(doubling, sandbox):
    grade = _judge(doubling, sandbox, doubling.items[0].master.solution)
    assert (grade.points, grade.possible, grade.passed) == (32, 32, True)
    assert (grade.named, grade.shown, grade.error, grade.printed) == (None, None, None, "")


def test_the_starter(doubling, sandbox):
    grade = _judge(doubling, sandbox, doubling.items[0].master.starter)
    assert grade.points == 0
    assert grade.outcomes[1].says.startswith("NotImplementedError: write this part (line ")


def test_a_known_mistake(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("print('three'); return array + array + array"))
    assert grade.named.id == "thrice-as-much"
    assert grade.printed == "three\n"
    assert 0 < grade.points < grade.possible
    assert grade.shown.inputs["array"].size <= 9
    assert (abs(grade.shown.result - 3 * grade.shown.inputs["array"]) < 1e-12).all()


def test_a_mistake_that_is_not_known(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("return array * 4"))
    assert grade.named is None
    assert grade.shown is not None


def test_without_explanations(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("return array * 3"), explain=False)
    assert (grade.named, grade.shown) == (None, None)
    assert not grade.passed


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import torch\n", "it imports torch in line 1"),
        ("def twice(:\n", "invalid syntax"),
        ("def other(): pass\n", "there is no `twice` in twice.py"),
        ("1 / 0\n", "division by zero"),
    ],
)
def test_what_cannot_be_run(doubling, sandbox, code, says):
    grade = _judge(doubling, sandbox, code)
    assert says in grade.error["says"]
    assert grade.points == 0
    assert {outcome.says for outcome in grade.outcomes} == {"not reached"}


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("array[...] = 2 * array; return array", {"unchanged"}),
        ("return 2 * array[..., None]", {"signature", "shape", "values", "unchanged", "edge", "invariants"}),
        ("return np.where(array > 0, 2 * array, array)", {"values", "edge"}),
    ],
)
def test_what_a_mistake_costs(doubling, sandbox, line, lost):
    grade = _judge(doubling, sandbox, _twice(line))
    assert {outcome.check.layer for outcome in grade.outcomes if not outcome.points} == lost


def test_the_learners_own_files(doubling, sandbox):
    code = "from twice import twice\n\n\ndef again(array):\n    return twice(twice(array))\n"
    right, wrong = _twice("return 2 * array"), _twice("return 3 * array")
    assert _judge(doubling, sandbox, code, 1, more={"twice.py": right}).passed
    assert not _judge(doubling, sandbox, code, 1, more={"twice.py": wrong}).passed
    assert _judge(doubling, sandbox, code, 1).error["kind"] == "ModuleNotFoundError"


def test_the_time_that_it_may_take(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("while True: pass"), seconds=0.6, explain=False)
    assert "it took longer than 0.6 seconds" in grade.outcomes[1].says
