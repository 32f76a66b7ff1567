"""The layers' masks, which the caller passes, tensors carry, or functions make as in the course.

True always means *attend*. If your course's masks have 1 for hidden positions, pass `mask == 0` to the layers.
"""

import os
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

# Keras has no public names for these functions. JAX arrays take no attributes, so a mask cannot be an attribute of one.
from keras.src.backend import get_keras_mask, set_keras_mask

from kmha.core import masks
from kmha.core.folding import Folding
from kmha.core.tensors import Tensor

VARIABLE = "KMHA_INPUT_MASKS"


def create_padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Return a boolean mask (B, 1, S) for token ids (B, S), False at padding. It broadcasts over the queries.

    Make the encoder's mask and the decoder's `padding_mask` from the *source* ids, because both attend to the source.

    >>> import numpy as np
    >>> print(np.array(create_padding_mask(np.array([[7, 6, 0]]))))
    [[[ True  True False]]]
    """
    return masks.padding(token_ids, pad_id)


def create_look_ahead_mask(sequence_length: int) -> Tensor:
    """Return a boolean mask (T, T) in which position t attends only to positions s ≤ t.

    >>> import numpy as np
    >>> print(np.array(create_look_ahead_mask(3)).astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 1]]
    """
    return masks.causal(sequence_length, sequence_length)


def carried(query: Tensor, *others: Tensor) -> Tensor:
    """Return the mask that Keras has attached to `query`, for instance in `Embedding(mask_zero=True)`, or `None`.

    The built-in layer also takes the masks off its inputs, so that they are lost to the layers that use the same
    tensors later, such as the `Add` of a residual connection. If the environment variable `KMHA_INPUT_MASKS` is
    "remove", this function does the same to `query` and `others`.

    Raises:
        ValueError: The environment variable has another value than "remove" and "keep".
    """
    choice, mask = os.environ.get(VARIABLE, "keep"), get_keras_mask(query)
    if choice not in ("keep", "remove"):
        raise ValueError(f'{VARIABLE} must be "keep" or "remove". Received: "{choice}".')
    if choice == "remove":
        for x in (query, *others):
            set_keras_mask(x, None)
    return mask


def carry(x: Tensor, mask: Tensor) -> None:
    """Attach `mask` to `x` for the layers that follow, as Keras' own layers do."""
    set_keras_mask(x, mask)


def join(
    layer: str,
    folding: Folding,
    query: Tensor,
    key: Tensor,
    num_heads: int,
    query_mask: Tensor = None,
    value_mask: Tensor = None,
    key_mask: Tensor = None,
    attention_mask: Tensor = None,
    carried_mask: Tensor = None,
    name: str = "attention_mask",
) -> tuple[Tensor, Tensor]:
    """Check all masks and join them into one, for scores without the H axis (with H if `attention_mask` has H).

    Args:
        layer: Name of the layer, for errors.
        folding: Folding for the layer's attention axes.
        query: Query (B, T, I), or with more axes.
        key: Key (B, S, I), or with more axes.
        num_heads: Number of heads (H).
        query_mask: Mask (B, T), with all axes of the query but the last. Where it is False, a query has nothing to
            attend to.
        value_mask: Mask (B, S), with all axes of the key but the last.
        key_mask: Mask (B, S), with all axes of the key but the last.
        attention_mask: Mask that broadcasts to (B, H, T, S) or (B, T, S).
        carried_mask: Mask (B, T) that the query carries. (Keras itself passes the masks that value and key carry.)
        name: Name of the layer's `attention_mask`, for errors.

    Returns:
        The boolean mask of the scores, and the query's own mask. Each is `None` if it masks nothing.

    Raises:
        ValueError: If a mask is additive, or its shape does not match the inputs.
    """
    carried_mask = None if carried_mask is query_mask else carried_mask
    rows = masks.combine(
        _padding(layer, "query_mask", query_mask, query, "T"), _padding(layer, "its mask", carried_mask, query, "T")
    )
    columns = masks.combine(
        _padding(layer, "value_mask", value_mask, key, "S"), _padding(layer, "key_mask", key_mask, key, "S")
    )
    padding = masks.combine(folding.align(rows, of_keys=False), folding.align(columns, of_keys=True))
    if attention_mask is not None:
        attention_mask = _tensor(attention_mask)
        _check_attention_mask(layer, attention_mask, folding, query.shape, key.shape, num_heads, name)
        attention_mask = as_boolean(attention_mask, name)
    return folding.combine(attention_mask, padding), rows


def with_query_axis(layer: str, name: str, mask: Tensor, x: Tensor) -> Tensor:
    """Return `mask` for `attention_mask=`. A mask with two axes is a padding mask (B, S), and gets axis T.

    Raises:
        ValueError: If the mask has two axes, and the first does not match the batch size of `x`.
    """
    if padding_or_none(mask) is None:
        return mask
    if mask.shape[0] is not None and x.shape[0] is not None and mask.shape[0] not in (1, x.shape[0]):
        raise ValueError(
            f"{layer}: a `{name}` with two axes is a padding mask (B, S), here with B={x.shape[0]}. Received: "
            f"{name}.shape={tuple(mask.shape)}. A mask (T, S) for all sequences needs a batch axis: pass mask[None]."
        )
    return ops.expand_dims(mask, 1)


