"""`scaling`, which shows what the division of the logits by the square root of the head size does."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.show.pictures import drawing_module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH, QUERIES = 64, 32  # B and T of the random queries
TITLES = "spread of the logits", "largest probability", "gradient of the softmax"
MEANINGS = "standard deviation", "mean over all queries", "sum of |∂ probability / ∂ logit|"
LABELS = {False: "logits = query · key", True: "logits = query · key / √d_k"}
STYLES = {False: ("#c8501e", "s", "--"), True: ("#2560a8", "o", "-")}  # colour, marker and line
LEFT, TOP, WIDTH, HEIGHT, STRIDE = 0.7, 0.75, 2.5, 2.3, 3.4  # places and sizes of the panels in inches
TITLE = 0.3


def scaling(
    head_sizes: Sequence[int] = (4, 16, 64, 256),
    scaled: Sequence[bool] = (False, True),
    *,
    keys: int = 16,
    seed: int = 0,
    title: str | None = None,
) -> "Figure":
    """Draw what happens to the softmax as heads become larger, without and with the division by √d_k.

    For each head size, queries and keys are drawn at random with mean 0 and variance 1. The spread of their dot
    products is about √d_k, so without the division the softmax of large heads chooses one key. Its gradient is then
    almost 0, which is why Vaswani et al. 2017 (section 3.2.1) divide.

    The three panels show the standard deviation of the logits; the largest probability of a query, as a mean; and the
    sum of the absolute derivatives of a query's probabilities with respect to its logits, as a mean.

    Args:
        head_sizes: Head sizes (d_k, O in this project).
        scaled: Lines to draw: `False` is without the division, `True` is with it.
        keys: Number of keys (S) that each query attends to.
        seed: Seed of the random queries and keys.
        title: Title of the figure.

    Returns:
        A `matplotlib.figure.Figure` made without pyplot, whose axes are the three panels.

    Raises:
        ValueError: An argument is empty or invalid.
        ImportError: matplotlib is not installed.

    >>> spread, largest, gradient = scaling((4, 64)).axes
    >>> without_division, with_division = spread.lines
    >>> without_division.get_ydata().round(), with_division.get_ydata().round()
    (array([2., 8.]), array([1., 1.]))
    """
    head_sizes, scaled = _checked(head_sizes, scaled, keys)
    results = _results(head_sizes, scaled, keys, seed)
    top = TOP + (TITLE if title else 0.0)
    drawing = drawing_module()
    with drawing.blank(LEFT + 2 * STRIDE + WIDTH + 0.25, top + HEIGHT + 0.6, title, LEFT) as figure:
        for index in range(3):
            axes = drawing.add_axes(figure, LEFT + index * STRIDE, top, WIDTH, HEIGHT)
            _draw(axes, head_sizes, {divided: values[:, index] for divided, values in results.items()})
            axes.set_title(TITLES[index], fontsize=10)
            axes.set_ylabel(MEANINGS[index], fontsize=8.5)
        place = LEFT / figure.get_figwidth(), 1 - (top - 0.6) / figure.get_figheight()
        lines = figure.axes[0].lines
        figure.legend(handles=lines, loc="upper left", bbox_to_anchor=place, borderaxespad=0, ncols=2, fontsize=9)
    return figure


def statistics(queries: np.ndarray, keys: np.ndarray, divide: bool) -> np.ndarray:
    """Return the numbers of the three panels for queries (…, T, O) and keys (…, S, O).

    >>> statistics(np.zeros((1, 1, 2)), np.ones((1, 4, 2)), divide=True)
    array([0.  , 0.25, 1.5 ])
    """
    logits = queries @ np.swapaxes(keys, -1, -2)
    if divide:
        logits = logits / np.sqrt(queries.shape[-1])
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    p = powers / powers.sum(-1, keepdims=True)
    # ∂pᵢ/∂lⱼ is pᵢ(1 - pᵢ) for i = j and -pᵢpⱼ otherwise; the absolute values add up to twice the former.
    return np.array([logits.std(), p.max(-1).mean(), 2 * (p * (1 - p)).sum(-1).mean()])


def _results(head_sizes: Sequence[int], scaled: Sequence[bool], keys: int, seed: int) -> dict[bool, np.ndarray]:
    """Return an array (number of head sizes, 3) for each line. Both lines have the same queries and keys."""
    generator = np.random.default_rng(seed)
    rows: dict[bool, list[np.ndarray]] = {divide: [] for divide in scaled}
    for size in head_sizes:
        query, key = (generator.standard_normal((BATCH, length, size)) for length in (QUERIES, keys))
        for divide in scaled:
            rows[divide].append(statistics(query, key, divide))
    return {divide: np.stack(found) for divide, found in rows.items()}


def _draw(axes: Any, head_sizes: Sequence[int], lines: dict[bool, np.ndarray]) -> None:
    for divided, values in lines.items():
        colour, marker, line = STYLES[divided]
        axes.plot(head_sizes, values, color=colour, marker=marker, linestyle=line, label=LABELS[divided])
    axes.set_xscale("log", base=2)
    apart = np.log2(head_sizes[-1] / head_sizes[0]) / 8
    shown: list[int] = []
    for size in head_sizes:
        if not shown or np.log2(size / shown[-1]) >= apart:
            shown.append(size)
    axes.set_xticks(shown, [str(size) for size in shown])
    axes.minorticks_off()
    axes.set_ylim(0, 1.1 * max(float(values.max()) for values in lines.values()) or 1)
    axes.set_xlabel("head size (d_k)", fontsize=8.5)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)


def _checked(head_sizes: Any, scaled: Any, keys: Any) -> tuple[list[int], list[bool]]:
    head_sizes = _list("head_sizes", head_sizes, "head sizes, such as (4, 16, 64)")
    scaled = _list("scaled", scaled, "False and True, such as (False, True)")
    for name, sizes in (("head_sizes", head_sizes), ("keys", [keys])):
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise ValueError(f"scaling, {name}: expected positive integers. Received: {size!r}.")
    if not all(isinstance(divide, bool | np.bool_) for divide in scaled):
        raise ValueError(f"scaling, scaled: expected False, True or both. Received: {scaled}.")
    return sorted({int(size) for size in head_sizes}), sorted({bool(divide) for divide in scaled})


def _list(name: str, values: Any, expected: str) -> list[Any]:
    found = list(values) if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else []
    if not found:
        raise ValueError(f"scaling, {name}: expected a list of {expected}. Received: {values!r}.")
    return found
