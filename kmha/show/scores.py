"""Conversion of scores from any library and of any rank to arrays (T, S), and the colour scale for them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

LETTERS = {2: "(T, S)", 3: "(H, T, S)", 4: "(B, H, T, S)", 5: "(L, B, H, T, S)"}
# Call that shows scores of each rank, keyed by rank.
SHOWN_BY = {2: "heatmap(scores)", 3: "heads(scores)", 4: "heads(scores, item=…)", 5: "layers(scores, item=…)"}
ROUNDING = 0.01  # amount by which a softmax in bfloat16 can exceed 1

# The colours of a scale in figures and in the terminal, from white to dark blue, each darker than the previous colour.
COLOURS = ("#ffffff", "#e4f3da", "#b7e0cb", "#70c5ca", "#3296c1", "#2560a8", "#20317f", "#0d1547")
SHADES = "·░▒▓█"


class Scale(NamedTuple):
    """The range of the colours, and whether values below or above this range exist."""

    lowest: float
    highest: float
    below: bool
    above: bool


def one_head(scores: Any, function: str, layer: str | None = None) -> np.ndarray:
    """Return scores (T, S) as an array. For another rank, raise a ValueError that says how to call `function`.

    If the scores were given by name, `layer` is that name.

    >>> one_head([[0.25, 0.75]], "heatmap").shape
    (1, 2)
    """
    array = as_array(scores, function)
    if array.ndim in (3, 4) and layer is not None:
        item = "item=0, " if array.ndim == 4 else ""
        raise ValueError(
            f"{function} shows one head, (T, S). Received {LETTERS[array.ndim]} = {array.shape} of {layer!r}: choose "
            f"a head, {function}(scores, layer={layer!r}, {item}head=0), or show all of them with heads(scores, "
            f"layer={layer!r}{', item=0' if item else ''}) or page(scores)."
        )
    if array.ndim == 3:
        raise ValueError(
            f"{function} shows one head, (T, S). Received {LETTERS[3]} = {array.shape}: choose a head, scores[0], or "
            "average them, scores.mean(0), or show all of them with heads(scores)."
        )
    if array.ndim == 4:
        raise ValueError(
            f"{function} shows one head, (T, S). Received {LETTERS[4]} = {array.shape}: choose an item and a head, "
            "scores[0, 0], or show all heads of an item with heads(scores, item=0)."
        )
    return _checked(array, (2,), function)


def all_heads(scores: Any, item: int | None, function: str = "heads", layer: str = "") -> np.ndarray:
    """Return an array (H, T, S) from scores (H, T, S), or from one item of scores (B, H, T, S).

    Args:
        scores: Scores of a layer.
        item: Index along B, or `None` if there is no B, or B is 1.
        function: Name of the public function, for errors.
        layer: Name of the layer, for errors.

    >>> all_heads(np.zeros((2, 3, 5, 7)), item=1).shape
    (3, 5, 7)
    """
    where = f"{function}, {layer!r}" if layer else function
    array = _checked(as_array(scores, where), (3, 4), where)
    if array.ndim == 3:
        if item is not None:
            raise ValueError(f"{where}: item={item!r} is for {LETTERS[4]}. Received {LETTERS[3]} = {array.shape}.")
        return array
    batch = array.shape[0]
    if item is None and batch > 1:
        raise ValueError(
            f"{where} shows one item of a batch. Received {LETTERS[4]} = {array.shape}: choose one of the {batch}, "
            "for instance item=0."
        )
    item = 0 if item is None else item
    return array[check_index(item, "item", "B", batch, where)]


def check_index(index: Any, name: str, letter: str, size: int, where: str) -> int:
    """Return `index` if it is an index along the axis with this `letter` and size, and otherwise raise a ValueError."""
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or not -size <= index < size:
        article = "an" if name == "item" else "a"
        raise ValueError(
            f"{where}: expected {article} {name} from 0 to {size - 1}, as {letter} is {size}. Received: {index!r}."
        )
    return int(index)


def with_items(scores: Any, where: str) -> np.ndarray:
    """Return scores (B, H, T, S) or (H, T, S) as an array (B, H, T, S).

    >>> with_items(np.zeros((2, 3, 5)), "page").shape
    (1, 2, 3, 5)
    """
    expected = f"{LETTERS[3]} or {LETTERS[4]}"
    array = as_array(scores, where, expected)
    if array.ndim not in (3, 4) or not array.size:
        raise ValueError(f"{where}: expected {expected}. Received the shape {array.shape}.")
    return array if array.ndim == 4 else array[None]


def of_layer(scores: Any, layer: str | None, function: str, more: str = "") -> tuple[Any, str | None]:
    """Return the scores of one layer and its name, or `scores` themselves and `None` if they are not given by name.

    `more` names other arguments that the function needs, for errors.

    >>> of_layer({"a": 1, "b": 2}, "b", "heads"), of_layer({"a": 1}, None, "heads"), of_layer([0.5], None, "heads")
    ((2, 'b'), (1, 'a'), ([0.5], None))
    """
    if not isinstance(scores, Mapping):
        if layer is not None:
            raise ValueError(
                f"{function}: layer={layer!r} is for scores by name, such as a capture. Received "
                f"{type(scores).__name__}. Leave `layer` out."
            )
        return scores, None
    names = list(scores)
    if layer is None and len(names) == 1:
        (layer,) = names
    if layer not in names:
        raise ValueError(
            f"{function}: expected the name of one layer, layer=…{more}. Received: {layer!r}. The names are: "
            f"{', '.join(map(str, names)) or 'none'}. To show all of them, call layers(scores) or page(scores)."
        )
    return scores[layer], layer


def one_picture(
    scores: Any, function: str, layer: str | None = None, head: int | None = None, item: int | None = None
) -> tuple[np.ndarray, str | None, int | None]:
    """Return scores (T, S) of one head or the mean of all heads, the layer's name, and H, where they are known.

    >>> array, name, heads = one_picture({"a": np.zeros((2, 3, 5, 7))}, "alignment", item=1)
    >>> array.shape, name, heads
    ((5, 7), 'a', 3)
    """
    scores, name = of_layer(scores, layer, function)
    array = as_array(scores, function)
    if array.ndim == 2 and head is None and item is None:
        return _checked(array, (2,), function), name, None
    array = all_heads(array, item, function, name or "")
    count = len(array)
    if head is None:
        return array.mean(axis=0), name, count
    return array[check_index(head, "head", "H", count, function)], name, count


def all_layers(scores: Any, item: int | None) -> dict[str, np.ndarray]:
    """Return arrays (H, T, S) keyed by layer name. The layers of a list or an array are named by number.

    >>> {name: array.shape for name, array in all_layers(np.zeros((2, 3, 5, 7)), item=None).items()}
    {'layer 1': (3, 5, 7), 'layer 2': (3, 5, 7)}
    """
    if isinstance(scores, Mapping):
        named = {str(name): value for name, value in scores.items()}
    else:
        is_list = isinstance(scores, list | tuple) and any(as_array(value, "layers").ndim > 2 for value in scores)
        arrays = scores if is_list else _checked(as_array(scores, "layers"), (4, 5), "layers")
        named = {f"layer {number}": array for number, array in enumerate(arrays, 1)}
    if not named:
        raise ValueError(
            "layers: there are no scores. Expected a dict of name: (B, H, T, S), as a model returns it, a list of "
            f"(H, T, S), or an array (L, H, T, S). Received: {scores!r}."
        )
    return {name: all_heads(value, item, "layers", name) for name, value in named.items()}


def scale(arrays: Iterable[np.ndarray], vmin: float | None, vmax: float | None) -> Scale:
    """Return one scale for all of `arrays`, by default from 0 to the largest value, or to 1 if all values are 0.

    Raises:
        ValueError: A value is NaN, below 0 without `vmin` or above 1 without `vmax`, or `vmin` is not below `vmax`.

    >>> scale([np.array([0.25, 0.5])], None, None)
    Scale(lowest=0.0, highest=0.5, below=False, above=False)
    """
    arrays = list(arrays)
    for array in arrays:
        _check_numbers(array)
    least, greatest = (float(f([f(array) for array in arrays])) for f in (np.min, np.max))
    for found, outside, name in ((least, least < 0, "vmin"), (greatest, greatest > 1 + ROUNDING, "vmax")):
        if outside and {"vmin": vmin, "vmax": vmax}[name] is None:
            raise ValueError(
                f"expected scores between 0 and 1. Received values from {least:.4g} to {greatest:.4g}. Apply the "
                "softmax. To show logits themselves, give the range of the colours, for instance "
                f"vmin={np.floor(least):g}, vmax={np.ceil(greatest):g}."
                if np.isfinite(found)
                else f"an infinite value needs an end of the colours: give {name}=…, the value to show it as."
            )
    lowest = 0.0 if vmin is None else float(vmin)
    highest = float(vmax) if vmax is not None else greatest if greatest > lowest else lowest + 1
    if not lowest < highest or not np.isfinite([lowest, highest]).all():
        raise ValueError(f"vmin must be below vmax, both finite. Received: vmin={lowest:g}, vmax={highest:g}.")
    return Scale(lowest, highest, least < lowest, greatest > highest)


def as_array(scores: Any, where: str, expected: str = f"{LETTERS[2]} or {LETTERS[3]}") -> np.ndarray:
    """Return a floating point array from a torch tensor or anything that np.asarray takes.

    Raises:
        ValueError: `scores` cannot be converted. The message names the public function (`where`) and `expected` shapes.

    >>> as_array([1, 2], "heatmap")
    array([1., 2.], dtype=float32)
    """
    if isinstance(scores, Mapping):
        raise ValueError(
            f"{where}: expected an array. Received scores by name ({', '.join(map(str, scores))}): choose one, "
            "scores[name], or show them all with layers(scores)."
        )
    try:
        # A torch tensor must be detached, moved to the CPU, and converted to a dtype that NumPy has.
        array = np.asarray(scores.detach().cpu().float() if hasattr(scores, "detach") else scores)
        if array.dtype.kind in "cOSUMm":
            raise TypeError(f"its dtype is {array.dtype}")
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # a symbolic tensor raises any of them
        raise ValueError(
            f"{where}: expected an array of real numbers, such as {expected}. Received "
            f"{type(scores).__name__}, which cannot be converted: {error}"
        ) from None


def colour(fraction: float) -> tuple[int, int, int]:
    """Return red, green and blue, each from 0 to 255, for a fraction of the scale.

    >>> colour(0), colour(1)
    ((255, 255, 255), (13, 21, 71))
    """
    position = min(max(fraction, 0.0), 1.0) * (len(COLOURS) - 1)
    index = min(int(position), len(COLOURS) - 2)
    lower, upper = (bytes.fromhex(text[1:]) for text in COLOURS[index : index + 2])
    red, green, blue = (round(a + (b - a) * (position - index)) for a, b in zip(lower, upper, strict=True))
    return red, green, blue


def shade(fraction: float) -> str:
    """Return the character for a fraction of the scale.

    >>> "".join(shade(fraction / 4) for fraction in range(5))
    '·░▒▓█'
    """
    return SHADES[round(min(max(fraction, 0.0), 1.0) * (len(SHADES) - 1))]


def _check_numbers(array: np.ndarray) -> None:
    missing = np.argwhere(np.isnan(array))
    if len(missing):
        where = ", ".join(map(str, missing[0]))
        raise ValueError(
            f"{len(missing)} of {array.size} values are NaN, the first at [{where}] of {array.shape}. A softmax over "
            "masked positions only gives NaN. Mask with a large negative number, or leave out the rows of the padding "
            "by giving only the real tokens (rows=, columns=)."
        )


def _checked(array: np.ndarray, ranks: tuple[int, ...], where: str) -> np.ndarray:
    if array.ndim not in ranks:
        expected = " or ".join("(L, H, T, S)" if where == "layers" and rank == 4 else LETTERS[rank] for rank in ranks)
        better = f" Use {SHOWN_BY[array.ndim]}." if array.ndim in SHOWN_BY else ""
        raise ValueError(f"{where}: expected {expected}. Received the shape {array.shape}.{better}")
    if not array.size:
        raise ValueError(f"{where}: there is nothing to show. Received the shape {array.shape}, which has no elements.")
    return array