def padding_or_none(mask: Tensor) -> Tensor:
    """Return `mask` if it is a padding mask (B, S), which tensors can carry. Otherwise return `None`.

    Keras passes any argument named `mask` to `compute_mask` as if it were a padding mask.
    """
    return mask if mask is not None and len(mask.shape) == 2 else None


def check(
    layer: str,
    folding: Folding,
    query_shape: Any,
    key_shape: Any,
    num_heads: int,
    query_mask: Tensor = None,
    value_mask: Tensor = None,
    key_mask: Tensor = None,
    attention_mask: Tensor = None,
) -> None:
    """Raise a ValueError for a mask of the wrong shape in a symbolic call, where there are no masks to join yet."""
    padding = ("query_mask", query_mask, query_shape, "T"), ("value_mask", value_mask, key_shape, "S")
    for name, mask, shape, letter in (*padding, ("key_mask", key_mask, key_shape, "S")):
        if mask is not None:
            _check_padding(layer, name, mask, shape, letter)
    if attention_mask is not None:
        _check_attention_mask(layer, attention_mask, folding, query_shape, key_shape, num_heads)


def _check_padding(layer: str, name: str, mask: Tensor, shape: Any, letter: str) -> None:
    """Raise a ValueError unless `mask` has the sizes of `shape`, (B, T, I), without its last axis."""
    axes, known = tuple(shape[:-1]), tuple(mask.shape)
    if not 2 <= len(known) <= len(axes) or not all(map(_broadcasts, known, axes)):
        raise ValueError(
            f"{layer}: `{name}` must be a padding mask (B, {letter}) = {axes}; a mask of who attends to whom goes in "
            f"`attention_mask=`. Received: {name}.shape={known}. The order of the positional arguments is (query, "
            "value, key, query_mask, value_mask, key_mask, attention_mask)."
        )


def _check_attention_mask(
    layer: str,
    mask: Tensor,
    folding: Folding,
    query_shape: Any,
    key_shape: Any,
    num_heads: int,
    name: str = "attention_mask",
) -> None:
    """Raise a ValueError unless `mask` broadcasts to the scores, with or without H and the axes before it."""
    attended = 2 * len(folding.attention_axes)
    full = folding.scores_shape(query_shape, key_shape, num_heads)
    rank = len(mask.shape)
    if attended <= rank <= len(full):
        wanted = full[: rank - attended] + full[-attended:]  # as in Keras, a mask lacks axes before the attention axes
        if all(map(_broadcasts, mask.shape, wanted)):
            return
    letters = "(T, S), (B, T, S), (B, 1, T, S) or (B, H, T, S)"
    if not folding.is_plain:
        letters = f"{len(full)} axes (batch axes, H, query positions, key positions), or the same without H"
    hint = ""
    if name == "attention_mask":
        hint = " A padding mask (B, S) goes in `value_mask` or `key_mask`, one (B, T) in `query_mask`."
    raise ValueError(
        f"{layer}: `{name}` must broadcast to the scores {full}, as {letters}; None is any size. "
        f"Received: {name}.shape={tuple(mask.shape)}, query.shape={tuple(query_shape)}, "
        f"key.shape={tuple(key_shape)}.{hint}"
    )


def _padding(layer: str, name: str, mask: Tensor, x: Tensor, letter: str) -> Tensor:
    """Check a padding mask for the positions of `x`. Return it as booleans, with all axes of `x` but the last."""
    if mask is None:
        return None
    mask = _tensor(mask)
    _check_padding(layer, name, mask, x.shape, letter)
    mask = as_boolean(mask, name)
    while len(mask.shape) < len(x.shape) - 1:
        mask = ops.expand_dims(mask, -1)
    return mask


def _broadcasts(size: int | None, target: int | None) -> bool:
    """Tell whether an axis of `size` broadcasts to size `target`. An unknown size always does."""
    return size in (1, None) or target is None or size == target


def _tensor(mask: Tensor) -> Tensor:
    """Return `mask`, converted to a tensor if it is a list of lists."""
    return mask if hasattr(mask, "shape") else ops.convert_to_tensor(mask)


def as_boolean(mask: Tensor, name: str) -> Tensor:
    """Return `mask` as booleans, True where it is not zero. Refuse an additive mask, in which zero means *attend*."""
    mask = _tensor(mask)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return mask
    if "float" in dtype:
        _refuse_additive(mask, name, dtype)
    return ops.cast(mask, "bool")


def _refuse_additive(mask: Tensor, name: str, dtype: str) -> None:
    """Raise a ValueError for numbers other than 0 and 1. In a traced graph, where numbers are unknown, warn instead."""
    advice = f"True means attend; pass a boolean mask, for example `{name} == 0` for an additive one."
    try:
        with warnings.catch_warnings(action="ignore"):  # NumPy warns before TensorFlow raises its error
            values = np.asarray(ops.convert_to_numpy(mask))
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):
        warnings.warn(
            f"`{name}` has dtype {dtype}: everything that is not zero is read as True, so that an additive mask (0 and "
            f"-1e9) would be read the wrong way round. {advice}",
            stacklevel=2,
        )
        return
    other = (values != 0) & (values != 1)
    if other.any():
        received = f"Received: dtype {dtype} with the value {float(values[other].flat[0]):g}."
        raise ValueError(f"`{name}` must be boolean, or hold only 0 and 1. {received} {advice}")
