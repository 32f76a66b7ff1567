"""`steps`, which draws the steps of one head as a worked example, with their numbers and shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.show import calculation, layout
from kmha.show.pictures import drawing_module
from kmha.show.scores import COLOURS, as_array, check_index
from kmha.show.tokens import Labels, cut, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = 8  # maximum rows and columns of a panel whose cells have numbers
CELL = 0.44, 0.24  # inches: width and height of a cell with a number, and maximum of other cells
LARGEST = 2.6, 3.0  # inches: maximum width and height of a panel without numbers
SMALLEST = 0.3  # inches: minimum width and height of a panel
GAP, PAD, BELOW = 0.35, 0.08, 0.25  # inches: between panels, between a panel and its labels, below a line
NAME, HOW, NUMBER, NOTE = 9.5, 7.5, 7.0, 8.0  # points of the texts
TEXT = 0.42  # inches: height of the two lines above a panel
DIVERGING = "RdBu_r"
HIDDEN = "#d9d9d9"
EXPLANATION = (
    "red: above 0, blue: below 0, white: 0, on a scale for each panel. Scores: from white, 0, to dark blue, 1."
)


@dataclass(frozen=True)
class Step:
    """One array of a worked example: its name, how it is computed, the letters of its two axes, and its labels."""

    name: str
    how: str
    letters: str
    values: np.ndarray
    rows: Labels
    columns: Labels | None = None  # `None` means features

    @property
    def title(self) -> str:
        """The name with the shape by letter and number, such as "Q (T, O) = (3, 4)"."""
        letters, sizes = ", ".join(self.letters), ", ".join(map(str, self.values.shape))
        return f"{self.name} ({letters}) = ({sizes})"

    @property
    def has_numbers(self) -> bool:
        return max(self.values.shape) <= NUMBERS

    @property
    def text(self) -> str:
        """How it is computed, and the range of the values if the cells do not say them."""
        seen = self.values[np.isfinite(self.values)]
        if self.has_numbers or not seen.size:
            return self.how
        return ", ".join([*filter(None, [self.how]), f"from {_number(seen.min())} to {_number(seen.max())}"])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the panel in inches."""
        largest = (np.inf, np.inf) if self.has_numbers else LARGEST
        counts = self.values.shape[::-1]
        width, height = (
            max(min(cell * count, most), SMALLEST) for cell, count, most in zip(CELL, counts, largest, strict=True)
        )
        return width, height


def steps(
    layer: Any,
    query: Any,
    value: Any = None,
    key: Any = None,
    *,
    attention_mask: Any = None,
    use_causal_mask: bool = False,
    rows: Any = None,
    columns: Any = None,
    head: int = 0,
    item: int | None = None,
    title: str | None = None,
) -> "Figure":
    """Draw what one head of a layer computes, step by step, with the name, the shape and the numbers of each array.

    The steps are the inputs; their projections Q, K and V; the logits Q · Kᵀ, before and after the division by √O and
    the mask; the scores, which are the softmax; the values, mixed by the scores; and the output, which adds up what all
    heads contribute. Cells have their numbers if an array has at most 8 rows and columns.

    Args:
        layer: A `kmha.MultiHeadAttention` or `keras.layers.MultiHeadAttention`.
        query: Query (T, I) or (B, T, I).
        value: Value (S, I) or (B, S, I). `None` means self-attention, in which it is the query.
        key: Key of the shape (S, I) or (B, S, I). `None` means that it is the value.
        attention_mask: Mask that broadcasts to (B, T, S) or (B, H, T, S). True means attend.
        use_causal_mask: Hide later positions.
        rows: Up to T query tokens. Rows beyond them are padding and are not shown. `None` shows positions.
        columns: Up to S key tokens. `None` means `rows` in self-attention, and otherwise positions.
        head: Index along H.
        item: Index along B, which is required if B is more than 1.
        title: Title of the figure. `None` means layer and head.

    Returns:
        A `matplotlib.figure.Figure` made without pyplot, whose axes are the panels.

    Raises:
        TypeError: `layer` is not such a layer.
        ValueError: A shape, an index or a token list is invalid, or the layer computes other steps.
        ImportError: matplotlib is not installed.

    >>> import kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=2, key_dim=4, name="attention")
    >>> figure = steps(layer, np.ones((3, 5)), rows=["a", "dog", "runs"])
    >>> [text.get_text() for text in figure.texts if "=" in text.get_text()][:2]
    ['query = key = value (T, I) = (3, 5)', 'Q (T, O) = (3, 4)']
    """
    drawing = drawing_module()
    value = query if value is None else value
    key = value if key is None else key
    is_self = key is value is query
    arrays = _arrays(layer, (query, value, key), attention_mask, use_causal_mask, head, item)
    _, *labels = cut(arrays["logits"], rows, rows if is_self and columns is None else columns)
    lines = _lines(layer, arrays, labels, is_self, key is value, head)
    return _figure(drawing, lines, f"{layer.name}, head {head % layer.num_heads + 1}" if title is None else title)


