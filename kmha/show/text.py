"""Attention in the terminal: a cell for each score, tokens along both axes, no wider than the terminal."""

import io
import math
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color, ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kmha.show import palette
from kmha.show.scores import Scale, one_head, scale
from kmha.show.tokens import cut

CELL = 2  # a wide character's width, so that every script can stand above a column
TALLEST = 14  # of a token written downwards
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
    """One head as text: queries are rows, keys columns; needs no matplotlib.

    Where the key tokens do not fit side by side they are written downwards, and where the columns do not fit they go on
    below. Widths are counted in cells of the terminal, of which a Chinese character takes two.

    Args:
        scores: (T, S), floats; anything `np.asarray` takes.
        rows: T query tokens; fewer mean that the rest is padding, and it is not shown. `None` shows positions.
        columns: S key tokens, likewise.
        width: in cells; `None` means the terminal's.
        colour: whether cells are coloured, rather than shaded with characters; `None` means where the terminal can.
        vmin: where the colours begin; `None` means 0.
        vmax: where they end; `None` means the greatest value shown.
        column_name: Name of the columns in the legend. `None` means "key tokens" or "key positions".

    Returns:
        Lines without a newline at the end.

    Raises:
        ValueError: a shape, a value, a token list or the width does not fit; the message says how to mend it.

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
    """What the colours are written in, or `None` for characters."""
    console = Console(force_terminal=True if colour else None)
    many = console.color_system in ("256", "truecolor") and not console.no_color
    if not (many if colour is None else colour):
        return None
    return ColorSystem.TRUECOLOR if console.color_system == "truecolor" else ColorSystem.EIGHT_BIT


def _blocks(
    fractions: np.ndarray, rows: tuple[str, ...], columns: tuple[str, ...], width: int, system: ColorSystem | None
) -> list[Text]:
    """The columns that fit, below them the others, the row tokens beside each; as even as can be."""
    beside = min(max(map(cell_len, rows)), max(width // 3, 4))
    room = width - beside - 1
    cell = max(map(cell_len, columns)) + 1
    upright = cell * len(columns) > room
    if upright:
        cell = CELL
    count = math.ceil(len(columns) / max(room // cell, 1))
    size = math.ceil(len(columns) / count)
    lines: list[Text] = []
    for start in range(0, len(columns), size):
        names = columns[start : start + size]
        lines += [Text()] if lines else []
        lines += [Text(" " * (beside + 1) + line) for line in (_downwards(names) if upright else _across(names, cell))]
        for name, row in zip(rows, fractions[:, start : start + size], strict=True):
            line = Text(_right(name, beside) + " ")
            for fraction in row:
                line.append_text(_cell(fraction, cell, system, gap=not upright))
            lines.append(line)
    return lines


def _cell(fraction: float, cell: int, system: ColorSystem | None, gap: bool) -> Text:
    full = cell - 1 if gap else cell
    text = Text()
    if system:
        # Downgraded here: rich keeps how it wrote a style, and would write it so to another kind of terminal too.
        colour = Color.from_rgb(*palette.colour(fraction)).downgrade(system)
        text.append(" " * full, Style(bgcolor=colour))
    else:
        text.append(palette.shade(fraction) * full)
    return text.append(" " * (cell - full))


def _across(names: tuple[str, ...], cell: int) -> list[str]:
    return ["".join(set_cell_size(name, cell) for name in names)]


def _downwards(names: tuple[str, ...]) -> list[str]:
    """A line for each character, the last ones next to the cells."""
    stacks = [_characters(name) for name in names]
    stacks = [stack if len(stack) <= TALLEST else [*stack[: TALLEST - 1], "⋮"] for stack in stacks]
    height = max(map(len, stacks))
    padded = [[""] * (height - len(stack)) + stack for stack in stacks]
    return ["".join(set_cell_size(character, CELL) for character in line) for line in zip(*padded, strict=True)]


def _characters(name: str) -> list[str]:
    """With the marks that belong to each, which have no width of their own."""
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
    """What the axes are and what the colours mean, side by side where that fits."""
    bar = Text(f"{limits.lowest:.3g} ")
    for fraction in np.linspace(0, 1, 16 if system else len(palette.SHADES)):
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
    console = Console(
        file=file, force_terminal=True, color_system="truecolor", width=width, no_color=False, legacy_windows=False
    )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    return file.getvalue().rstrip("\n")
