"""Where a layer's mask comes from: checks what was given, and joins it with what the tensors carry."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

# Keras has no public name for these; an attribute of the tensor would not do, since JAX arrays take none.
from keras.src.backend import get_keras_mask, set_keras_mask

from kmha.core.axes import Folding
from kmha.core.masks import combine


def carried(x: Any) -> Any:
    """The mask that Keras has attached to `x`, for instance by `Embedding(mask_zero=True)`; `None` if there is none."""
    return get_keras_mask(x)


def carry(x: Any, mask: Any) -> None:
    """Attaches `mask` to `x` for the layers that follow, as Keras' own layers do."""
    set_keras_mask(x, mask)


def with_carried(mask: Any, x: Any) -> Any:
    """`mask` joined with what `x` carries; Keras itself passes the carried mask where none was given."""
    attached = carried(x)
    if mask is None or attached is None or attached is mask:
        return attached if mask is None else mask
    return combine(_as_boolean(mask, "query_mask"), _as_boolean(attached, "query_mask"))


def joined(
    layer: str,
    folding: Folding,
    query: Any,
    key: Any,
    num_heads: int,
    query_mask: Any = None,
    value_mask: Any = None,
    key_mask: Any = None,
    attention_mask: Any = None,
) -> Any:
    """The one mask that all of them make, for scores without their H axis (with it, if `attention_mask` has it).

    Args:
        layer: the layer's name, for errors.
        folding: which axes are attended over.
        query: (B, T, I), or with more axes.
        key: (B, S, I), or with more axes.
        num_heads: H.
        query_mask: (B, T), the query's axes but the last; False leaves that row nothing to attend to.
        value_mask: (B, S), the key's axes but the last.
        key_mask: (B, S), the key's axes but the last.
        attention_mask: broadcasts to (B, H, T, S) or (B, T, S).

    Returns:
        A boolean mask, or `None` if nothing is masked.

    Raises:
        ValueError: a mask's shape does not fit.
    """
    rows = _padding(layer, "query_mask", query_mask, query.shape, folding, "T")
    columns = combine(
        _padding(layer, "value_mask", value_mask, key.shape, folding, "S"),
        _padding(layer, "key_mask", key_mask, key.shape, folding, "S"),
    )
    padding = combine(rows, columns)
    if attention_mask is None:
        return padding
    check_attention_mask(layer, attention_mask, folding, query.shape, key.shape, num_heads)
    attention_mask = _as_boolean(attention_mask, "attention_mask")
    if padding is None:
        return attention_mask
    # Both at the same rank, so that no axis is broadcast against another's place.
    if len(attention_mask.shape) == folding.scores_rank:
        padding = ops.expand_dims(padding, len(folding.batch_axes))
    while len(attention_mask.shape) < len(padding.shape):
        attention_mask = ops.expand_dims(attention_mask, -2 * len(folding.attention_axes) - 1)
    return ops.logical_and(attention_mask, padding)


def check_attention_mask(
    layer: str, mask: Any, folding: Folding, query_shape: Any, key_shape: Any, num_heads: int
) -> None:
    """Raises a ValueError unless `mask` broadcasts to the scores, with or without H and the axes before it."""
    positions = 2 * len(folding.attention_axes)
    full = folding.scores_shape(query_shape, key_shape, num_heads)
    rank = len(mask.shape)
    if positions <= rank <= folding.scores_rank:
        missing = folding.scores_rank - rank
        batch_axes = len(full) - positions - missing  # as Keras: axes are missing just before the attention axes
        wanted = full[:batch_axes] + full[len(full) - positions :]
        if all(fits(has, wants) for has, wants in zip(mask.shape, wanted, strict=True)):
            return
    hint = "A padding mask (B, S) goes in `value_mask` or `key_mask`, one (B, T) in `query_mask`."
    letters = "(T, S), (B, T, S), (B, 1, T, S) or (B, H, T, S)"
    if not folding.is_plain:
        letters = f"{folding.scores_rank} axes (batch axes, H, query positions, key positions), or that without H"
    raise ValueError(
        f"{layer}: `attention_mask` must broadcast to the scores {full}, as {letters}; None is any size. "
        f"Received: attention_mask.shape={tuple(mask.shape)}, query.shape={tuple(query_shape)}, "
        f"key.shape={tuple(key_shape)}. {hint}"
    )


def fits(has: int | None, wants: int | None) -> bool:
    """Whether an axis of size `has` broadcasts to one of size `wants`, as far as they are known."""
    return has in (1, None) or wants is None or has == wants


def _padding(layer: str, name: str, mask: Any, shape: Any, folding: Folding, letter: str) -> Any:
    """A mask over positions (B, T) or (B, S), as one that broadcasts to the scores without H."""
    if mask is None:
        return None
    axes = tuple(shape[:-1])
    known = tuple(mask.shape)
    if not 2 <= len(known) <= len(axes) or not all(map(fits, known, axes)):
        raise ValueError(
            f"{layer}: `{name}` must be a padding mask (B, {letter}) = {axes}, while a mask of who attends to whom "
            f"goes in `attention_mask=`. Received: {name}.shape={known}. Note the order of the positional arguments: "
            "(query, value, key, query_mask, value_mask, key_mask, attention_mask)."
        )
    mask = _as_boolean(mask, name)
    while len(mask.shape) < len(axes):
        mask = ops.expand_dims(mask, -1)
    mask = ops.transpose(mask, folding.batch_axes + folding.attention_axes)
    for _ in folding.attention_axes:  # room for the other side's positions
        mask = ops.expand_dims(mask, -1 if letter == "T" else len(folding.batch_axes))
    return mask


def _as_boolean(mask: Any, name: str = "mask") -> Any:
    """`mask` as booleans, True where it is not zero; refuses an additive mask, whose polarity is the other."""
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return mask
    values = _values(mask)
    advice = f"True means attend; pass a boolean mask, for instance `{name} == 0` for an additive one."
    if values is None:
        warnings.warn(
            f"`{name}` has dtype {dtype}: whatever is not zero is read as True, so that an additive mask (0 and -1e9) "
            f"would be read the wrong way round. {advice}",
            stacklevel=2,
        )
    elif not np.isin(values, (0, 1)).all():
        wrong = values[~np.isin(values, (0, 1))].flat[0]
        received = f"Received: dtype {dtype} with the value {wrong:g}."
        raise ValueError(f"`{name}` must be boolean, or hold only 0 and 1. {received} {advice}")
    return ops.cast(mask, "bool")


def _values(mask: Any) -> Any:
    """The numbers in `mask`, or `None` while a graph is being traced and there are none yet."""
    try:
        with warnings.catch_warnings(action="ignore"):  # NumPy's, of TensorFlow's, on the way to the error
            return np.asarray(ops.convert_to_numpy(mask), dtype="float64")
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):
        return None
