"""The layout of a figure in inches, computed without matplotlib."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kmha.show.tokens import Labels, shorten

CELLS = 0.32, 0.24  # maximum side of a cell, for one panel and for several panels
WIDTH, HEIGHT = 10.0, 9.0  # maximum size of all panels together, unless panels already have minimum size
LINE_HEIGHT = 1.4  # height that each line of panels may always have
SMALLEST = 0.62  # minimum side of a panel, so that "head 12" fits above it
POINTS = 5.5, 9.5  # minimum and maximum font size of a token
LINE = 1.2  # height of a line of text, relative to the font size
GAP, PAD, TITLE, HEADING, CAPTION = 0.14, 0.06, 0.2, 0.27, 0.2
MARGIN, MAIN_TITLE = 0.14, 0.36
TITLE_POINTS, HEADING_POINTS, BOLD = 12, 9.5, 1.2  # BOLD: relative width of bold letters
ROUNDING = 1.02  # relative width of a long text, whose letters are rounded to pixels
SIDEWAYS = 1.4  # length of "query positions (T)"
BAR, BAR_SPACE = 0.13, 1.05
SHAPE = 1.5  # desired ratio of width to height of a grid
STEPS = 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000  # possible steps between labelled positions

Measure = Callable[[str, float], float]  # returns the width of a text in inches, given its font size in points


@dataclass(frozen=True)
class Panel:
    """One head: scores (T, S), their labels, and a title."""

    values: np.ndarray
    rows: Labels
    columns: Labels
    title: str | None = None


Grid = Sequence[Sequence[Panel]]  # lines of panels


class LabelTicks(NamedTuple):
    """The ticks of one axis: every `step`-th label, at an angle."""

    step: int
    angle: int


class PanelBox(NamedTuple):
    """The position (from the left and the top) and size of one panel, and its ticks (`None` means no labels)."""

    left: float
    top: float
    width: float
    height: float
    rows: LabelTicks | None
    columns: LabelTicks | None


@dataclass(frozen=True)
class FigureLayout:
    """The sizes and positions (from the left and the top) of all parts of a figure."""

    width: float
    height: float
    points: float
    boxes: list[list[PanelBox]]
    headings: list[float]
    bar: tuple[float, float, float, float]  # left, top, width and height of the colour bar


def across(count: int, rows: int, columns: int) -> int:
    """Return how many of `count` panels, each of (rows, columns) cells, to put side by side.

    >>> [across(count, 9, 9) for count in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)]
    [1, 2, 3, 2, 3, 3, 4, 4, 4, 4, 6]
    """

    def cost(side_by_side: int) -> float:
        lines = math.ceil(count / side_by_side)
        empty = lines * side_by_side - count
        return abs(math.log(side_by_side * columns / (lines * rows) / SHAPE)) + 2 * empty / count

    return min(range(1, count + 1), key=cost)


def arrange(
    grid: Grid, measure: Measure, *, headings: Sequence[str] | None = None, title: str | None = None
) -> FigureLayout:
    """Return the layout for lines of panels. A panel has no column labels if the panel below has the same labels."""
    cell = _cell(grid)
    points = min(max(0.8 * 72 * cell, POINTS[0]), POINTS[1])
    stride = GAP + max(_side(cell, len(panel.columns.texts)) for line in grid for panel in line)
    ticks = [[_column_ticks(grid, i, j, cell, points, measure) for j in range(len(grid[i]))] for i in range(len(grid))]
    left = MARGIN + CAPTION + PAD + _left_labels(grid, ticks, cell, points, measure)
    top = MARGIN + (MAIN_TITLE if title else 0.0) + _caption_overhang(grid, cell)
    boxes: list[list[PanelBox]] = []
    tops: list[float] = []
    for i, line in enumerate(grid):
        tops.append(top)
        top += (HEADING if headings else 0.0) + (TITLE if any(panel.title for panel in line) else 0.0)
        boxes.append([])
        for j, panel in enumerate(line):
            height, width = (_side(cell, size) for size in panel.values.shape)
            rows = None if j else LabelTicks(label_step(panel.rows, height, points), 0)
            boxes[i].append(PanelBox(left + j * stride, top, width, height, rows, ticks[i][j]))
        top += max(box.height for box in boxes[i]) + GAP + _bottom_labels(grid, ticks, i, points, measure)
    right = max(box.left + box.width for line in boxes for box in line)
    bottom = max(box.top + box.height for box in boxes[-1])
    bar = right + 0.2, boxes[0][0].top, BAR, bottom - boxes[0][0].top
    text_widths = [measure(text, HEADING_POINTS) * BOLD for text in headings or ()]
    width = max(right + BAR_SPACE, left + ROUNDING * max([measure(title or "", TITLE_POINTS), *text_widths])) + MARGIN
    return FigureLayout(width, top - GAP + PAD + CAPTION + MARGIN, points, boxes, tops, bar)


def _cell(grid: Grid) -> float:
    """Return the largest cell size at which all panels fit."""
    columns = max(len(line) for line in grid) * max(len(panel.columns.texts) for line in grid for panel in line)
    rows = sum(max(len(panel.rows.texts) for panel in line) for line in grid)
    largest = CELLS[sum(map(len, grid)) > 1]
    return min(largest, WIDTH / columns, max(HEIGHT, LINE_HEIGHT * len(grid)) / rows)


def _caption_overhang(grid: Grid, cell: float) -> float:
    """Return the room above a single low panel for its sideways caption, which is longer than the panel's height."""
    height = max(_side(cell, len(panel.rows.texts)) for line in grid for panel in line)
    return max(SIDEWAYS - height, 0) / 2 if len(grid) == 1 else 0.0


