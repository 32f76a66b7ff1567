"""The tensors of a cached call: inputs, masks and positions in the forms that people use, and what a call returns."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.caches import words

HEADS = 2  # number of heads of inputs (B, H, P, O)

# Layouts of tokens (B, P, I), each with the function that turns an output back.
LAYOUTS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "(B, P, I)": (lambda x: x, lambda y: y),
    "(P, B, I)": (lambda x: np.swapaxes(x, 0, 1), lambda y: np.swapaxes(y, 0, 1)),
    "(B, H, P, O)": (
        lambda x: np.swapaxes(x.reshape(*x.shape[:2], HEADS, -1), 1, 2),
        lambda y: np.swapaxes(y, 1, 2).reshape(y.shape[0], y.shape[2], -1) if y.ndim == 4 else y,
    ),
    "(B, P, H, O)": (
        lambda x: x.reshape(*x.shape[:2], HEADS, -1),
        lambda y: y.reshape(*y.shape[:2], -1),
    ),
}

# Masks made from a boolean matrix (T, S), True where t may attend to s.
MASKS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "(B, T, S)": lambda mask, batch: np.repeat(mask[None], batch, 0),
    "(T, S)": lambda mask, batch: mask,
    "(B, 1, T, S)": lambda mask, batch: np.repeat(mask[None, None], batch, 0),
    "(T, S), True hides": lambda mask, batch: ~mask,
    "(B, T, S), True hides": lambda mask, batch: np.repeat(~mask[None], batch, 0),
    "(T, S), added": lambda mask, batch: np.where(mask, 0.0, -1e9),
    "(B, 1, T, S), added": lambda mask, batch: np.repeat(np.where(mask, 0.0, -1e9)[None, None], batch, 0),
}

# Forms of the positions of a call, from its first position, its length and the batch size.
INDICES: dict[str, Callable[[int, int, int], Any]] = {
    "int": lambda start, length, batch: start,
    "(T,)": lambda start, length, batch: np.arange(start, start + length),
    "(B, T)": lambda start, length, batch: np.repeat(np.arange(start, start + length)[None], batch, 0),
    "()": lambda start, length, batch: np.array(start),
    "(1,)": lambda start, length, batch: np.array([start]),
}
_FIRST = {"inputpos": "(T,)", "cacheposition": "(T,)", "positionids": "(B, T)", "inputpositions": "(B, T)"}


def index_forms(name: str) -> list[str]:
    """Return the forms to try for the positions of a call, the likeliest for this name first.

    >>> index_forms("input_pos")[:2], index_forms("start_pos")[:2]
    (['(T,)', 'int'], ['int', '(T,)'])
    """
    first = _FIRST.get(words.plain(name), "int")
    return [first, *(each for each in INDICES if each != first)]


def causal_rows(start: int, stop: int, columns: int) -> np.ndarray:
    """Return the rows of a causal mask for the positions from `start` to before `stop`."""
    return np.arange(columns)[None, :] <= np.arange(start, stop)[:, None]


def output_of(result: Any) -> Any:
    """Return the output in what a call returned."""
    for name in ("logits", "last_hidden_state"):
        if getattr(result, name, None) is not None:
            return getattr(result, name)
    return frameworks.output_and_scores(result)[0]


def cache_of(result: Any, given: Any, count: int) -> Any:
    """Return the new cache in what a call returned. If it returned none, the call changed the given cache itself.

    Args:
        result: What the call returned.
        given: Cache that it was called with.
        count: Number of arguments for caches: 1, or 2 for keys and values.
    """
    named = result if isinstance(result, Mapping) else vars(result) if hasattr(result, "__dict__") else {}
    for name, value in named.items():
        if words.role(name) == "cache" and value is not None:
            return value
    if isinstance(result, Mapping):
        keys = [value for name, value in result.items() if words.role(name) in ("key_cache", "value_cache")]
        return tuple(keys) if len(keys) == 2 else given
    rest = list(result[1:]) if isinstance(result, tuple | list) else []
    if count == 2:
        pair = next((each for each in rest if isinstance(each, tuple | list) and len(each) == 2), rest[-2:])
        return tuple(pair) if len(pair) == 2 else given
    if len(rest) == 2 and all(_is_array(each) for each in rest) and not _is_array(given):
        return tuple(rest)  # the keys and the values
    if _is_array(given):
        return next((each for each in rest if _is_array(each) and np.ndim(each) == np.ndim(given)), given)
    kept = [each for each in rest if each is not None and not _is_array(each)]
    return kept[-1] if kept else rest[-1] if rest and rest[-1] is not None and given is None else given


def appended(cache: Any, new: Any, start: int, count: int, tensor: Callable[[np.ndarray], Any]) -> Any:
    """Return a cache of `start` positions with `count` new positions after them.

    >>> appended(np.ones((2, 3, 1)), np.zeros((2, 1, 1)), 3, 1, lambda array: array).shape
    (2, 4, 1)

    Raises:
        ValueError: The arrays do not have these numbers of positions in one axis.
    """
    if isinstance(new, tuple | list):
        return tuple(appended(*each, start, count, tensor) for each in zip(cache, new, strict=True))
    shapes = [*zip(np.shape(cache), np.shape(new), strict=True)]
    places = [axis for axis, sizes in enumerate(shapes) if axis and sizes == (start, count)]
    if len(places) != 1 or any(one != other for axis, (one, other) in enumerate(shapes) if axis != places[0]):
        raise ValueError(f"expected one axis of {start} and of {count} new positions. Received: {shapes}.")
    return tensor(np.concatenate([frameworks.to_numpy(each) for each in (cache, new)], axis=places[0]))


def contents(cache: Any) -> list[np.ndarray]:
    """Return copies of the arrays of a cache that is an array or a pair of arrays."""
    parts = cache if isinstance(cache, tuple) else (cache,)
    return [np.array(frameworks.to_numpy(part)) for part in parts if _is_array(part)]


def filled(cache: Any) -> Any:
    """Return a cache that is an array or a pair of arrays, with other numbers."""
    return tuple(map(filled, cache)) if isinstance(cache, tuple) else cache + 1


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape")
