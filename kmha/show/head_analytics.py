"""`analytics`: what each head attends to, in numbers."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kmha.show import scores as arrays

COLUMNS = "entropy", "confidence", "distance", "previous", "same", "next", "separators"


@dataclasses.dataclass(frozen=True)
class HeadStatistics:
    """Statistics of what a head attends to: means over its queries. A share is NaN if no query has such a key."""

    layer: str
    head: int  # counted from 0, as `kmha.layers.prune_heads` takes it
    queries: int  # number of queries that count
    entropy: float  # of the scores over the keys, in nats: 0 for one key, ln S for all keys alike
    confidence: float  # largest score
    distance: float  # mean of |t - s|, weighted by the scores
    previous: float  # share of the key at position t - 1
    same: float  # share of the key at position t
    next: float  # share of the key at position t + 1
    separators: float  # share of the keys that were given as separators


class Analytics(list[HeadStatistics]):
    """The statistics of all heads, in the order of the layers. `print` shows them as a table."""

    def __str__(self) -> str:
        names = ["layer", "head", "queries", *COLUMNS]
        if all(np.isnan(one.separators) for one in self):
            names.remove("separators")
        headings = ["entropy (nats)" if name == "entropy" else name for name in names]
        rows = [headings, *([_text(getattr(one, name)) for name in names] for one in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
        return "\n".join("  ".join(line).rstrip() for line in lines)


def analytics(
    scores: Mapping[str, Any] | Any, *, query_mask: Any = None, key_mask: Any = None, separators: Any = None
) -> Analytics:
    """Return statistics of each head: entropy, confidence, distance, and the shares of some keys.

    They tell kinds of heads apart, such as those that look at the previous token (Voita et al. 2019, arXiv 1905.09418)
    or at separators (Clark et al. 2019, arXiv 1906.04341). Each is a mean over the queries of all items. Queries that
    attend to nothing, whose scores are all 0, do not count.

    Each mask is one array for all layers, or a dict of arrays by name of the layer. Layers that the dict does not name
    have none.

    Args:
        scores: What `capture` recorded, another dict of scores by name, or an array (B, H, T, S) or (H, T, S).
        query_mask: Mask (B, T) or (T,), False at queries that do not count, such as padding.
        key_mask: Mask (B, S) or (S,), False at padding, so that it is no query's previous or next token.
        separators: Mask (B, S) or (S,), True at keys whose share you want to know, such as np.isin(ids, [1, 2]).

    Returns:
        A list of `HeadStatistics`, which `print` shows as a table.

    Raises:
        ValueError: There are no scores, the rows do not add up to 1, a mask does not fit, or it names another layer.

    >>> print(analytics(np.array([[[1, 0, 0], [1, 0, 0], [0, 0.5, 0.5]], np.eye(3)])))
    layer   head  queries  entropy (nats)  confidence  distance  previous   same   next
    scores     0        3           0.231       0.833     0.500     0.750  0.500  0.000
    scores     1        3           0.000       1.000     0.000     0.000  1.000  0.000
    """
    named = scores if isinstance(scores, Mapping) else {"scores": scores}
    if not named:
        raise ValueError(
            "analytics: there are no scores. Expected what `capture` recorded, or an array (H, T, S). "
            f"Received: {scores}."
        )
    masks = {"query_mask": query_mask, "key_mask": key_mask, "separators": separators}
    for argument, mask in masks.items():
        unknown = sorted({str(name) for name in mask if name not in named}) if isinstance(mask, Mapping) else []
        if unknown:
            raise ValueError(
                f"analytics: `{argument}` has masks for layers without scores: {', '.join(unknown)}. There are scores "
                f"of: {', '.join(map(str, named))}."
            )
    found = Analytics()
    for name, values in named.items():
        own = {key: mask.get(name) if isinstance(mask, Mapping) else mask for key, mask in masks.items()}
        found.extend(_statistics(name, values, own))
    return found


def _statistics(name: str, scores: Any, masks: dict[str, Any]) -> Iterable[HeadStatistics]:
    """Return the statistics of each head of a layer."""
    array = _checked(name, scores)  # (B, H, T, S)
    items, _, length, keys = array.shape
    counted = array.sum(-1) > 0  # (B, H, T)
    if masks["query_mask"] is not None:
        counted &= _mask(name, "query_mask", masks["query_mask"], (items, length))[:, None]
    is_key = np.ones((items, keys), bool)
    if masks["key_mask"] is not None:
        is_key = _mask(name, "key_mask", masks["key_mask"], (items, keys))
    separators = masks["separators"]
    chosen = (
        np.full((items, keys), np.nan) if separators is None else _mask(name, "separators", separators, is_key.shape)
    )
    rows, columns = np.arange(length)[:, None], np.arange(keys)
    means = {
        "entropy": -np.sum(array * np.log(np.where(array > 0, array, 1)), -1),
        "confidence": array.max(-1),
        "distance": np.sum(array * np.abs(rows - columns), -1),
        "separators": np.sum(array * chosen[:, None, None], -1),
    }
    means = {column: _mean(value, counted) for column, value in means.items()}
    for column, offset in (("previous", -1), ("same", 0), ("next", 1)):
        there = (columns == rows + offset) & is_key[:, None]  # (B, T, S)
        means[column] = _mean(np.sum(array * there[:, None], -1), counted & there.any(-1)[:, None])
    for head, number in enumerate(counted.sum((0, 2))):
        values = {column: float(means[column][head]) for column in COLUMNS}
        yield HeadStatistics(str(name), head, int(number), **values)


def _mean(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the mean (H,) of values (B, H, T) over those that count. If none do, return NaN."""
    number = counted.sum((0, 2))
    total = np.sum(values, (0, 2), where=counted)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _checked(name: str, scores: Any) -> np.ndarray:
    where = f"analytics, {name!r}"
    array = arrays.with_items(scores, where).astype("float64")
    sums = array.sum(-1)
    if not (((sums == 0) | (np.abs(sums - 1) <= arrays.ROUNDING)) & (array >= 0).all(-1)).all():
        raise ValueError(
            f"{where}: expected scores after the softmax, which are at least 0, and whose rows add up to 1, or to 0 if "
            f"all keys are masked. Received rows that add up to {sums.min():.4g} to {sums.max():.4g}. Apply the "
            "softmax."
        )
    return array


def _mask(name: str, argument: str, mask: Any, shape: tuple[int, int]) -> np.ndarray:
    try:
        array = np.asarray(mask)
    except ValueError:  # lists of different lengths
        array = np.asarray(mask, object)
    if array.dtype != bool or array.shape not in (shape, shape[1:]):
        raise ValueError(
            f"analytics, {name!r}: expected `{argument}` as a boolean array of shape {shape} or {shape[1:]}. Received: "
            f"dtype {array.dtype}, shape {array.shape}. Give a dict of masks by name if layers differ in T or S."
        )
    return np.broadcast_to(array, shape)


def _text(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
