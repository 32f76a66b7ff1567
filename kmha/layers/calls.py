"""Checks of what a layer is called with; each error says the rule, the shapes received, and how to mend it."""

import inspect
from typing import Any

import keras

from kmha.core.folding import Folding
from kmha.layers import arguments

Shape = tuple[Any, ...]  # of sizes, None where one is not known


def shapes_of(layer: str, query_shape: Any, value_shape: Any, key_shape: Any = None) -> tuple[Shape, Shape, Shape]:
    """The shapes as tuples, in the order query, value, key; that of the value stands in for a missing key's.

    Raises:
        ValueError: they have no position axis, or key and value have different positions, or ranks differ.
    """
    for shape in (query_shape, value_shape):
        if isinstance(shape, str) or not hasattr(shape, "__len__"):
            raise ValueError(f"{layer}: a shape is a tuple of sizes, such as (None, 10, 64). Received: {shape!r}.")
    query, value = tuple(query_shape), tuple(value_shape)
    key = value if key_shape is None else tuple(key_shape)
    received = f"Received: query.shape={query}, value.shape={value}, key.shape={key}."
    if len(value) != len(key) or not all(map(_agree, value[1:-1], key[1:-1])):
        raise ValueError(
            f"{layer}: all dimensions of `value` and `key`, except the last one, must be equal: both are (B, S, I), "
            f"one value for each key. {received} Were query and key exchanged? The order is (query, value, key)."
        )
    if len(query) < 3 or len(query) != len(value):
        raise ValueError(
            f"{layer}: `query` (B, T, I) and `value` (B, S, I) must have the same number of axes, three or more. "
            f"{received} Add a batch axis with `x[None]`, or embed token ids first; a mask goes in `attention_mask=`."
        )
    return query, value, key


def check_widths_known(layer: str, query: Shape, value: Shape, key: Shape) -> None:
    """Raises a ValueError unless all inputs have a known number of features to build kernels for."""
    for name, shape in (("query", query), ("value", value), ("key", key)):
        if shape[-1] is None:
            raise ValueError(
                f"{layer}: the last axis of `{name}` (I, the features) must be known when the layer is built, for its "
                f"kernel has that size. Received: {name}.shape={shape}. Give the Input a full feature size, such as "
                "Input((None, 64))."
            )


def check_batch_axes(layer: str, folding: Folding, query: Shape, value: Shape, key: Shape) -> None:
    """Raises a ValueError unless query, value and key agree in the axes that are not attended over."""
    for name, shape in (("value", value), ("key", key)):
        for axis in folding.batch_axes:
            if not _agree(query[axis], shape[axis]):
                what = "the batch (B)" if axis == 0 else f"axis {axis}, which is not an attention axis"
                raise ValueError(
                    f"{layer}: `query` and `{name}` must have the same size in {what}. Received: query.shape={query}, "
                    f"{name}.shape={shape}, attention_axes={folding.attention_axes}. Repeat the smaller one "
                    f"(`keras.ops.repeat`), or attend over that axis."
                )


def check_widths(layer: str, built: tuple[int, int, int], query: Shape, value: Shape, key: Shape) -> None:
    """Raises a ValueError unless query, value and key have the widths that the kernels were `built` for."""
    for name, shape, width in zip(("query", "value", "key"), (query, value, key), built, strict=True):
        if shape[-1] not in (width, None):
            swapped = ""
            if (value[-1], key[-1]) == (built[2], built[1]):
                swapped = " Key and value look exchanged: the order is (query, value, key)."
            raise ValueError(
                f"{layer}: the {name} kernel was built for inputs with {width} features (I). "
                f"Received: {name}.shape={shape}.{swapped} Use a new layer for inputs of another width."
            )


