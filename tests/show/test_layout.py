import numpy as np
import pytest

from kmha.show import layout
from kmha.show.layout import LabelTicks, Panel
from kmha.show.tokens import Labels


def measure(text, points):
    return 0.6 * points / 72 * len(text)


def _panel(rows, columns, token="word", title="head", other=""):
    texts = tuple(f"{token}{index:02}" if token else str(index) for index in range(max(rows, columns)))
    shown = Labels(tuple(other + text for text in texts[:columns]), bool(token))
    return Panel(np.zeros((rows, columns)), Labels(texts[:rows], bool(token)), shown, title)


def _grid(count, across, rows, columns, **kwargs):
    panels = [_panel(rows, columns, **kwargs) for _ in range(count)]
    return [panels[start : start + across] for start in range(0, count, across)]


def _arrange(grid, headings=None, title=None):
    return layout.arrange(grid, measure, headings=headings, title=title)


@pytest.mark.parametrize(
    ("count", "rows", "columns", "expected"),
    [
        (1, 9, 9, 1),
        (4, 9, 9, 2),
        (7, 9, 9, 4),
        (8, 9, 9, 4),
        (12, 9, 9, 4),
        (16, 9, 9, 4),
        (4, 5, 60, 1),
        (4, 60, 5, 4),
    ],
)
def test_as_many_side_by_side_as_look_well(count, rows, columns, expected):
    assert layout.across(count, rows, columns) == expected


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (5, 7), (30, 28), (60, 59), (3, 500)])
@pytest.mark.parametrize(("count", "across"), [(1, 1), (7, 4), (16, 4)])
def test_nothing_overlaps_and_nothing_is_cut_off(count, across, rows, columns):
    placed = _arrange(_grid(count, across, rows, columns), title="title")
    corners = [(p.left, p.top, p.left + p.width, p.top + p.height) for line in placed.boxes for p in line]
    corners.append((placed.bar[0], placed.bar[1], placed.bar[0] + placed.bar[2], placed.bar[1] + placed.bar[3]))
    for left, top, right, bottom in corners:
        assert 0 < left < right < placed.width
        assert layout.MAIN_TITLE < top < bottom < placed.height
    for i, one in enumerate(corners):
        for other in corners[i + 1 :]:
            assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    assert min(p.width for line in placed.boxes for p in line) >= layout.SMALLEST
    assert placed.width < 16
    assert placed.height < 16


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (30, 28), (60, 59), (200, 150)])
@pytest.mark.parametrize("token", ["word", ""])
@pytest.mark.parametrize("count", [1, 16])
def test_labels_do_not_overlap(count, rows, columns, token):
    placed = _arrange(_grid(count, 4, rows, columns, token=token))
    first, last = placed.boxes[0][0], placed.boxes[-1][0]
    line = layout.LINE * placed.points / 72
    assert layout.POINTS[0] <= placed.points <= layout.POINTS[1]
    assert first.rows.step * first.height / rows >= line - 1e-9
    spacing = last.columns.step * last.width / columns
    longest = measure(f"{token}{columns - 1:02}", placed.points)
    needed = {0: longest, 45: line * 2**0.5, 90: line}[last.columns.angle]
    assert spacing >= needed - 1e-9


def test_few_labels_are_all_shown_and_many_positions_in_round_steps():
    assert _arrange(_grid(1, 1, 50, 48)).boxes[0][0].columns == LabelTicks(1, 90)
    assert _arrange(_grid(1, 1, 5, 7)).boxes[0][0].columns == LabelTicks(1, 45)
    assert _arrange(_grid(1, 1, 5, 7, token="")).boxes[0][0].columns == LabelTicks(1, 0)
    assert _arrange(_grid(1, 1, 7, 470, token="")).boxes[0][0].columns.step == 5


def test_row_labels_at_the_left_and_column_labels_where_nothing_is_below():
    boxes = _arrange(_grid(7, 4, 5, 6)).boxes
    rows = [[place.rows is not None for place in line] for line in boxes]
    columns = [[place.columns is not None for place in line] for line in boxes]
    assert rows == [[True, False, False, False], [True, False, False]]
    assert columns == [[False, False, False, True], [True, True, True]]


def test_labels_slant_only_where_nothing_can_stand_in_their_way():
    assert _arrange(_grid(8, 4, 5, 6)).boxes[1][0].columns.angle == 45
    assert _arrange(_grid(7, 4, 5, 6)).boxes[1][0].columns.angle == 90


def test_lines_with_other_columns_have_labels_of_their_own_and_room_for_them():
    same = _arrange([[_panel(5, 6)], [_panel(5, 6)]], headings=["above"] * 2)
    other = _arrange([[_panel(5, 6)], [_panel(5, 6, other="x")]], headings=["above"] * 2)
    assert same.boxes[0][0].columns is None
    assert other.boxes[0][0].columns == other.boxes[1][0].columns
    gap = measure("word05", same.points) * 0.5**0.5
    assert other.boxes[1][0].top - other.boxes[0][0].top > same.boxes[1][0].top - same.boxes[0][0].top + gap


def test_headings_stand_above_their_lines():
    placed = _arrange(_grid(4, 2, 5, 6), headings=["above"] * 2)
    for top, line in zip(placed.headings, placed.boxes, strict=True):
        assert line[0].top - top == pytest.approx(layout.HEADING + layout.TITLE)
    assert placed.headings[1] > placed.boxes[0][0].top + placed.boxes[0][0].height


def test_cells_are_squares_of_one_size_but_in_the_smallest_panels():
    placed = _arrange([[_panel(9, 12)], [_panel(9, 10)]])
    for (found,), columns in zip(placed.boxes, (12, 10), strict=True):
        assert (found.height / 9, found.width / columns) == pytest.approx((layout.CELLS[1],) * 2)
    assert _arrange([[_panel(9, 12)], [_panel(1, 10)]]).boxes[1][0].height == layout.SMALLEST
    assert _arrange(_grid(1, 1, 9, 12)).boxes[0][0].height == pytest.approx(9 * layout.CELLS[0])


def test_long_tokens_take_room_at_the_left():
    short, long = (_arrange(_grid(1, 1, 5, 6, token=token)).boxes[0][0].left for token in ("a", "abcdefgh"))
    assert long - short == pytest.approx(measure("abcdefg", layout.POINTS[1]))
