import numpy as np
import pytest
from keras import ops

from kmha.core import masks


def _array(mask):
    return ops.convert_to_numpy(mask)


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (3, 7), (7, 3), (1, 5)])
def test_causal_looks_back_only(rows, columns):
    assert np.array_equal(_array(masks.causal(rows, columns)), [[s <= t for s in range(columns)] for t in range(rows)])


@pytest.mark.parametrize("width", [1, 2, 5, 100])
def test_window_counts_distance_below_width(width):
    expected = [[abs(t - s) < width for s in range(7)] for t in range(5)]
    assert np.array_equal(_array(masks.window(5, 7, width)), expected)


def test_rows_may_stand_ahead_of_columns():
    """The result is a part of the full mask: rows 4 to 8, columns 1 to 6."""
    assert np.array_equal(_array(masks.causal(4, 5, ahead=3)), _array(masks.causal(9, 9))[4:8, 1:6])
    assert np.array_equal(_array(masks.window(4, 5, 3, ahead=3)), _array(masks.window(9, 9, 3))[4:8, 1:6])


def test_combine_allows_what_all_allow():
    one, other = np.array([[True, True, False]]), np.array([[True], [False]])
    assert np.array_equal(_array(masks.combine(one, None, other)), [[True, True, False], [False] * 3])
    assert masks.combine(None, one) is one
    assert masks.combine(None, None) is None
