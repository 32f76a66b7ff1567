"""`heatmap`, `heads`, `layers` and `save`: scores in, a figure out, a file from it."""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmha import files
from kmha.show import layout, tokens
from kmha.show import scores as reading
from kmha.show.layout import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ".png", ".svg"
# As `kmha.layers.Transformer` names its scores.
NAME = re.compile(r"(encoder|decoder)_layer(\d+)(?:_block\d+)?_(self|decenc)_att")
KINDS = {"self": "self-attention", "decenc": "encoder–decoder attention"}


def heatmap(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    title: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    colours: str | None = None,
) -> "Figure":
    """One head: queries are rows, keys are columns, and the darker a cell, the greater its score.

    Args:
        scores: (T, S), floats; anything `np.asarray` takes, and torch tensors.
        rows: T query tokens; fewer mean that the rest is padding, and it is not shown. `None` shows positions.
        columns: S key tokens, likewise.
        title: what to write above.
        vmin: where the colours begin; `None` means 0. Values below 0 (logits) need it.
        vmax: where they end; `None` means the greatest value shown. Values above 1 (logits) need it.
        colours: the name of a colour map of matplotlib; `None` means from white to dark blue.

    Returns:
        A `matplotlib.figure.Figure`, made without pyplot: no screen is needed, and nothing has to be closed.

    Raises:
        ValueError: a shape, a value or a token list does not fit; the message says how to mend it.
        ImportError: matplotlib is not installed.

    >>> import numpy as np
    >>> figure = heatmap(np.eye(2, 3), rows=["the", "house"], columns=["das", "Haus", "."])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['das', 'Haus', '.']
    """
    drawing = _drawing()
    panel = Panel(*tokens.cut(reading.one_head(scores, "heatmap"), rows, columns))
    scale = reading.scale([panel.values], vmin, vmax)
    return drawing.figure([[panel]], scale, title=title, colours=colours)


def heads(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    item: int | None = None,
    across: int | None = None,
    title: str | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    colours: str | None = None,
) -> "Figure":
    """All heads of a layer, however many, with one scale and one colour bar, so that they can be compared.

    Args:
        scores: (H, T, S), or (B, H, T, S) as layers return them; floats.
        rows: T query tokens, as in `heatmap`.
        columns: S key tokens, as in `heatmap`.
        item: which of B; needed where B is more than 1.
        across: how many heads stand side by side; `None` chooses.
        title: as in `heatmap`.
        vmin: as in `heatmap`, for all heads.
        vmax: as in `heatmap`, for all heads.
        colours: as in `heatmap`.

    Returns:
        A `matplotlib.figure.Figure`; its axes are the heads, in order, then the colour bar.

    Raises:
        ValueError: as in `heatmap`.
        ImportError: as in `heatmap`.

    >>> import numpy as np
    >>> figure = heads(np.full((1, 5, 2, 3), 1 / 3))
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2', 'head 3', 'head 4', 'head 5', '']
    """
    drawing = _drawing()
    panels = _panels(reading.all_heads(scores, item), rows, columns)
    scale = reading.scale([panel.values for panel in panels], vmin, vmax)
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
    """A grid: a line for each layer, in the order given, and in it all heads, with one scale for all.

    Args:
        scores: a dict of (B, H, T, S) or (H, T, S) by name, as `kmha.layers.Transformer` returns it; a list of such
            arrays; or one array (L, H, T, S) or (L, B, H, T, S). Floats; H, T and S may differ between layers.
        rows: the query tokens, as in `heatmap`. For a dict with the names of a model they are the target's tokens.
        columns: the key tokens, as in `heatmap`. For a dict with the names of a model they are the source's tokens.
            There, a layer whose name ends in `self_att` has the same tokens on both axes: the source's in the encoder,
            the target's in the decoder.
        item: which of B; needed where B is more than 1.
        title: as in `heatmap`.
        vmin: as in `heatmap`, for all layers.
        vmax: as in `heatmap`, for all layers.
        colours: as in `heatmap`.

    Returns:
        A `matplotlib.figure.Figure`; its axes are the heads of the first layer, of the second, …, then the colour bar.

    Raises:
        ValueError: as in `heatmap`.
        ImportError: as in `heatmap`.

    >>> import numpy as np
    >>> figure = layers({"decoder_layer1_block2_decenc_att": np.full((2, 3, 4, 5), 0.2)}, item=0)
    >>> len(figure.axes), figure.texts[0].get_text()
    (4, 'decoder layer 1: encoder–decoder attention')
    """
    drawing = _drawing()
    named = reading.all_layers(scores, item)
    by_name = isinstance(scores, Mapping)
    grid = []
    for name, array in named.items():
        try:
            grid.append(_panels(array, *(_tokens_of(name, rows, columns) if by_name else (rows, columns))))
        except ValueError as error:
            raise ValueError(f"layers, {name!r}: {error}") from None
    scale = reading.scale([panel.values for line in grid for panel in line], vmin, vmax)
    return drawing.figure(grid, scale, headings=[_heading(name) for name in named], title=title, colours=colours)


def save(figure: "Figure", path: str | Path, *, dpi: float = 160) -> None:
    """Writes `figure` as PNG or SVG, by the suffix of `path`; the file is there whole or not at all.

    The same figure always gives the same bytes. In an SVG, text stays text: it can be searched, and is shown in any
    script that the reader's fonts have.

    Args:
        figure: what `heatmap`, `heads` or `layers` returned.
        path: ends in .png or .svg.
        dpi: pixels for each inch of a PNG.

    Raises:
        ValueError: another suffix.
        FileNotFoundError: the folder does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(heatmap([[0.25, 0.75]]), Path(folder) / "attention.svg")
    ...     print((Path(folder) / "attention.svg").read_text()[:5])
    <?xml
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"a picture is saved as {' or '.join(SUFFIXES)}, by the suffix. Received: {str(path)!r}.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist; make it first.")
    files.write_bytes(path, _drawing().encoded(figure, path.suffix.lower()[1:], dpi))


def _drawing() -> Any:
    """The module that draws, or one line that says how to get what it needs."""
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
        raise ValueError(f"heads: expected across, the heads side by side, to be 1 or more. Received: {across!r}.")
    return across


def _tokens_of(name: str, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Of a layer of a model, by its name."""
    if not name.endswith("self_att"):
        return rows, columns
    return (columns, columns) if name.startswith("encoder") else (rows, rows)


def _heading(name: str) -> str:
    found = NAME.fullmatch(name)
    return f"{found[1]} layer {found[2]}: {KINDS[found[3]]}" if found else name
