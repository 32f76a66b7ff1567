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
    colormap = _colormap(colours)
    families = _families(_characters(grid, headings, title), tuple(matplotlib.rcParams["font.family"]))
    arrangement = layout.arrange(grid, _measure(families), headings=headings, title=title)
    with blank(arrangement.width, arrangement.height) as drawn:
        norm = Normalize(scale.lowest, scale.highest)
        for line, boxes in zip(grid, arrangement.boxes, strict=True):
            for panel, box in zip(line, boxes, strict=True):
                _draw_panel(drawn, panel, box, arrangement, norm, colormap, families)
        _colour_bar(drawn, arrangement, scale, norm, colormap)
        _titles(drawn, arrangement, headings, title, families)
        _captions(drawn, grid, arrangement)
    return drawn


@contextlib.contextmanager
def blank(width: float, height: float) -> Iterator[AttentionFigure]:
    """Give an empty figure of this size in inches. What is drawn inside looks the same under any style sheet."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        drawn = AttentionFigure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(drawn)
        yield drawn


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
    axes = figure.add_axes(_fractions(arrangement, box.left, box.top, box.width, box.height))
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
    axes = figure.add_axes(_fractions(arrangement, *arrangement.bar))
    colour_bar(axes, norm, colormap, "attention score" if are_scores else "value", arrangement.bar[3], extend)


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


def _titles(
    figure: Figure, arrangement: FigureLayout, headings: Sequence[str] | None, title: str | None, families: list[str]
) -> None:
    text: dict[str, Any] = {"color": INK, "family": families, "ha": "left", "va": "top", "parse_math": False}
    left = arrangement.boxes[0][0].left / arrangement.width
    bold = {"fontsize": layout.HEADING_POINTS, "weight": "bold", **text}
    for heading, top in zip(headings or (), arrangement.headings, strict=headings is not None):
        figure.text(left, 1 - (top + 0.05) / arrangement.height, heading, **bold)
    if title is not None:
        figure.suptitle(title, x=left, y=1 - layout.MARGIN / arrangement.height, fontsize=layout.TITLE_POINTS, **text)


def _fractions(arrangement: FigureLayout, left: float, top: float, width: float, height: float) -> Any:
    """Convert inches to matplotlib's units, which are fractions of the figure from the lower left."""
    bottom = arrangement.height - top - height
    return left / arrangement.width, bottom / arrangement.height, width / arrangement.width, height / arrangement.height


def _colormap(name: str | None) -> Colormap:
    if name is None:
        return LinearSegmentedColormap.from_list("kmha", COLOURS)
    if name not in matplotlib.colormaps:
        raise ValueError(f"colours: expected a colour map of matplotlib, such as viridis or Blues. Received: {name!r}.")
    return matplotlib.colormaps[name]


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
