"""Figures that look as they should, however they were made."""

import pytest

from kmha.course.exercises import content
from kmha.course.exercises.exercise import Wrong
from kmha.course.judging.pipeline import judge
from kmha.sandbox.sandbox import Pool

GRID = "panels = figure.subplots(rows, columns, squeeze=False)"
BAR = "figure.colorbar(image, ax=figure.axes)"
TICKS = "panel.set_xticks(range(len(keys)), keys, rotation=90)"
A_COLUMN_FOR_THE_BAR = {
    GRID: """grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*columns * [1], 0.1])
    places = [[grid[row, column] for column in range(columns)] for row in range(rows)]
    panels = np.array([[figure.add_subplot(place) for place in line] for line in places])""",
    BAR: "figure.colorbar(image, cax=figure.add_subplot(grid[:, -1]))",
}
PLACED_BY_HAND = {
    GRID: """figure.set_layout_engine("none")
    wide, high = 0.9 / columns, 1 / rows
    corners = [((place % columns + 0.2) * wide, 1 - (place // columns + 0.8) * high) for place in range(heads)]
    panels = np.array([figure.add_axes([*corner, 0.6 * wide, 0.6 * high]) for corner in corners])""",
    BAR: "figure.colorbar(image, cax=figure.add_axes([0.95, 0.1, 0.02, 0.8]))",
}
A_FORMATTER = {
    TICKS: """from matplotlib.ticker import MultipleLocator
        panel.xaxis.set_major_locator(MultipleLocator(1))
        panel.xaxis.set_major_formatter(lambda place, _: keys[int(place)] if 0 <= place < len(keys) else "")"""
}
TITLE = 'set_title(f"Head {number}"'


@pytest.fixture(scope="module")
def pool():
    with Pool() as pool:
        yield pool


@pytest.mark.parametrize(
    ("id", "edits"),
    [
        ("a5.draw_heads", A_COLUMN_FOR_THE_BAR),
        ("a5.draw_heads", PLACED_BY_HAND),
        ("a5.draw_heads", A_FORMATTER),
        ("a2.draw_heads", {TITLE: TITLE + ', loc="left"'}),
    ],
    ids=["column", "placed", "formatter", "title"],
)
def test_right_figures(pool, id, edits):
    (item,) = content.find(id)
    grade = judge(item, Wrong("", "", edits).text(item.master.solution), pool.get(item.spec.uses), seed=5)
    assert [outcome.problem for outcome in grade.outcomes if outcome.problem] == []
    assert grade.points == item.spec.points
