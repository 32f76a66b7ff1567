"""`alignment`, which draws scores as lines from each query token to the key tokens that it attends to."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.show import layout, tokens
from kmha.show import scores as convert
from kmha.show.pictures import drawing_module, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PITCH, HEIGHT, GAP = 0.25, 14.0, 2.6  # inches: largest distance of two tokens, largest height, length of the lines
PAD, CAPTION, LEGEND = 0.1, 0.28, 0.45
SMALL = 8.5  # points of the captions
WIDEST = 4.5  # points; the line of the largest score
FAINTEST = 0.03  # lines that have a smaller share of the largest score are left out
LINES, STRONGEST = "#5b8fc7", "#20317f"  # of all keys, and of the key with the largest score of a query


def alignment(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    layer: str | None = None,
    head: int | None = None,
    item: int | None = None,
    title: str | None = None,
    vmax: float | None = None,
) -> "Figure":
    """Draw scores as an alignment: key tokens at the left, query tokens at the right, and a line for each score.

    A line is wider and darker for a larger score. The line to the key with the largest score of each query is dark
    blue. Lines of less than 3% of the widest one are left out. In the attention to the source of a translation, keys
    are source tokens and queries are target tokens.

    Args:
        scores: Floating point numbers (T, S), (H, T, S) or (B, H, T, S), or a `Captured` or dict of these by layer.
        rows: Up to T query tokens. Rows beyond them are padding and are not shown. `None` shows positions.
        columns: Up to S key tokens. Columns beyond them are padding and are not shown. `None` shows positions.
        layer: Name of the layer in a capture. It is required if there are several.
        head: Index along H. `None` means the mean of all heads.
        item: Index along B, which is required if B is more than 1.
        title: Title of the figure. `None` means layer and head, if `scores` names the layer.
        vmax: Score of the widest line. `None` means the largest score.

    Returns:
        A `matplotlib.figure.Figure` made without pyplot, so it needs no screen and need not be closed.

    Raises:
        ValueError: A shape, a value, a name or a token list is invalid.
        ImportError: matplotlib is not installed.

    >>> figure = alignment([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], rows=["a", "dog"], columns=["ein", "Hund", "."])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['ein', 'Hund', '.']
    """
    drawing = drawing_module()
    array, name, heads = convert.one_picture(scores, "alignment", layer, head, item)
    shown, queries, keys = tokens.cut(array, rows, columns)
    scale = convert.scale([shown], None, vmax)
    title = title_of(name, head, heads) if title is None else title
    sides = ("key", keys, "S", "right"), ("query", queries, "T", "left")
    captions = [f"{kind} {'tokens' if labels.tokens else 'positions'} ({letter})" for kind, labels, letter, _ in sides]
    families, measure = drawing.fonts([*queries.texts, *keys.texts, *captions])
    longest = max(shown.shape)
    height = max(min(PITCH * longest, HEIGHT), 2 * PITCH)
    points = min(max(0.8 * 72 * height / longest, layout.POINTS[0]), layout.POINTS[1])
    widths = [
        layout.ROUNDING * max(measure(caption, SMALL), *(measure(tokens.shorten(x), points) for x in labels.texts))
        for caption, (_, labels, *_) in zip(captions, sides, strict=True)
    ]
    left, top = layout.MARGIN + widths[0] + PAD, layout.MARGIN + (layout.MAIN_TITLE if title else 0.0) + CAPTION
    with drawing.blank(
        left + GAP + PAD + widths[1] + layout.MARGIN, top + height + LEGEND + layout.MARGIN, title, layout.MARGIN
    ) as figure:
        axes = drawing.add_axes(figure, left, top, GAP, height)
        text: dict[str, Any] = {"family": families, "parse_math": False}
        x = left - PAD / 2, left + GAP + PAD / 2
        for side, place, caption, (_, labels, _, ha) in zip((axes, axes.twinx()), x, captions, sides, strict=True):
            side.set(xlim=(0, 1), ylim=(1, 0), xticks=[])
            side.spines[:].set_visible(False)
            step = layout.label_step(labels, height, points)
            shortened = [tokens.shorten(label) for label in labels.texts[::step]]
            style = {"fontsize": points, "color": drawing.INK, "ha": ha, "va": "center"}
            side.set_yticks(_places(len(labels.texts))[::step], shortened, **style, **text)
            side.tick_params(length=0, pad=PAD * 72 / 2)
            corner = place / figure.get_figwidth(), 1 - (top - 0.08) / figure.get_figheight()
            figure.text(*corner, caption, ha=ha, va="bottom", fontsize=SMALL, color=drawing.GREY, **text)
        _draw_lines(axes, shown, scale.highest)
        _legend(figure, scale.highest, left + GAP / 2)
    return figure


def _places(count: int) -> np.ndarray:
    """Return the heights of the tokens of one side, from 0 at the top to 1."""
    return (np.arange(count) + 0.5) / count


def _draw_lines(axes: Any, shown: np.ndarray, highest: float) -> None:
    """Draw a curve for each score (T, S), the largest ones on top."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    shares = np.minimum(shown / highest, 1)
    queries, keys = np.nonzero(shares >= FAINTEST)
    if not len(keys):  # all scores are 0; matplotlib needs at least one line
        return
    order = np.argsort(shares[queries, keys], kind="stable")
    queries, keys = queries[order], keys[order]
    starts, ends = _places(shown.shape[1])[keys].tolist(), _places(shown.shape[0])[queries].tolist()
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    lines = PathCollection(
        [Path([(0, y), (0.4, y), (0.6, z), (1, z)], codes) for y, z in zip(starts, ends, strict=True)],
        facecolors="none",
        edgecolors=np.where(shown.argmax(axis=1)[queries] == keys, STRONGEST, LINES),
        linewidths=WIDEST * shares[queries, keys],
        alpha=_opacity(shares[queries, keys]),
        transform=axes.transData,
    )
    lines.set_capstyle("round")
    axes.add_collection(lines)


def _opacity(share: Any) -> Any:
    return 0.15 + 0.75 * share


def _legend(figure: Any, highest: float, centre: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=STRONGEST, linewidth=WIDEST * share, alpha=_opacity(share), label=f"{highest * share:.2g}")
        for share in (1, 0.5, 0.1)
    ]
    place = centre / figure.get_figwidth(), layout.MARGIN / figure.get_figheight()
    style: Any = {"fontsize": 8, "frameon": False, "borderaxespad": 0, "borderpad": 0, "handlelength": 1.6}
    title: Any = {"title": "attention score", "title_fontsize": 8}
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=place, ncols=3, **style, **title)
