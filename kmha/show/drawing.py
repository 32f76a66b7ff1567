"""Drawing a figure with matplotlib but without pyplot, so that it needs no screen and no global state."""

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kmha.show import layout
from kmha.show.layout import FigureLayout, LabelTicks, Panel, PanelBox
from kmha.show.scores import COLOURS, Scale
from kmha.show.tokens import Labels, shorten

INK, GREY, FAINT = "#222222", "#666666", "#c4c4c4"
# Fonts that have boxes, coloured bitmaps or mathematical symbols instead of letters.
UNUSABLE = re.compile(r"last ?resort|.*color emoji|cm\w+10$|stixnonunicode", re.IGNORECASE)
FINE = 0.11  # inches; lines between smaller cells would hide the cells
SAVING: Any = {"svg.fonttype": "none", "svg.hashsalt": "kmha", "svg.image_inline": True, "savefig.bbox": None}


class AttentionFigure(Figure):
    """A figure that shows itself in a notebook, and that draws any alphabet without warnings."""

    def draw(self, renderer: Any) -> None:
        """Draw the figure. A character that no font has becomes a box, but stays text in an SVG."""
        with _without_glyph_warnings():
            super().draw(renderer)

    def get_tightbbox(self, *args: Any, **kwargs: Any) -> Any:
        with _without_glyph_warnings():
            return super().get_tightbbox(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        return encoded(self, "png", 110)


def figure(
    grid: Sequence[Sequence[Panel]],
    scale: Scale,
    *,
    headings: Sequence[str] | None = None,
    title: str | None = None,
    colours: str | None = None,
) -> AttentionFigure:
    """Return a figure of lines of panels with `headings` and one colour bar. `colours` is the name of a colour map."""
    colormap = as_colormap(colours)
    families = _families(_characters(grid, headings, title), tuple(matplotlib.rcParams["font.family"]))
    arrangement = layout.arrange(grid, _measure(families), headings=headings, title=title)
    with blank(arrangement.width, arrangement.height, title, arrangement.boxes[0][0].left) as drawn:
        norm = Normalize(scale.lowest, scale.highest)
        for line, boxes in zip(grid, arrangement.boxes, strict=True):
            for panel, box in zip(line, boxes, strict=True):
                _draw_panel(drawn, panel, box, arrangement, norm, colormap, families)
        _colour_bar(drawn, arrangement, scale, norm, colormap)
        _headings(drawn, arrangement, headings or (), families)
        _captions(drawn, grid, arrangement)
    return drawn


def fonts(texts: Sequence[str]) -> tuple[list[str], layout.Measure]:
    """Return the fonts that have the characters of `texts`, and a function that measures a text in them."""
    families = _families(frozenset("".join(texts)), tuple(matplotlib.rcParams["font.family"]))
    return families, _measure(families)


@contextlib.contextmanager
def blank(width: float, height: float, title: str | None, left: float) -> Iterator[AttentionFigure]:
    """Give a figure with no more than a title, whose start is `left`. Sizes are in inches, and a long title adds width.

    What is drawn inside looks the same under any style sheet of the reader.
    """
    families = _families(frozenset(title or ""), tuple(matplotlib.rcParams["font.family"]))
    title_width = layout.ROUNDING * _measure(families)(title or "", layout.TITLE_POINTS)
    width = max(width, left + title_width + layout.MARGIN)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        drawn = AttentionFigure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(drawn)
        if title is not None:
            place = {"x": left / width, "y": 1 - layout.MARGIN / height, "ha": "left", "va": "top"}
            text: Any = {"fontsize": layout.TITLE_POINTS, "color": INK, "family": families, "parse_math": False}
            drawn.suptitle(title, **place, **text)
        yield drawn


def add_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Any:
    """Return new axes, whose place is given in inches from the left and the top."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, (down - top - height) / down, width / across, height / down))


def as_colormap(name: str | None) -> Colormap:
    """Return matplotlib's colour map `name`, or for `None` the one from white to dark blue."""
    if name is None:
        return LinearSegmentedColormap.from_list("kmha", COLOURS)
    if name not in matplotlib.colormaps:
        raise ValueError(f"colours: expected a colour map of matplotlib, such as viridis or Blues. Received: {name!r}.")
    return matplotlib.colormaps[name]


def colour_bar(axes: Any, norm: Normalize, colormap: Any, label: str, height: float, extend: str = "neither") -> None:
    """Draw a colour bar with `label` in `axes`, which are `height` inches high."""
    ticks = MaxNLocator(nbins=max(min(int(height * 3), 6), 2))
    numbers = FuncFormatter(lambda number, _: f"{number:.6g}")  # matplotlib would write the exponent above the bar
    mappable = ScalarMappable(norm, colormap)
    bar: Any = axes.figure.colorbar(mappable, cax=axes, extend=extend, ticks=ticks, format=numbers)
    bar.outline.set(color=FAINT, linewidth=0.7)
    bar.solids.set_edgecolor("face")  # otherwise viewers of SVG show white lines between the colours
    bar.set_label(label, fontsize=8.5, color=GREY)
    axes.tick_params(labelsize=8, length=2.2, width=0.6, color=FAINT, labelcolor=INK)


def symmetric(values: np.ndarray) -> Normalize:
    """Return a scale that has 0 in its middle and contains all `values`."""
    largest = float(np.abs(values).max()) or 1.0
    return Normalize(-largest, largest)


def whole_numbers(axes: Any) -> None:
    """Let both axes have ticks at whole numbers only."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))


def encoded(figure: Figure, suffix: str, dpi: float) -> bytes:
    """Return the bytes of a PNG or SVG file. The same figure always gives the same bytes."""
    file = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {}
    with matplotlib.rc_context(SAVING), _without_glyph_warnings():
        figure.savefig(file, format=suffix, dpi=dpi, metadata=metadata)
    return file.getvalue()


def _draw_panel(
    figure: Figure,
    panel: Panel,
    box: PanelBox,
    arrangement: FigureLayout,
    norm: Any,
    colormap: Colormap,
    families: list[str],
) -> None:
    axes = add_axes(figure, box.left, box.top, box.width, box.height)
    span = norm.vmax - norm.vmin
    values = np.clip(panel.values, norm.vmin - span, norm.vmax + span)  # imshow leaves infinite values white
    axes.imshow(values, norm=norm, cmap=colormap, interpolation="none", aspect="auto", origin="upper")
    axes.spines[:].set(color=FAINT, linewidth=0.7)
    axes.tick_params(length=2.2, width=0.6, color=FAINT, pad=2, labelcolor=INK)
    text = {"fontsize": arrangement.points, "family": families, "parse_math": False}
    rows, columns = panel.values.shape
    _label(axes.set_yticks, panel.rows, box.rows, ha="right", va="center", **text)
    angle = box.columns.angle if box.columns else 0
    below = {"ha": "right" if angle else "center", "va": "center" if angle == 90 else "top"}
    _label(axes.set_xticks, panel.columns, box.columns, rotation=angle, rotation_mode="anchor", **below, **text)
    if min(box.width / columns, box.height / rows) >= FINE:
        axes.set_xticks([index - 0.5 for index in range(1, columns)], minor=True)
        axes.set_yticks([index - 0.5 for index in range(1, rows)], minor=True)
        axes.grid(which="minor", color="white", linewidth=0.7)
        axes.tick_params(which="minor", length=0)
    if panel.title:
        axes.set_title(panel.title, fontsize=8.5, color=GREY, pad=3, parse_math=False)


def _label(set_ticks: Callable[..., Any], labels: Labels, ticks: LabelTicks | None, **text: Any) -> None:
    if ticks is None:
        set_ticks([])
    else:
        positions = range(0, len(labels.texts), ticks.step)
        set_ticks(positions, [shorten(labels.texts[index]) for index in positions], **text)


def _colour_bar(figure: Figure, arrangement: FigureLayout, scale: Scale, norm: Normalize, colormap: Colormap) -> None:
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[scale.below, scale.above]
    are_scores = scale.lowest >= 0 and scale.highest <= 1.01
    axes = add_axes(figure, *arrangement.bar)
    colour_bar(axes, norm, colormap, "attention score" if are_scores else "value", arrangement.bar[3], extend)


def _captions(figure: Figure, grid: Sequence[Sequence[Panel]], arrangement: FigureLayout) -> None:
    """Label the axes with a single caption for all rows and one for all columns of the panels."""
    panels = [panel for line in grid for panel in line]
    rows = "query tokens (T)" if any(panel.rows.tokens for panel in panels) else "query positions (T)"
    columns = "key tokens (S)" if any(panel.columns.tokens for panel in panels) else "key positions (S)"
    boxes = [box for line in arrangement.boxes for box in line]
    right = max(box.left + box.width for box in boxes)
    bottom = max(box.top + box.height for box in boxes)
    middle = (boxes[0].top + bottom) / 2 / arrangement.height
    text = {"fontsize": 8.5, "color": GREY}
    figure.supylabel(rows, x=layout.MARGIN / arrangement.width, y=1 - middle, ha="left", va="center", **text)
    centre = (boxes[0].left + right) / 2 / arrangement.width
    figure.supxlabel(columns, x=centre, y=layout.MARGIN / arrangement.height, ha="center", va="bottom", **text)


def _headings(figure: Figure, arrangement: FigureLayout, headings: Sequence[str], families: list[str]) -> None:
    left = arrangement.boxes[0][0].left / arrangement.width
    text: dict[str, Any] = {"color": INK, "family": families, "ha": "left", "va": "top", "parse_math": False}
    for heading, top in zip(headings, arrangement.headings, strict=bool(headings)):
        height = 1 - (top + 0.05) / arrangement.height
        figure.text(left, height, heading, fontsize=layout.HEADING_POINTS, weight="bold", **text)


def _measure(families: list[str]) -> layout.Measure:
    renderer = FigureCanvasAgg(Figure(dpi=72)).get_renderer()

    @functools.cache
    def measure(text: str, points: float) -> float:
        font = FontProperties(family=families, size=points)
        with _without_glyph_warnings():
            return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) / 72

    return measure


def _characters(grid: Sequence[Sequence[Panel]], headings: Sequence[str] | None, title: str | None) -> frozenset[str]:
    labels = (labels for line in grid for panel in line for labels in (panel.rows, panel.columns))
    return frozenset("".join([*(text for label in labels for text in label.texts), *(headings or ()), title or ""]))


@functools.lru_cache(maxsize=64)
def _families(characters: frozenset[str], own: tuple[str, ...]) -> list[str]:
    """Return the configured fonts, followed by installed fonts for characters that the configured fonts lack."""
    families = list(own)
    missing = {ord(character) for character in characters if not character.isspace()}
    missing -= _characters_in(font_manager.findfont(FontProperties(family=families)))
    for entry in sorted(
        font_manager.fontManager.ttflist, key=lambda font: ("sans" not in font.name.lower(), font.name)
    ):
        if not missing:
            break
        usable = entry.weight in (400, "normal", "regular") and not UNUSABLE.match(entry.name)
        if usable and (found := missing & _characters_in(entry.fname)):
            missing -= found
            families.append(entry.name)
    return families


@functools.lru_cache(maxsize=1024)
def _characters_in(path: str) -> frozenset[int]:
    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):  # FreeType raises them for a broken file
        return frozenset()


@contextlib.contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Suppress the warning for each character that no font has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+", category=UserWarning)
        yield
