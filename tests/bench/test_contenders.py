import numpy as np

from kmha.bench.cases import AttentionRow
from kmha.bench.contenders import draw_inputs, padding


def _row(**given):
    return AttentionRow(**{"batch": 2, "length": 12, "width": 16, "heads": 2, "window": 5, **given})


def test_numbers_are_the_same_again():
    first, second = draw_inputs(_row()), draw_inputs(_row())
    np.testing.assert_array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.weights["key/kernel"], second.weights["key/kernel"])
    assert first.weights["key/kernel"].shape == (2, 16, 8)
    assert np.abs(first.x - draw_inputs(_row(), seed=1).x).max() > 0.1


def test_the_last_quarter_is_padding():
    np.testing.assert_array_equal(padding(_row(length=7)), [[1, 1, 1, 1, 1, 1, 0]] * 2)