def _side(cell: float, size: int) -> float:
    return max(cell * size, SMALLEST)


def label_step(labels: Labels, side: float, points: float) -> int:
    """Return the step between labels for which there is room."""
    needed = LINE * points / 72 / (side / len(labels.texts))
    step = max(math.ceil(needed - 1e-6), 1)
    return step if labels.tokens else next((number for number in STEPS if number >= step), step)


def _column_ticks(grid: Grid, i: int, j: int, cell: float, points: float, measure: Measure) -> LabelTicks | None:
    """Return the ticks of the columns, or `None` if the panel below has the same labels."""
    labels = grid[i][j].columns
    if i + 1 < len(grid) and j < len(grid[i + 1]) and grid[i + 1][j].columns == labels:
        return None
    side = _side(cell, len(labels.texts))
    each, step = side / len(labels.texts), label_step(labels, side, points)
    if max(measure(shorten(text), points) for text in labels.texts[::step]) + PAD <= each * step:
        return LabelTicks(step, 0)
    # Slanted labels extend to the left, so they need a grid in which nothing is there.
    slanted = step == 1 and each * 72 * math.sqrt(0.5) >= LINE * points and len({len(line) for line in grid}) == 1
    return LabelTicks(step, 45 if slanted else 90)


def _bottom_labels(
    grid: Grid, ticks: Sequence[Sequence[LabelTicks | None]], i: int, points: float, measure: Measure
) -> float:
    """Return the height of the column labels below line i, without labels above empty space."""
    heights = [0.0]
    for j, tick in enumerate(ticks[i]):
        if tick and (i == len(grid) - 1 or any(j < len(line) for line in grid[i + 1 :])):
            longest = max(measure(shorten(text), points) for text in grid[i][j].columns.texts[:: tick.step])
            line = LINE * points / 72
            heights.append({0: line, 45: math.sqrt(0.5) * (longest + line), 90: longest}[tick.angle] + PAD)
    return max(heights)


def _left_labels(
    grid: Grid, ticks: Sequence[Sequence[LabelTicks | None]], cell: float, points: float, measure: Measure
) -> float:
    """Return the room to the left of the panels, for the longest row label and for slanted column labels."""
    longest = max(measure(shorten(text), points) for line in grid for text in line[0].rows.texts)
    reach = 0.0
    for line, (first, *_) in zip(grid, ticks, strict=True):
        if first and first.angle == 45:
            each = _side(cell, len(line[0].columns.texts)) / len(line[0].columns.texts)
            for index, text in enumerate(line[0].columns.texts):
                reach = max(reach, math.sqrt(0.5) * measure(shorten(text), points) - (index + 0.5) * each)
    return max(longest + PAD, reach)
