"""`heatmap`, `heads` and `layers`, which draw scores, and `save`, which writes a figure to a file."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmha import atomic_files
from kmha.show import layout, tokens
from kmha.show import scores as convert
from kmha.show.layout import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ".png", ".svg"
# The names that `kmha.layers.Transformer` gives its scores.
NAME = re.compile(r"(encoder|decoder)_layer(\d+)(?:_block\d+)?_(self|decenc)_att")
KINDS = {"self": "self-attention", "decenc": "encoder–decoder attention"}


def heatmap(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    layer: str | None = None,
    head: int | None = None,
    item: int | None = None,
    title: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    colours: str | None = None,
) -> "Figure":
    """Draw the scores of one head, with queries as rows, keys as columns, and a darker cell for a larger score.

    Args:
        scores: Floating point numbers (T, S), as a torch tensor or anything that `np.asarray` takes. With `head`, also
            (H, T, S) or (B, H, T, S), or a `Captured` or dict of these by layer.
        rows: Up to T query tokens. Rows beyond them are padding and are not shown. `None` shows positions.
        columns: Up to S key tokens. Columns beyond them are padding and are not shown. `None` shows positions.
        layer: Name of the layer in a capture. It is required if there are several.
        head: Index along H.
        item: Index along B, which is required with `head` if B is more than 1.
        title: Title of the figure. `None` means layer and head, if `scores` names the layer.
        vmin: Value at the lower end of the colours. `None` means 0. It is required for values below 0, such as logits.
        vmax: Value at the upper end of the colours. `None` means the largest value. It is required for values above 1.
        colours: Name of a colour map of matplotlib. `None` means from white to dark blue.

    Returns:
        A `matplotlib.figure.Figure` made without pyplot, so it needs no screen and need not be closed.

    Raises:
        ValueError: A shape, a value or a token list is invalid.
        ImportError: matplotlib is not installed.

    >>> import numpy as np
    >>> figure = heatmap(np.eye(2, 3), rows=["the", "house"], columns=["das", "Haus", "."])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['das', 'Haus', '.']
    """
    drawing = drawing_module()
    more = ", and of a head, head=… (with item=…, if B is more than 1)" if head is None else ""
    array, name = convert.of_layer(scores, layer, "heatmap", more)
    count = None
    if head is None and item is None:
        array = convert.one_head(array, "heatmap", name)
    else:
        array, _, count = convert.one_picture(array, "heatmap", head=head, item=item)
    panel = Panel(*tokens.cut(array, rows, columns))
    scale = convert.scale([panel.values], vmin, vmax)
    title = title_of(name, head, count) if title is None else title
    return drawing.figure([[panel]], scale, title=title, colours=colours)


def heads(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    layer: str | None = None,
    item: int | None = None,
    across: int | None = None,
    title: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    colours: str | None = None,
) -> "Figure":
    """Draw all heads of a layer like `heatmap`, with the same scale, so that they can be compared.

    Args:
        scores: Floating point numbers (H, T, S), or (B, H, T, S) as layers return them, or a `Captured` or dict of
            these by layer.
        rows, columns: Query tokens and key tokens, as in `heatmap`.
        layer: Name of the layer in a capture. It is required if there are several.
        item: Index along B, which is required if B is more than 1.
        across: Number of heads side by side. `None` means a number that suits the shape.
        title: Title of the figure. `None` means the layer, if `scores` names it.
        vmin, vmax, colours: As in `heatmap`, for all heads.

    Returns:
        A `matplotlib.figure.Figure` whose axes are the heads in order, followed by the colour bar.

    >>> import numpy as np
    >>> figure = heads(np.full((1, 5, 2, 3), 1 / 3))
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2', 'head 3', 'head 4', 'head 5', '']
    """
    drawing = drawing_module()
    array, name = convert.of_layer(scores, layer, "heads")
    panels = _panels(convert.all_heads(array, item), rows, columns)
    title = title_of(name, None, None) if title is None else title
    scale = convert.scale([panel.values for panel in panels], vmin, vmax)
    side_by_side = _side_by_side(across, panels)
    grid = [panels[start : start + side_by_side] for start in range(0, len(panels), side_by_side)]
    return drawing.figure(grid, scale, title=title, colours=colours)


def layers(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    item: int | None = None,
    title: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    colours: str | None = None,
) -> "Figure":
    """Draw all heads of all layers like `heatmap`, with the same scale and one line for each layer.

    Args:
        scores: Floating point numbers, as a dict of arrays (B, H, T, S) or (H, T, S) keyed by layer name, such as
            `kmha.layers.Transformer` returns; as a list of such arrays; or as one array (L, H, T, S) or (L, B, H, T,
            S). In a dict or list, H, T and S can differ between layers.
        rows: Query tokens, as in `heatmap`. For a dict from a model, these are the target tokens.
        columns: Key tokens, as in `heatmap`. For a dict from a model, these are the source tokens. A layer whose name
            ends in `self_att` has the same tokens on both axes: source tokens in the encoder, target tokens in the
            decoder.
        item: Index along B, which is required if B is more than 1.
        title, vmin, vmax, colours: As in `heatmap`, for all layers.

    Returns:
        A `matplotlib.figure.Figure` whose axes are the heads, layer by layer, followed by the colour bar.

    >>> import numpy as np
    >>> figure = layers({"decoder_layer1_block2_decenc_att": np.full((2, 3, 4, 5), 0.2)}, item=0)
    >>> len(figure.axes), figure.texts[0].get_text()
    (4, 'decoder layer 1: encoder–decoder attention')
    """
    drawing = drawing_module()
    named = convert.all_layers(scores, item)
    by_name = isinstance(scores, Mapping)
    grid = []
    for name, array in named.items():
        try:
            grid.append(_panels(array, *(_tokens_of(name, rows, columns) if by_name else (rows, columns))))
        except ValueError as error:
            raise ValueError(f"layers, {name!r}: {error}") from None
    scale = convert.scale([panel.values for line in grid for panel in line], vmin, vmax)
    return drawing.figure(grid, scale, headings=[_heading(name) for name in named], title=title, colours=colours)


def save(figure: "Figure", path: str | Path, *, dpi: float = 160) -> None:
    """Write `figure` as PNG or SVG, depending on the suffix of `path`.

    The same figure always gives the same bytes. After an error there is no incomplete file. An SVG contains text as
    text, which can be searched and appears in the reader's fonts.

    Args:
        figure: Figure that a function of this package returned.
        path: File that ends in .png or .svg.
        dpi: Pixels per inch of a PNG.

    Raises:
        ValueError: The path has another suffix.
        FileNotFoundError: The folder does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(heatmap([[0.25, 0.75]]), Path(folder) / "attention.svg")
    ...     print((Path(folder) / "attention.svg").read_text()[:5])
    <?xml
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"save expects a path that ends in {' or '.join(SUFFIXES)}. Received: {str(path)!r}.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist; create it first.")
    atomic_files.write_bytes(path, drawing_module().encoded(figure, path.suffix.lower()[1:], dpi))