def _arrays(
    layer: Any, inputs: Sequence[Any], attention_mask: Any, causal: bool, head: int, item: int | None
) -> dict[str, np.ndarray]:
    """Return the arrays of all steps of one item and head by name."""
    import keras

    from kmha.layers import MultiHeadAttention

    if not isinstance(layer, MultiHeadAttention | keras.layers.MultiHeadAttention):
        raise TypeError(
            "steps: expected a kmha.MultiHeadAttention or keras.layers.MultiHeadAttention, such as "
            f"model.get_layer(…).mha. Received: {type(layer).__name__}."
        )
    head = check_index(head, "head", "H", layer.num_heads, "steps")
    arrays = [_input(x, name, item) for x, name in zip(inputs, ("query", "value", "key"), strict=True)]
    found = _calculated(layer, arrays, None if attention_mask is None else _mask(attention_mask, item), causal)
    q, k, v = (found.projected(name)[0, :, head] for name in ("query", "key", "value"))
    scaled = found.logits[0, head]
    return {
        **{name: x[0] for name, x in zip(("query", "value", "key"), arrays, strict=True)},
        "Q": q,
        "K": k,
        "V": v,
        "logits": q @ k.T,
        "scaled logits": scaled,
        "masked logits": scaled if found.mask is None else np.where(found.mask[0, head], scaled, -np.inf),
        "scores": found.scores[0, head],
        "mixed values": found.mixed[0, :, head],
        "part": found.parts[0, head],
        "output": found.output[0],
    }


def _calculated(layer: Any, inputs: Sequence[np.ndarray], mask: Any, causal: bool) -> calculation.Calculation:
    """Return what the layer computes, after a comparison with its output."""
    from keras import ops

    from kmha.core import masks
    from kmha.verify import tolerance

    query, value, key = inputs
    expected = _numpy(layer(query, value, key, attention_mask=mask, use_causal_mask=causal))
    structured = masks.structured(query.shape[1], key.shape[1], causal, getattr(layer, "_sliding_window", None))
    both = masks.combine(mask, structured)
    found = calculation.of(layer, query, key, value, None if both is None else ops.convert_to_numpy(both))
    if not tolerance.is_close(found.output, expected, layer.compute_dtype):
        raise ValueError(
            f"steps: {layer.name!r} ({type(layer).__name__}) computes other steps than softmax(Q · Kᵀ / √O) · V. Its "
            f"output differs by up to {np.abs(found.output - expected).max():.3g}. Expected a layer without a gate or "
            "methods of its own, and inputs that carry no mask. Give padding as attention_mask."
        )
    return found


