import numpy as np
import pytest

from kmha.course.exercises.exercise import LAYERS, Check, Exercise, Wrong, sizes, small, standard


def _draw(rng):
    return {"array": rng.normal(size=sizes(rng, 2))}


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_sizes_are_pairwise_different(count):
    for seed in range(50):
        found = sizes(np.random.default_rng(seed), count, least=3)
        assert len({*found}) == count
        assert min(found) >= 3


def test_sizes_are_drawn():
    assert len({tuple(sizes(np.random.default_rng(seed), 3)) for seed in range(30)}) > 10
    assert sizes(np.random.default_rng(5), 4) == sizes(np.random.default_rng(5), 4)
    assert {*sizes(np.random.default_rng(5), 3, least=4, most=6)} == {4, 5, 6}


def test_small_sizes_within():
    with small(2):
        found = [size for seed in range(20) for size in sizes(np.random.default_rng(seed), 3, least=1)]
    assert {*found} == {1, 2}
    assert len({*sizes(np.random.default_rng(1), 6)}) == 6


def test_small_sizes_are_left_when_something_fails():
    with pytest.raises(ZeroDivisionError), small(1):
        _ = 1 / 0
    assert max(sizes(np.random.default_rng(1), 4)) > 1


def test_the_usual_checks():
    found = standard(_draw, signature=1, shape=2, values=6, unchanged=3, times=5)
    assert [(check.layer, check.points) for check in found] == [
        ("signature", 1),
        ("shape", 2),
        ("values", 6),
        ("unchanged", 3),
    ]
    assert [check.times for check in found] == [3, 5, 5, 5]
    assert [check.layer for check in standard(_draw, values=4)] == ["values"]


@pytest.mark.parametrize(
    ("layer", "points", "draw", "message"),
    [
        ("value", 1, _draw, "layer must be one of signature, shape"),
        ("values", 0, _draw, "points must be a positive integer. Received: 0 for 'right'."),
        ("values", 1, None, "the check 'right' needs a `draw`"),
    ],
)
def test_invalid_checks(layer, points, draw, message):
    with pytest.raises(ValueError, match=message):
        Check(layer, "right", points, draw)


def test_points_are_those_of_the_checks():
    checks = tuple(Check(layer, "right", 2, _draw) for layer in LAYERS)
    assert Exercise("title", "question", 1, 5, checks, ()).points == 2 * len(LAYERS)


def test_a_wrong_answer_is_made_of_the_solution():
    solution = "def f(x):\n    y = x + 1\n    return y\n"
    assert Wrong("minus", "says", {"x + 1": "x - 1"}).text(solution) == "def f(x):\n    y = x - 1\n    return y\n"
    assert Wrong("whole", "says", "def f(x): ...").text(solution) == "def f(x): ..."


@pytest.mark.parametrize(("piece", "times"), [("x * 2", 0), ("y", 2)])
def test_pieces_that_do_not_occur_once(piece, times):
    wrong = Wrong("odd", "says", {piece: "z"})
    with pytest.raises(ValueError, match=f"odd: expected .* once in the solution. Found it {times} times"):
        wrong.text("y = x + 1\nreturn y")
