"""Where a layer's mask comes from: checks what was given, and joins it with what the tensors carry."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

# Keras has no public name for these; an attribute of the tensor would not do, since JAX arrays take none.
from keras.src.backend import get_keras_mask, set_keras_mask

from kmha.core.folding import Folding
from kmha.core.masks import combine


def carried(x: Any) -> Any:
    """The mask that Keras has attached to `x`, for instance by `Embedding(mask_zero=True)`; `None` if there is none."""
    return get_keras_mask(x)


def carry(x: Any, mask: Any) -> None:
    """Attaches `mask` to `x` for the layers that follow, as Keras' own layers do."""
    set_keras_mask(x, mask)


def positions(layer: str, name: str, mask: Any, x: Any, letter: str) -> Any:
    """A padding mask over the positions of `x`, checked, boolean, and with all axes of `x` but the features.

    Args:
        layer: the layer's name, for errors.
        name: the mask's, for errors.
        mask: (B, T), or with as many axes of `x` as it likes from the left; or `None`.
        x: (B, T, I), or with more axes.
        letter: "T" or "S", what the positions of `x` are called.

    Raises:
        ValueError: the shape does not fit.
    """
    if mask is None:
        return None
    mask = _tensor(mask)
    check_padding(layer, name, mask, x.shape, letter)
    mask = _as_boolean(mask, name)
    while len(mask.shape) < len(x.shape) - 1:
        mask = ops.expand_dims(mask, -1)
    return mask


def of_query(layer: str, mask: Any, query: Any) -> Any:
    """`query_mask` joined with what the query carries, which Keras itself passes where none was given."""
    attached = carried(query)
    attached = None if attached is mask else attached
    return combine(positions(layer, "query_mask", mask, query, "T"), positions(layer, "its mask", attached, query, "T"))


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
    name: str = "attention_mask",
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
        name: what the layer calls its `attention_mask`, for errors.

    Returns:
        A boolean mask, or `None` if nothing is masked.

    Raises:
        ValueError: a mask's shape does not fit.
    """
    rows = positions(layer, "query_mask", query_mask, query, "T")
    columns = combine(
        positions(layer, "value_mask", value_mask, key, "S"), positions(layer, "key_mask", key_mask, key, "S")
    )
    padding = combine(folding.align_rows(rows), folding.align_columns(columns))
    if attention_mask is None:
        return padding
    attention_mask = _tensor(attention_mask)
    check_attention_mask(layer, attention_mask, folding, query.shape, key.shape, num_heads, name)
    attention_mask = _as_boolean(attention_mask, name)
    if padding is None:
        return attention_mask
    # Both at the same rank, so that no axis is broadcast against another's place.
    rank = max(len(attention_mask.shape), len(padding.shape))
    return ops.logical_and(folding.with_missing_axes(attention_mask, rank), folding.with_missing_axes(padding, rank))


def check_padding(layer: str, name: str, mask: Any, shape: Any, letter: str) -> None:
    """Raises a ValueError unless `mask` has the first axes of `shape`, (B, T, I)."""
    axes, known = tuple(shape[:-1]), tuple(mask.shape)
    if not 2 <= len(known) <= len(axes) or not all(map(_broadcasts, known, axes)):
        raise ValueError(
            f"{layer}: `{name}` must be a padding mask (B, {letter}) = {axes}, while a mask of who attends to whom "
            f"goes in `attention_mask=`. Received: {name}.shape={known}. Note the order of the positional arguments: "
            "(query, value, key, query_mask, value_mask, key_mask, attention_mask)."
        )


def check_attention_mask(
    layer: str,
    mask: Any,
    folding: Folding,
    query_shape: Any,
    key_shape: Any,
    num_heads: int,
    name: str = "attention_mask",
) -> None:
    """Raises a ValueError unless `mask` broadcasts to the scores, with or without H and the axes before it."""
    attended = 2 * len(folding.attention_axes)
    full = folding.scores_shape(query_shape, key_shape, num_heads)
    rank = len(mask.shape)
    if attended <= rank <= len(full):
        wanted = full[: rank - attended] + full[-attended:]  # as Keras: axes are missing before the attention axes
        if all(map(_broadcasts, mask.shape, wanted)):
            return
    letters = "(T, S), (B, T, S), (B, 1, T, S) or (B, H, T, S)"
    if not folding.is_plain:
        letters = f"{len(full)} axes (batch axes, H, query positions, key positions), or that without H"
    hint = ""
    if name == "attention_mask":
        hint = " A padding mask (B, S) goes in `value_mask` or `key_mask`, one (B, T) in `query_mask`."
    raise ValueError(
        f"{layer}: `{name}` must broadcast to the scores {full}, as {letters}; None is any size. "
        f"Received: {name}.shape={tuple(mask.shape)}, query.shape={tuple(query_shape)}, "
        f"key.shape={tuple(key_shape)}.{hint}"
    )


def _broadcasts(has: int | None, wants: int | None) -> bool:
    """Whether an axis of size `has` broadcasts to one of size `wants`, as far as they are known."""
    return has in (1, None) or wants is None or has == wants


def _tensor(mask: Any) -> Any:
    """`mask` itself, or a tensor of a list of lists."""
    return mask if hasattr(mask, "shape") else ops.convert_to_tensor(mask)


def _as_boolean(mask: Any, name: str) -> Any:
    """`mask` as booleans, True where it is not zero; refuses an additive mask, whose polarity is the other."""
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return mask
    if "float" in dtype:
        _refuse_additive(mask, name, dtype)
    return ops.cast(mask, "bool")


def _refuse_additive(mask: Any, name: str, dtype: str) -> None:
    """Raises a ValueError for numbers other than 0 and 1; warns where a graph is being traced and has none yet."""
    advice = f"True means attend; pass a boolean mask, for instance `{name} == 0` for an additive one."
    try:
        with warnings.catch_warnings(action="ignore"):  # NumPy's, of TensorFlow's, on the way to the error
            values = np.asarray(ops.convert_to_numpy(mask))
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):
        warnings.warn(
            f"`{name}` has dtype {dtype}: whatever is not zero is read as True, so that an additive mask (0 and -1e9) "
            f"would be read the wrong way round. {advice}",
            stacklevel=2,
        )
        return
    other = (values != 0) & (values != 1)
    if other.any():
        received = f"Received: dtype {dtype} with the value {float(values[other].flat[0]):g}."
        raise ValueError(f"`{name}` must be boolean, or hold only 0 and 1. {received} {advice}")
