import numpy as np
import pytest

from kmha.verify import tolerance


def test_relative_tolerances():
    assert tolerance.relative("float64") == 1e-10
    assert tolerance.relative("float32") == 2e-5
    assert tolerance.relative("mixed_float16") == tolerance.HALF_FACTOR * np.finfo("float16").eps
    assert tolerance.relative("bfloat16") == tolerance.HALF_FACTOR * 2.0**-7


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nan_and_infinity_are_infinitely_far_off(wrong):
    assert tolerance.difference(np.array([1.0, wrong]), np.array([1.0, 1.0])) == (np.inf, np.inf)


def test_another_shape_is_infinitely_far_off():
    assert tolerance.difference(np.ones(3), np.ones((3, 1))) == (np.inf, np.inf)


def test_difference_is_relative_to_the_largest():
    assert tolerance.difference([0.0, 4.5], [0.0, 4.0]) == (0.5, 0.125)
    assert tolerance.difference([0.5], [0.0]) == (0.5, 0.5)
    assert tolerance.difference([0.5], [0.0], largest=5.0) == (0.5, 0.1)
    assert tolerance.difference([], []) == (0.0, 0.0)
