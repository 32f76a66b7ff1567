import inspect

import numpy as np
import pytest

from kmha.course.exercises.exercise import Check, sizes, standard
from kmha.course.judging.planning import plan, plan_smallest
from kmha.sandbox.worker import SIGNATURE


def _draw(rng):
    return {"array": rng.normal(size=sizes(rng, 2))}


def _other(rng):
    return {"array": rng.normal(size=(2, 3)), "number": 4}


def _ask(answer, inputs):
    return answer.f(**inputs) + 1


def test_checks_of_the_same_calls_share_them():
    found = plan(standard(_draw, signature=1, shape=1, values=1, unchanged=1, times=4), seed=3)
    assert found.indices == ((0,), (1, 2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 3, 4))
    assert [call.function for call in found.calls] == [SIGNATURE, None, None, None, None, None]
    assert len(found.calls) == 6


def test_the_check_of_the_shape_also_draws_sizes_of_one():
    found = plan(standard(_draw, shape=1, values=1, times=2), seed=3)
    assert [found.inputs(index)["array"].shape for index in found.indices[0][2:]] == [(1, 1)]
    assert all(1 not in found.inputs(index)["array"].shape for index in found.indices[1])
    assert plan(standard(_draw, shape=1, values=1, times=2, ones=False), seed=3).indices == ((0, 1), (0, 1))


def test_other_draws_and_functions_get_calls_of_their_own():
    checks = (
        Check("invariants", "1", 1, _draw),
        Check("values", "2", 1, _other),
        Check("values", "3", 1, _draw, _ask, times=2),
    )
    found = plan(checks, seed=3)
    assert found.indices == ((0, 1, 2), (3, 4, 5), (6, 7))
    assert found.calls[6].function == inspect.getsource(_ask)
    assert found.inputs(3)["number"] == 4


def test_a_check_that_looks_at_more_draws_adds_them():
    found = plan((Check("invariants", "1", 1, _draw, times=1), Check("values", "2", 1, _draw, times=3)), seed=3)
    assert found.indices == ((0,), (0, 1, 2))


def test_the_seed_decides():
    checks = standard(_draw, values=1)
    one, same, other = (plan(checks, seed).inputs(0)["array"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert one.shape != other.shape or not np.array_equal(one, other)


def test_draws_differ_from_each_other():
    found = plan(standard(_draw, values=1, times=3), seed=3)
    first = [found.inputs(index)["array"].flat[0] for index in range(3)]
    assert len({*first}) == 3


def test_one_more_check_leaves_the_inputs_of_the_others():
    checks = [Check("values", "1", 1, _draw), Check("values", "2", 1, _other)]
    before = plan(checks, seed=3)
    after = plan([*checks, Check("edge", "3", 1, _draw, _ask)], seed=3)
    for index in range(6):
        np.testing.assert_array_equal(before.inputs(index)["array"], after.inputs(index)["array"])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_smallest_come_first(seed):
    found = plan_smallest(Check("values", "1", 1, _draw), seed)
    counts = [found.inputs(index)["array"].size for index in range(len(found.calls))]
    assert counts == sorted(counts)
    assert counts[-1] <= 9
    assert found.indices == (tuple(range(len(counts))),)