def _lines(
    layer: Any, arrays: dict[str, np.ndarray], labels: Sequence[Labels], is_self: bool, shared: bool, head: int
) -> list[list[Step]]:
    """Return the lines of panels: inputs, projections, scores, and output."""
    queries, keys = labels
    axes = {"T": queries, "S": keys}

    def step(source: str, how: str, letters: str, name: str | None = None) -> Step:
        rows, columns = axes[letters[0]], axes.get(letters[1])
        values = arrays[source][: len(rows.texts), : len(columns.texts) if columns else None]
        return Step(name or source, how, letters, values, rows, columns)

    inputs = [step("query", "", "TI")]
    if is_self:
        inputs = [step("query", "", "TI", "query = key = value")]
    elif shared:
        inputs.append(step("key", "", "SI", "key = value"))
    else:
        inputs += [step("key", "", "SI"), step("value", "", "SI")]
    bias = {name: f" + b_{name}" if layer.use_bias else "" for name in "QKVO"}
    names = ("Q", "query", "T"), ("K", "key", "S"), ("V", "value", "S")
    projections = [step(name, f"{source} · W_{name}{bias[name]}", letter + "O") for name, source, letter in names]
    size = arrays["Q"].shape[-1]
    scores = [step("logits", "Q · Kᵀ", "TS"), step("scaled logits", f"logits / √O = logits / √{size}", "TS")]
    if np.isneginf(arrays["masked logits"]).any():
        scores.append(step("masked logits", "−∞ where the mask hides", "TS"))
    scores.append(step("scores", "softmax of each row", "TS"))
    number = head % layer.num_heads + 1
    output = [
        step("mixed values", "scores · V", "TO"),
        step("part", f"mixed values · W_O of head {number}", "TE", f"part of head {number}"),
        step("output", f"sum of the parts of {layer.num_heads} heads{bias['O']}", "TE"),
    ]
    return [inputs, projections, scores, output]


def _figure(drawing: Any, lines: list[list[Step]], title: str) -> "Figure":
    everything = [step for line in lines for step in line]
    texts = [text for step in everything for labels in (step.rows, step.columns) if labels for text in labels.texts]
    families, measure = drawing.fonts([*texts, *(step.title + step.text for step in everything)])
    style: dict[str, Any] = {"family": families, "parse_math": False}
    places: list[tuple[Step, float, float, bool]] = []
    top, right = layout.MARGIN + layout.MAIN_TITLE, layout.ROUNDING * measure(EXPLANATION, NOTE)
    for line in lines:
        left, before = layout.MARGIN, None
        for step in line:
            labelled = step.rows != before
            left += _longest(step.rows, step, measure) if labelled else 0.0
            before = step.rows
            places.append((step, left, top + TEXT, labelled))
            captions = measure(step.title, NAME), measure(step.text, HOW)
            left += max(step.size[0], layout.ROUNDING * max(captions)) + GAP
        right = max(right, left - GAP)
        below = max(_longest(step.columns, step, measure) if step.columns else 0.0 for step in line)
        top += TEXT + max(step.size[1] for step in line) + below + BELOW
    with drawing.blank(right + layout.MARGIN, top + layout.MARGIN + BELOW / 2, title, layout.MARGIN) as figure:
        for step, left, panel_top, labelled in places:
            axes = drawing.add_axes(figure, left, panel_top, *step.size)
            _draw(axes, step, labelled, drawing, style)
            x, y = left / figure.get_figwidth(), 1 - (panel_top - 0.05) / figure.get_figheight()
            up = 0.15 / figure.get_figheight()
            figure.text(x, y + up, step.title, va="bottom", fontsize=NAME, color=drawing.INK, **style)
            figure.text(x, y, step.text, va="bottom", fontsize=HOW, color=drawing.GREY, **style)
        place = layout.MARGIN / figure.get_figwidth(), layout.MARGIN / figure.get_figheight()
        figure.text(*place, EXPLANATION, va="bottom", fontsize=NOTE, color=drawing.GREY, **style)
    return figure


