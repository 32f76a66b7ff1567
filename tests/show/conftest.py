import numpy as np
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Affine2D


@pytest.fixture
def check_texts():
    return _check_texts


def _corners(text, renderer):
    """The corners of a visible text, in order. A slanted text turns around its anchor."""
    angle = text.get_rotation() if text.get_rotation() % 90 else 0
    if not angle:
        return text.get_window_extent(renderer).corners()[[0, 1, 3, 2]]
    text.set_rotation(0)
    corners = text.get_window_extent(renderer).corners()[[0, 1, 3, 2]]
    text.set_rotation(angle)
    return (
        Affine2D()
        .rotate_deg_around(*text.get_transform().transform(text.get_unitless_position()), angle)
        .transform(corners)
    )


def _texts(figure):
    """All texts but those of ticks outside the limits of their axis, which matplotlib keeps and does not draw."""
    outside = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks() + axis.get_minor_ticks()
            outside |= {
                label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)
            }
    return [text for text in figure.findobj(Text) if text not in outside]


def _apart(one, other):
    """Return whether a side of one of two convex quadrilaterals separates them."""
    for corners in (one, other):
        sides = np.roll(corners, -1, axis=0) - corners
        for normal in sides @ np.array([[0, -1], [1, 0]]):
            if (one @ normal).max() <= (other @ normal).min() or (other @ normal).max() <= (one @ normal).min():
                return True
    return False


def _check_texts(figure):
    """No two visible texts overlap, none is cut off, and none lies on a panel, but for those that are put into it."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    texts = [text for text in _texts(figure) if text.get_visible() and text.get_text()]
    corners = np.array([_corners(text, renderer) for text in texts])
    assert corners.min() >= 0
    assert (corners.max((0, 1)) <= figure.bbox.max).all()
    least, most = corners.min(1), corners.max(1)
    near = ((least[:, None] < most) & (least < most[:, None])).all(-1)
    for i, j in np.argwhere(np.triu(near, 1)):
        assert _apart(corners[i], corners[j]), (texts[i].get_text(), texts[j].get_text())
    for axes in figure.axes:
        panel = axes.bbox.corners()[[0, 1, 3, 2]]
        for text, box in zip(texts, corners, strict=True):
            if text in axes.texts:
                assert (panel.min(0) <= box.min(0)).all(), text.get_text()
                assert (box.max(0) <= panel.max(0)).all(), text.get_text()
            else:
                assert _apart(panel, box), (axes.get_title(), text.get_text())
    return len(texts)
