"""`positions`, which shows a positional encoding and how alike its positions are."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.show.pictures import drawing_module
from kmha.show.scores import as_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, TOP, WIDTH, HEIGHT, STRIDE = 0.75, 0.5, 3.4, 3.4, 5.3  # places and sizes of the panels in inches
BAR, GAP, TITLE = 0.13, 0.15, 0.3
COLOURS = "RdBu_r"  # blue below 0, white at 0, red above


def positions(encoding: Any, *, title: str | None = None, colours: str | None = None) -> "Figure":
    """Draw a positional encoding, and next to it the dot product of each position with every other.

    A learner sees that near positions are alike: their dot products are large. Both panels show 0 as white, and equal
    distances from 0 with equal strength.

    Args:
        encoding: Numbers (T, D) or (1, T, D), for T positions and D features, as a torch tensor or anything that
            `np.asarray` takes: a sinusoidal encoding, or the weights of a trained one.
        title: Title of the figure.
        colours: Name of a colour map of matplotlib whose middle stands for 0. `None` means from blue to red.

    Returns:
        A `matplotlib.figure.Figure` made without pyplot. Its axes are the encoding (T, D), its colour bar, the dot
        products (T, T), and their colour bar.

    Raises:
        ValueError: The encoding has another shape, no elements, or infinite or missing values.
        ImportError: matplotlib is not installed.

    >>> from kmha.core.positions import sinusoidal
    >>> figure = positions(sinusoidal(20, 16))
    >>> [axes.get_title() for axes in figure.axes]
    ['positional encoding', '', 'dot products of positions', '']
    """
    values = _checked(encoding)
    drawing = drawing_module()
    colormap = drawing.as_colormap(colours or COLOURS)
    panels = (
        (values, "positional encoding", "feature (D)", "value"),
        (values @ values.T, "dot products of positions", "position (T)", "dot product"),
    )
    top = TOP + (TITLE if title else 0.0)
    with drawing.blank(LEFT + STRIDE + WIDTH + 1.3, top + HEIGHT + 0.6, title, LEFT) as figure:
        for index, (array, name, columns, meaning) in enumerate(panels):
            left = LEFT + index * STRIDE
            axes = drawing.add_axes(figure, left, top, WIDTH, HEIGHT)
            norm = drawing.symmetric(array)
            axes.imshow(array, norm=norm, cmap=colormap, interpolation="none", aspect="auto", origin="upper")
            axes.set_title(name, fontsize=10)
            axes.set_xlabel(columns, fontsize=8.5)
            axes.set_ylabel("position (T)", fontsize=8.5)
            axes.tick_params(labelsize=8)
            drawing.whole_numbers(axes)
            bar = drawing.add_axes(figure, left + WIDTH + GAP, top, BAR, HEIGHT)
            drawing.colour_bar(bar, norm, colormap, meaning, HEIGHT)
    return figure


def _checked(encoding: Any) -> np.ndarray:
    array = as_array(encoding, "positions", "(T, D)").astype(float)
    values = array[0] if array.ndim == 3 and len(array) == 1 else array
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"positions: expected an encoding (T, D), T positions and D features, or (1, T, D). Received the shape "
            f"{array.shape}. For one of a batch, give encoding[0]."
        )
    if not np.isfinite(values).all():
        position, feature = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"positions: expected finite numbers. Received {values[position, feature]} at position {position}, feature "
            f"{feature}. Leave out positions without an encoding, for instance encoding[:{max(position, 1)}]."
        )
    return values
