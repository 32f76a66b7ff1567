"""`terminal`, which shows attention as text, with a cell for each score and tokens along both axes."""

import io
import math
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kmha.show.scores import SHADES, Scale, one_head, scale, shade
from kmha.show.scores import colour as rgb
from kmha.show.tokens import cut

CELL = 2  # width of a column: that of a wide character, so that every script fits above it
TALLEST = 14  # maximum number of characters of a vertical token
NARROWEST = 16


def terminal(
    scores: Any,
    rows: Any = None,
    columns: Any = None,
    width: int | None = None,
    colour: bool | None = None,
    *,
    vmin: float | None = None,
    vmax: float | None = None,
    column_name: str | None = None,
) -> str:
    """Return the scores of one head as text, with queries as rows and keys as columns, without matplotlib.

    Key tokens that do not fit side by side are written vertically, and columns that do not fit continue below. Widths
    are in cells of the terminal. A Chinese character takes two cells.

    Args:
        scores: Floating point numbers (T, S), as a torch tensor or anything that `np.asarray` takes.
        rows: Up to T query tokens. Rows beyond them are padding and are not shown. `None` shows positions.
        columns: Up to S key tokens. Columns beyond them are padding and are not shown. `None` shows positions.
        width: Width in cells. `None` means the width of the terminal.
        colour: Use colours instead of shading characters. `None` means to use colours if the terminal supports them.
        vmin: Value at the lower end of the colours. `None` means 0.
        vmax: Value at the upper end of the colours. `None` means the largest value shown.
        column_name: Name of the columns in the legend. `None` means "key tokens" or "key positions".

    Returns:
        Lines without a newline at the end.

    Raises:
        ValueError: A shape, a value, a token list or the width is invalid.

    >>> import numpy as np
    >>> print(terminal(np.eye(2, 5), ["the", "house"], ["das", "alte", "Haus", "steht", "."], width=24, colour=False))
                s
            a H t
          d l a e
          a t u h
          s e s t .
      the ██········
    house ··██······
    <BLANKLINE>
    rows: query tokens
    columns: key tokens
    0 ·░▒▓█ 1
    """
    values, row_labels, column_labels = cut(one_head(scores, "terminal"), rows, columns)
    limits = scale([values], vmin, vmax)
    fractions = np.clip((values.astype(float) - limits.lowest) / (limits.highest - limits.lowest), 0, 1)
    width = _width(width)
    system = _colour_system(colour)
    row_name = f"query {'tokens' if row_labels.tokens else 'positions'}"
    column_name = column_name or f"key {'tokens' if column_labels.tokens else 'positions'}"
    lines = _blocks(fractions, row_labels.texts, column_labels.texts, width, system)
    lines += [Text(), *_legend(limits, row_name, column_name, width, system)]
    return _rendered(lines, system, width)


def _width(width: int | None) -> int:
    width = Console().width if width is None else width
    if width < NARROWEST:
        raise ValueError(f"terminal: expected a width of at least {NARROWEST} cells. Received: {width}.")
    return width


def _colour_system(colour: bool | None) -> ColorSystem | None:
    """Return the terminal's colour system, or `None` for shading characters."""
    console = Console(force_terminal=True if colour else None)
    many = console.color_system in ("256", "truecolor") and not console.no_color
    if not (many if colour is None else colour):
        return None
    return ColorSystem.TRUECOLOR if console.color_system == "truecolor" else ColorSystem.EIGHT_BIT


def _blocks(
    fractions: np.ndarray, rows: tuple[str, ...], columns: tuple[str, ...], width: int, system: ColorSystem | None
) -> list[Text]:
    """Return the lines of all columns, in blocks of similar width that each fit beside the row tokens."""
    label_width = min(max(map(cell_len, rows)), max(width // 3, 4))
    room = width - label_width - 1
    cell = max(map(cell_len, columns)) + 1
    vertical = cell * len(columns) > room
    if vertical:
        cell = CELL
    count = math.ceil(len(columns) / max(room // cell, 1))
    size = math.ceil(len(columns) / count)
    lines: list[Text] = []
    for start in range(0, len(columns), size):
        names = columns[start : start + size]
        lines += [Text()] if lines else []
        header = _vertical(names) if vertical else ["".join(set_cell_size(name, cell) for name in names)]
        lines += [Text(" " * (label_width + 1) + line) for line in header]
        for name, row in zip(rows, fractions[:, start : start + size], strict=True):
            line = Text(_right(name, label_width) + " ")
            for fraction in row:
                line.append_text(_cell(fraction, cell, system, gap=not vertical))
            lines.append(line)
    return lines


def _cell(fraction: float, cell: int, system: ColorSystem | None, gap: bool) -> Text:
    full = cell - 1 if gap else cell
    if not system:
        return Text(shade(fraction) * full + " " * (cell - full))
    # Colours are downgraded here, because rich caches a style's codes, and would reuse them for another terminal.
    colour = Color.from_rgb(*rgb(fraction)).downgrade(system)
    return Text().append(" " * full, Style(bgcolor=colour)).append(" " * (cell - full))


def _vertical(names: tuple[str, ...]) -> list[str]:
    """Return the lines that show the tokens vertically, each with its last character just above the cells."""
    stacks = [_characters(name) for name in names]
    stacks = [stack if len(stack) <= TALLEST else [*stack[: TALLEST - 1], "⋮"] for stack in stacks]
    height = max(map(len, stacks))
    padded = [[""] * (height - len(stack)) + stack for stack in stacks]
    return ["".join(set_cell_size(character, CELL) for character in line) for line in zip(*padded, strict=True)]


def _characters(name: str) -> list[str]:
    """Return the characters of a token, each with its combining marks, which have no width."""
    found: list[str] = []
    for character in name:
        if found and cell_len(character) == 0:
            found[-1] += character
        else:
            found.append(character)
    return found


def _right(name: str, width: int) -> str:
    if cell_len(name) > width:
        name = set_cell_size(name, width - 1).rstrip() + "…"
    return " " * (width - cell_len(name)) + name


def _legend(limits: Scale, rows: str, columns: str, width: int, system: ColorSystem | None) -> list[Text]:
    """Return the legend of axes and colours, side by side if the width allows."""
    bar = Text(f"{limits.lowest:.3g} ")
    for fraction in np.linspace(0, 1, 16 if system else len(SHADES)):
        bar.append_text(_cell(fraction, 1, system, gap=False))
    bar.append(f" {limits.highest:.3g}")
    parts = [Text(f"rows: {rows}"), Text(f"columns: {columns}"), bar]
    lines = [parts[0]]
    for part in parts[1:]:
        if lines[-1].cell_len + 2 + part.cell_len <= width:
            lines[-1].append("  ").append_text(part)
        else:
            lines.append(part)
    return lines


def _rendered(lines: list[Text], system: ColorSystem | None, width: int) -> str:
    if system is None:
        return "\n".join(line.plain.rstrip() for line in lines)
    file = io.StringIO()
    options: Any = {"force_terminal": True, "color_system": "truecolor", "no_color": False, "legacy_windows": False}
    console = Console(file=file, width=width, **options)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    return file.getvalue().rstrip("\n")
