import inspect

import numpy as np
import pytest

from kmha.course.exercises.exercise import Check, Exercise, sizes, standard
from kmha.course.judging.questions import plan, smallest
from kmha.sandbox.worker import SIGNATURE


def _draw(rng):
    return {"array": rng.normal(size=sizes(rng, 2))}


def _other(rng):
    return {"array": rng.normal(size=(2, 3)), "number": 4}


def _ask(answer, inputs):
    return answer.f(**inputs) + 1


def _spec(*checks):
    return Exercise("title", "question", 1, 5, checks, ())


def test_checks_of_the_same_calls_share_them():
    found = plan(_spec(*standard(_draw, signature=1, shape=1, values=1, unchanged=1, times=4)), seed=3)
    assert found.of == ((0,), (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))
    assert [question["ask"] for question in found.asked] == [SIGNATURE, None, None, None, None]
    assert len(found.asked) == 5


def test_another_draw_or_another_question_is_asked_for_itself():
    checks = (
        Check("shape", "1", 1, _draw),
        Check("values", "2", 1, _other),
        Check("values", "3", 1, _draw, _ask, times=2),
    )
    found = plan(_spec(*checks), seed=3)
    assert found.of == ((0, 1, 2), (3, 4, 5), (6, 7))
    assert found.asked[6]["ask"] == inspect.getsource(_ask)
    assert found.inputs(3)["number"] == 4


def test_a_check_that_looks_at_more_draws_adds_them():
    found = plan(_spec(Check("shape", "1", 1, _draw, times=1), Check("values", "2", 1, _draw, times=3)), seed=3)
    assert found.of == ((0,), (0, 1, 2))


def test_the_seed_decides():
    spec = _spec(*standard(_draw, values=1))
    one, same, other = (plan(spec, seed).inputs(0)["array"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert one.shape != other.shape or not np.array_equal(one, other)


def test_draws_differ_from_each_other():
    found = plan(_spec(*standard(_draw, values=1, times=3)), seed=3)
    first = [found.inputs(index)["array"].flat[0] for index in range(3)]
    assert len({*first}) == 3


def test_one_more_check_leaves_the_inputs_of_the_others():
    before = plan(_spec(Check("values", "1", 1, _draw), Check("values", "2", 1, _other)), seed=3)
    after = plan(
        _spec(Check("values", "1", 1, _draw), Check("values", "2", 1, _other), Check("edge", "3", 1, _draw, _ask)), 3
    )
    for index in range(6):
        np.testing.assert_array_equal(before.inputs(index)["array"], after.inputs(index)["array"])


def test_some_of_the_checks():
    checks = Check("shape", "1", 1, _draw), Check("values", "2", 1, _other)
    assert plan(_spec(*checks), 3, checks[1:]).of == ((0, 1, 2),)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_smallest_come_first(seed):
    found = smallest(Check("values", "1", 1, _draw), seed)
    counts = [found.inputs(index)["array"].size for index in range(len(found.asked))]
    assert counts == sorted(counts)
    assert counts[-1] <= 9
    assert found.of == (tuple(range(len(counts))),)
