"""Positional encoding against the formula, written as loops."""

import math

import numpy as np
import pytest

from kmha.core import positions


@pytest.mark.parametrize("width", [6, 7])
def test_sines_and_cosines_interleaved(width):
    expected = np.empty((5, width))
    for position in range(5):
        for feature in range(width):
            angle = position / 10000 ** ((feature - feature % 2) / width)
            expected[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    np.testing.assert_allclose(positions.sinusoidal(5, width), expected, rtol=1e-12, atol=1e-15)


def test_a_shift_is_a_rotation():
    """The encoding of position + k is a linear map of that of position, the same for all positions."""
    table = positions.sinusoidal(9, 4)
    pair = table[:, 2:4]
    shift = 3 / 10000 ** (2 / 4)
    rotation = np.array([[math.cos(shift), -math.sin(shift)], [math.sin(shift), math.cos(shift)]])
    np.testing.assert_allclose(pair[3:], pair[:-3] @ rotation, atol=1e-12)
