import numpy as np
import pytest

from kmha.verify.diagnosing import layer_sizes
from kmha.verify.diagnosing.calling import SubjectError
from kmha.verify.diagnosing.trials_sizes import Sizes, draw_weights

DRAWN = Sizes(batch=4, rows=11, columns=7, heads=3, features=13, key_features=13, size=5, width=17)


@pytest.mark.parametrize(
    ("fixed", "wide", "has_output", "heads", "expected"),
    [
        ({}, False, True, 3, (3, 13, 5, 17)),
        ({}, False, False, 3, (3, 13, 5, 13)),
        ({"size": 6, "output": 9}, False, True, 3, (3, 13, 6, 9)),
        ({"width": 8}, False, False, 2, (2, 8, 5, 8)),
        ({"inputs": 10}, False, True, 3, (3, 10, 5, 17)),
        ({}, True, True, 2, (2, 10, 5, 10)),
        ({}, True, False, 1, (1, 17, 17, 17)),
        ({"width": 12}, True, False, 2, (2, 12, 6, 12)),
    ],
)
def test_given_sizes_come_before_those_drawn(fixed, wide, has_output, heads, expected):
    sizes = layer_sizes.fixed_sizes(DRAWN, heads, fixed, wide, has_output, "layer")
    assert (sizes.heads, sizes.features, sizes.size, sizes.width) == expected
    assert sizes.key_features == sizes.features
    assert (sizes.batch, sizes.rows, sizes.columns) == (4, 11, 7)


def test_heads_must_divide_the_width():
    with pytest.raises(SubjectError, match=r"^layer: a width of 10 is no multiple of 3 heads"):
        layer_sizes.fixed_sizes(DRAWN, 3, {"width": 10}, True, False, "layer")


def test_the_sizes_of_weights():
    weights = draw_weights(np.random.default_rng(0), Sizes(2, 4, 6, 3, 13, 11, 5, 17))
    assert layer_sizes.letters(weights) == {"H": 3, "O": 5, "E": 17, "I query": 13, "I key": 11, "I value": 11}
    held = layer_sizes.held_sizes(weights)
    assert (held.heads, held.features, held.key_features, held.size, held.width) == (3, 13, 11, 5, 17)
    assert len({held.batch, held.rows, held.columns, held.heads, held.size}) == 5
    assert held.use_bias
