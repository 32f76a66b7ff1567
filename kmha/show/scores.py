"""Scores as they come, from any library and of any layer, to arrays (T, S) with a scale; errors that teach."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

LETTERS = {2: "(T, S)", 3: "(H, T, S)", 4: "(B, H, T, S)", 5: "(L, B, H, T, S)"}
# Which function shows which rank.
SHOWN_BY = {2: "heatmap(scores)", 3: "heads(scores)", 4: "heads(scores, item=…)", 5: "layers(scores, item=…)"}
ROUNDING = 0.01  # what a softmax in bfloat16 may be above 1


class Scale(NamedTuple):
    """The range of the colours, and whether values lie outside of it."""

    lowest: float
    highest: float
    below: bool
    above: bool


def one_head(scores: Any, function: str) -> np.ndarray:
    """(T, S), as it was given; a ValueError says what to do with another rank, for `function`.

    >>> one_head([[0.25, 0.75]], "heatmap").shape
    (1, 2)
    """
    array = _array(scores, function)
    if array.ndim == 3:
        raise ValueError(
            f"{function} shows one head, (T, S). Received {LETTERS[3]} = {array.shape}: choose a head, scores[0], or "
            "their mean, scores.mean(0), or show all of them with heads(scores)."
        )
    if array.ndim == 4:
        raise ValueError(
            f"{function} shows one head, (T, S). Received {LETTERS[4]} = {array.shape}: choose an item and a head, "
            "scores[0, 0], or show all heads of an item with heads(scores, item=0)."
        )
    return _checked(array, (2,), function)


def all_heads(scores: Any, item: int | None, function: str = "heads", layer: str = "") -> np.ndarray:
    """(H, T, S) of (H, T, S), or of one item of (B, H, T, S).

    Args:
        scores: what to take them from.
        item: which of B; `None` where there is no B, or B is 1.
        function: whom the errors speak for.
        layer: the name of the layer, for the errors.

    >>> all_heads(np.zeros((2, 3, 5, 7)), item=1).shape
    (3, 5, 7)
    """
    where = f"{function}, {layer!r}" if layer else function
    array = _checked(_array(scores, where), (3, 4), where)
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
    if isinstance(item, bool) or not isinstance(item, int | np.integer) or not -batch <= item < batch:
        raise ValueError(f"{where}: expected an item from 0 to {batch - 1}, as B is {batch}. Received: {item!r}.")
    return array[item]


def all_layers(scores: Any, item: int | None) -> dict[str, np.ndarray]:
    """(H, T, S) by name, of a dict, a list or an array with a first axis of layers; these are numbered.

    >>> {name: array.shape for name, array in all_layers(np.zeros((2, 3, 5, 7)), item=None).items()}
    {'layer 1': (3, 5, 7), 'layer 2': (3, 5, 7)}
    """
    if isinstance(scores, Mapping):
        named = {str(name): value for name, value in scores.items()}
    elif isinstance(scores, list | tuple) and any(_array(value, "layers").ndim > 2 for value in scores):
        named = _numbered(scores)
    else:
        named = _numbered(_checked(_array(scores, "layers"), (4, 5), "layers"))
    if not named:
        raise ValueError(
            "layers: there are no scores. Expected a dict of name: (B, H, T, S), as a model returns it, a list of "
            f"(H, T, S), or an array (L, H, T, S). Received: {scores!r}."
        )
    return {name: all_heads(value, item, "layers", name) for name, value in named.items()}


def scale(arrays: Iterable[np.ndarray], vmin: float | None, vmax: float | None) -> Scale:
    """One scale for all of `arrays`: from 0 to the greatest value shown, or as asked for.

    Args:
        arrays: numbers of any shape; none empty.
        vmin: the lowest; `None` means 0.
        vmax: the highest; `None` means the greatest value, or 1 if all are 0.

    Raises:
        ValueError: a value is NaN; it is below 0 or above 1 and no `vmin` or `vmax` says that this is meant.

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
                f"expected scores, which lie between 0 and 1. Received values from {least:.4g} to {greatest:.4g}. "
                "Apply the softmax; or, to show logits as they are, say which range the colours cover, for instance "
                f"vmin={np.floor(least):g}, vmax={np.ceil(greatest):g}."
                if np.isfinite(found)
                else f"an infinite value needs an end of the colours: give {name}=…, the value that it is shown as."
            )
    lowest = 0.0 if vmin is None else float(vmin)
    highest = float(vmax) if vmax is not None else greatest if greatest > lowest else lowest + 1
    if not lowest < highest or not np.isfinite([lowest, highest]).all():
        raise ValueError(f"vmin must be below vmax, both finite. Received: vmin={lowest:g}, vmax={highest:g}.")
    return Scale(lowest, highest, least < lowest, greatest > highest)


def _check_numbers(array: np.ndarray) -> None:
    missing = np.argwhere(np.isnan(array))
    if len(missing):
        where = ", ".join(map(str, missing[0]))
        raise ValueError(
            f"{len(missing)} of {array.size} values are NaN, the first at [{where}] of {array.shape}. A softmax over "
            "masked positions alone gives NaN: mask with a large negative number, or leave the rows of the padding out "
            "by giving only the tokens that count (rows=, columns=)."
        )


def _numbered(values: Iterable[Any]) -> dict[str, Any]:
    return {f"layer {number}": value for number, value in enumerate(values, 1)}


def _checked(array: np.ndarray, ranks: tuple[int, ...], where: str) -> np.ndarray:
    if array.ndim not in ranks:
        expected = " or ".join("(L, H, T, S)" if where == "layers" and rank == 4 else LETTERS[rank] for rank in ranks)
        better = f" That is what {SHOWN_BY[array.ndim]} shows." if array.ndim in SHOWN_BY else ""
        raise ValueError(f"{where}: expected {expected}. Received the shape {array.shape}.{better}")
    if not array.size:
        raise ValueError(f"{where}: there is nothing to show. Received the shape {array.shape}, which has no elements.")
    return array


def _array(scores: Any, where: str) -> np.ndarray:
    """Floats, of what np.asarray takes and of torch tensors."""
    if isinstance(scores, Mapping):
        raise ValueError(
            f"{where}: expected an array. Received scores by name ({', '.join(map(str, scores))}): choose one, "
            "scores[name], or show them all with layers(scores)."
        )
    try:
        array = np.asarray(_plain(scores))
        if array.dtype.kind in "cOSUMm":
            raise TypeError(f"its dtype is {array.dtype}")
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # a symbolic tensor raises one or another
        raise ValueError(
            f"{where}: expected real numbers of one shape, such as {LETTERS[2]} or {LETTERS[3]}. Received "
            f"{type(scores).__name__}, which cannot be read so: {error}"
        ) from None


def _plain(scores: Any) -> Any:
    """A torch tensor without its gradient, on the processor, of a dtype that NumPy has; all else as it is."""
    return scores.detach().cpu().float() if hasattr(scores, "detach") else scores