def check_floating(layer: str, **inputs: Any) -> None:
    """Raises a ValueError if an input is a mask, or holds integers, such as token ids that were not embedded."""
    for name, x in inputs.items():
        dtype = "float" if x is None else keras.backend.standardize_dtype(x.dtype)
        if "float" not in dtype:
            fix = "Embed token ids first (`keras.layers.Embedding`)."
            if dtype == "bool":
                fix = "A mask goes in `attention_mask=`; the order is (query, value, key)."
            raise ValueError(
                f"{layer}: `{name}` must be floating point, of shape (B, positions, I). "
                f"Received: dtype {dtype}, shape {tuple(x.shape)}. {fix}"
            )


def check_ids(layer: str, ids: Any) -> None:
    """Raises a ValueError unless `ids` are token ids (B, T)."""
    dtype = keras.backend.standardize_dtype(ids.dtype) if hasattr(ids, "dtype") else type(ids).__name__
    if "int" not in dtype or len(ids.shape) != 2:
        raise ValueError(
            f"{layer}: token ids must be integers of shape (B, T), one row for each sequence. Received: dtype {dtype}, "
            f'shape {tuple(getattr(ids, "shape", ()))}. A `keras.Input` of ids has `dtype="int32"`; a single sequence '
            "gets its batch axis with `ids[None]`."
        )


def check_flag(layer: str, name: str, value: Any) -> None:
    """Raises a ValueError if `value` is a tensor where True or False belongs."""
    if getattr(value, "shape", ()) != ():
        raise ValueError(
            f"{layer}: `{name}` must be True or False. Received: a tensor of shape {tuple(value.shape)}. "
            "A mask of your own goes in `attention_mask=`."
        )


def check_flash(layer: str, flash: bool | None, return_scores: bool) -> None:
    """Raises a ValueError where a fused kernel was asked for and cannot be had."""
    if flash and return_scores:
        raise ValueError(
            f"{layer}: Returning attention scores is not supported when flash attention is enabled. Please disable "
            "flash attention to access attention scores. (A fused kernel never has all of them in memory.)"
        )


def check_weights(layer: keras.layers.Layer, weights: list[Any]) -> None:
    """Raises a ValueError, with a remedy, if `weights` cannot be set: not built yet, or in the built-in's layout."""
    check_built(layer)
    for variable, value in zip(layer.weights, weights, strict=False):
        heads, *rest = variable.shape if len(variable.shape) == 3 else (None,)
        if rest and tuple(variable.shape) != tuple(value.shape) == (rest[0], heads, rest[1]):
            raise ValueError(
                f"{layer.name}: {variable.path} has the shape (H, I, O) = {tuple(variable.shape)}. "
                f"Received: {tuple(value.shape)}, the built-in layer's (I, H, O). Convert them: "
                "`canonical.write(ours, from_builtin(canonical.read(theirs)))`, with `from kmha.interchange import "
                "canonical` and `from kmha.interchange.keras import from_builtin`."
            )


def check_built(layer: keras.layers.Layer) -> None:
    """Raises a ValueError if the layer has no weights yet."""
    if not layer.built:
        raise ValueError(
            f"{layer.name}: the layer has no weights before it is built, for their shapes are not known yet. Call it "
            "once, or `build(query_shape, value_shape)`, before its weights or projections are read, set or loaded."
        )


class TeachingLayer(keras.layers.Layer):
    """A layer that explains a missing or unknown argument of its call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            known = inspect.signature(self.call).parameters
            unknown = [name for name in kwargs if name not in known]
            # Only of this call: what is called in turn may lack arguments too.
            if unknown and f"'{unknown[0]}'" in str(error):
                raise arguments.explain_unknown(error, known) from error
            if "value" in known and "missing a required argument: 'value'" in str(error):
                raise TypeError(
                    f"{self.name}: {error}. Self-attention is `layer(x, x)`, cross-attention "
                    "`layer(target, enc_output)`; for a list `[query, key, value]` use "
                    "`kmha.layers.addons.MultiHeadAttention`."
                ) from error
            raise


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
