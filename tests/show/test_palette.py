import numpy as np
import pytest

from kmha.show import palette


def test_ever_darker():
    fractions = np.linspace(0, 1, 101)
    luminance = [np.dot(palette.colour(fraction), (0.2126, 0.7152, 0.0722)) for fraction in fractions]
    assert np.all(np.diff(luminance) < 0)


@pytest.mark.parametrize(
    ("fraction", "colour", "shade"),
    [(0, (255, 255, 255), "·"), (2 / 7, (183, 224, 203), "░"), (1, (13, 21, 71), "█"), (1.5, (13, 21, 71), "█")],
)
def test_colours_and_shades(fraction, colour, shade):
    assert palette.colour(fraction) == colour
    assert palette.shade(fraction) == shade


def test_below_the_scale_is_as_its_beginning():
    assert palette.colour(-1) == palette.colour(0)
    assert palette.shade(-1) == palette.shade(0)


def test_between_two_anchors():
    assert palette.colour(0.5 / 7) == (242, 249, 236)