def drawing_module() -> Any:
    """Return the module that draws. If matplotlib is missing, raise an error that says how to install it."""
    try:
        importlib.import_module("matplotlib")
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "matplotlib":
            raise ImportError("matplotlib is not installed. Run: pip install 'kmha[plot]'") from None
        raise
    return importlib.import_module("kmha.show.drawing")


def _panels(array: Any, rows: Any, columns: Any) -> list[Panel]:
    shown, row_labels, column_labels = tokens.cut(array, rows, columns)
    return [Panel(head, row_labels, column_labels, f"head {number}") for number, head in enumerate(shown, 1)]


def _side_by_side(across: int | None, panels: list[Panel]) -> int:
    if across is None:
        return layout.across(len(panels), *panels[0].values.shape)
    if isinstance(across, bool) or not isinstance(across, int) or across < 1:
        raise ValueError(f"heads: expected across (heads side by side) to be a positive integer. Received: {across!r}.")
    return across


def _tokens_of(name: str, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Return the tokens of both axes for the layer `name` of a model."""
    if not name.endswith("self_att"):
        return rows, columns
    return (columns, columns) if name.startswith("encoder") else (rows, rows)


def title_of(name: str | None, head: int | None, heads: int | None) -> str | None:
    """Return the title of a picture of one head, or of the mean of `heads` heads if `head` is `None`.

    >>> title_of("decoder_layer1_block2_decenc_att", -1, 4), title_of("block", None, 4), title_of(None, 0, None)
    ('decoder layer 1: encoder–decoder attention, head 4', 'block, mean of 4 heads', None)
    """
    if name is None:
        return None
    if heads is None:
        return _heading(name)
    return _heading(name) + (f", mean of {heads} heads" if head is None else f", head {head % heads + 1}")


def _heading(name: str) -> str:
    found = NAME.fullmatch(name)
    return f"{found[1]} layer {found[2]}: {KINDS[found[3]]}" if found else name