def _draw(axes: Any, step: Step, labelled: bool, drawing: Any, style: dict[str, Any]) -> None:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    values = np.ma.masked_invalid(step.values)
    colours: Any
    if step.name == "scores":
        norm, colours = Normalize(0, 1), LinearSegmentedColormap.from_list("kmha", COLOURS)
    else:
        norm, colours = drawing.symmetric(values.filled(0.0)), drawing.as_colormap(DIVERGING)
    colours = colours.with_extremes(bad=HIDDEN)
    axes.imshow(values, norm=norm, cmap=colours, interpolation="none", aspect="auto", origin="upper")
    axes.spines[:].set(color=drawing.FAINT, linewidth=0.7)
    axes.tick_params(length=2.2, width=0.6, color=drawing.FAINT, pad=2, labelcolor=drawing.INK)
    axes.set(xticks=[], yticks=[])
    width, height = step.size
    for labels, side, ticks, turned in (
        (step.rows if labelled else None, height, axes.set_yticks, {}),
        (step.columns, width, axes.set_xticks, {"rotation": 90}),
    ):
        if labels:
            points = _points(labels, side)
            places = range(0, len(labels.texts), layout.label_step(labels, side, points))
            ticks(places, [shorten(labels.texts[index]) for index in places], fontsize=points, **turned, **style)
    if step.has_numbers:
        dark = colours(norm(values))[..., :3] @ (0.3, 0.59, 0.11) < 0.5
        for (row, column), number in np.ndenumerate(step.values):
            place: Any = {"ha": "center", "va": "center", "color": "white" if dark[row, column] else drawing.INK}
            axes.text(column, row, _number(number), fontsize=NUMBER, **place)


def _longest(labels: Labels, step: Step, measure: layout.Measure) -> float:
    """Return the room for the labels of the rows or columns of a panel, in inches."""
    points = _points(labels, step.size[labels is not step.rows])
    return layout.ROUNDING * max(measure(shorten(text), points) for text in labels.texts) + PAD


def _points(labels: Labels, side: float) -> float:
    return min(max(0.8 * 72 * side / len(labels.texts), layout.POINTS[0]), NOTE)


def _number(number: float) -> str:
    """Return a number with few characters.

    >>> [_number(number) for number in (-0.004, -1.5, 123.4, 12345.0, -np.inf, np.nan)]
    ['0.00', '−1.50', '123', '1.2e4', '−∞', 'NaN']
    """
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "−∞" if number < 0 else "∞"
    text = f"{number:.2f}" if abs(number) < 99.995 else f"{number:.0f}" if abs(number) < 999.5 else _power(number)
    return ("0.00" if text == "-0.00" else text).replace("-", "−")


def _power(number: float) -> str:
    digits, exponent = f"{number:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def _input(x: Any, name: str, item: int | None) -> np.ndarray:
    """Return an input (1, T, I) from (T, I), or from one item of (B, T, I)."""
    array = as_array(x, f"steps, {name}", "(T, I) or (B, T, I)")
    if array.ndim == 2 and item is None:
        return array[None]
    if array.ndim != 3 or not array.size:
        raise ValueError(
            f"steps, {name}: expected (T, I), or (B, T, I) with item=…. Received the shape {array.shape}, "
            f"item={item!r}."
        )
    batch = len(array)
    if item is None and batch == 1:
        return array
    return array[check_index(item, "item", "B", batch, f"steps, {name}")][None]


def _mask(mask: Any, item: int | None) -> np.ndarray:
    """Return the mask (1, T, S) or (1, H, T, S) of one item, in which T, S and H may be 1."""
    array = as_array(mask, "steps, attention_mask", "(T, S) or (B, T, S)").astype(bool)
    if array.ndim not in (2, 3, 4):
        raise ValueError(
            "steps, attention_mask: expected a mask that broadcasts to (B, T, S) or (B, H, T, S). Received the shape "
            f"{array.shape}."
        )
    array = array[None] if array.ndim == 2 else array
    return array if len(array) == 1 else array[0 if item is None else item][None]


def _numpy(x: Any) -> np.ndarray:
    from keras import ops

    from kmha.core.tensors import at_least_float32

    return ops.convert_to_numpy(ops.cast(x, at_least_float32(x.dtype))).astype("float64")  # NumPy has no bfloat16
