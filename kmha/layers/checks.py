"""Checks of the layers' constructor arguments, call arguments and weights.

Every error names the layer and the rule, and says what was received and how to fix it.
"""

import contextlib
import difflib
import inspect
import math
import numbers
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from kmha.core.folding import Folding

Shape = tuple[Any, ...]  # sizes; None means unknown

# The modules that serialize a layer's arguments, keyed by the last word of the arguments' names.
_SERIALIZED = {"initializer": keras.initializers, "regularizer": keras.regularizers, "constraint": keras.constraints}

# Arguments of torch.nn.MultiheadAttention. Each means the opposite of the most similar argument of kmha's layer.
TORCH_NAMES = {
    "key_padding_mask": "True means ignore: pass `key_mask=~key_padding_mask` (True means attend).",
    "attn_mask": "True means ignore: pass `attention_mask=~attn_mask` (True means attend).",
}


def invalid(layer: str, argument: str, expected: str, received: Any, fix: str) -> ValueError:
    """Return the error for an invalid constructor argument, in the form that all constructors use."""
    return ValueError(
        f"{layer} received an invalid value for argument `{argument}`, expected {expected}. "
        f"Received: {argument}={received!r}. {fix}"
    )


def size(layer: str, argument: str, value: Any, letter: str, fix: str) -> int:
    """Return `value` as a positive `int`: the size of the axis that `letter` names."""
    if not _is_size(value):
        raise invalid(layer, argument, f"a positive integer ({letter})", value, fix)
    return int(value)


def rate(layer: str, argument: str, value: Any) -> float:
    """Return `value` if it is a probability."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or math.isnan(value) or not 0 <= value <= 1:
        fix = "It is the probability with which a score is dropped: 0.1 is common, and 0 drops nothing."
        raise invalid(layer, argument, "a number between 0 and 1", value, fix)
    return value


def flag(layer: str, argument: str, value: Any, *, optional: bool = False) -> Any:
    """Return `value` if it is a boolean, or if it is `None` and `optional` is true."""
    if isinstance(value, bool) or (optional and value is None):
        return value
    allowed = "True, False or None" if optional else "True or False"
    raise invalid(layer, argument, allowed, value, "Pass a boolean, not a string or a number.")


def choice(layer: str, argument: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        names = ", ".join(map(repr, allowed[:-1])) + f" or {allowed[-1]!r}"
        raise invalid(layer, argument, names, value, "Choose one of them.")
    return value


def heads(layer: str, value: Any, names: Iterable[str] | None = None) -> dict[str, int]:
    """Return numbers of heads by name of the attention layer, of which there are `names`. `None` means none."""
    if value is not None and not isinstance(value, dict):
        fix = "Leave it out: `kmha.layers.prune_heads` sets it. The argument for all heads is `num_heads`."
        raise invalid(layer, "heads", "a dict of numbers by the names of attention layers, or None", value, fix)
    names = list(value or {} if names is None else names)
    for name in value or {}:
        if name not in names:
            raise invalid(layer, "heads", f"names among {', '.join(names)}", name, "Leave it out.")
    return {name: size(layer, "heads", number, "H", "Leave it out.") for name, number in (value or {}).items()}


def seed(layer: str, value: Any) -> int | None:
    """Return `value` as the seed of the dropout."""
    if value is None or (isinstance(value, numbers.Integral) and not isinstance(value, bool)):
        return None if value is None else int(value)
    raise invalid(
        layer, "seed", "an integer or None", value, "It is the seed of the dropout. Leave it out for a random seed."
    )


def output_shape(layer: str, value: Any) -> tuple[int, ...] | None:
    """Return `value` as the sizes of the output's feature axes. `None` means the query's width."""
    if value is None:
        return None
    sizes = (value,) if isinstance(value, numbers.Integral) else value
    if isinstance(sizes, (tuple, list)) and sizes and all(map(_is_size, sizes)):
        return tuple(int(item) for item in sizes)
    raise ValueError(
        f"Invalid `output_shape` for {layer}: {value!r}. Expected a positive integer (E), or a tuple or list of them, "
        f"without batch and position axes. Received: output_shape={value!r}. Leave it out to get the query's width."
    )


def attention_axes(layer: str, value: Any) -> tuple[int, ...] | None:
    """Return `value` as a tuple of axes. `None` means all of them."""
    if value is None:
        return None
    axes = (value,) if isinstance(value, numbers.Integral) else value
    if isinstance(axes, (tuple, list)) and axes and all(isinstance(axis, numbers.Integral) for axis in axes):
        return tuple(int(axis) for axis in axes)
    fix = "Give the axes of the query to attend over, for example attention_axes=(1, 2). The batch axis is 0."
    raise invalid(layer, "attention_axes", "an integer, or a tuple or list of them", value, fix)


def _is_size(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


def config_of(layer: Any, layer_class: type, prefix: str = "", **others: Any) -> dict[str, Any]:
    """Return the constructor arguments of `layer_class` for `get_config`, from `others` or the layer's attributes."""
    config = {}
    for name in _arguments(layer_class):
        value = others[name] if name in others else getattr(layer, prefix + name)
        module = _SERIALIZED.get(name.rpartition("_")[2])
        config[name] = module.serialize(value) if module else value
    return config


def _arguments(layer_class: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(layer_class.__init__).parameters)[1:-1]


@contextlib.contextmanager
def naming_unknown(layer_class: type, *more: str) -> Iterator[None]:
    """Run Keras' own constructor. If it raises an error about an unknown argument, add the most similar known argument.

    The known arguments are those of the class, and those in `more`.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        names = (*_arguments(layer_class), *more, "name", "dtype", "trainable")
        raise explain_unknown(error, names) from None


def explain_unknown(error: Exception, known: Iterable[str]) -> Exception:
    """Return `error`. If it is about an unknown argument, add the most similar name in `known`."""
    message = str(error)
    if "nrecognized keyword argument" not in message and "unexpected keyword argument" not in message:
        return error
    quoted = message.split("'")[1::2]
    for name in quoted:
        if name in TORCH_NAMES:
            return type(error)(f"{message}. In torch, {TORCH_NAMES[name]}")
        similar = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        similar = ["attention_mask"] if name == "mask" and "attention_mask" in known else similar
        if similar:
            return type(error)(f"{message}. Did you mean `{similar[0]}`?")
    return type(error)(f"{message}. Known arguments: {', '.join(known)}.")


def shapes_of(layer: str, query_shape: Any, value_shape: Any, key_shape: Any = None) -> tuple[Shape, Shape, Shape]:
    """Return the shapes as tuples, in the order query, value, key. A missing key has the shape of the value.

    Raises:
        ValueError: If there is no position axis, or if the numbers of key and value positions, or the ranks, differ.
    """
    for shape in (query_shape, value_shape):
        if isinstance(shape, str) or not hasattr(shape, "__len__"):
            raise ValueError(
                f"{layer}: expected a shape as a tuple of sizes, such as (None, 10, 64). Received: {shape!r}."
            )
    query, value = tuple(query_shape), tuple(value_shape)
    key = value if key_shape is None else tuple(key_shape)
    received = f"Received: query.shape={query}, value.shape={value}, key.shape={key}."
    if len(value) != len(key) or not all(map(_agree, value[1:-1], key[1:-1])):
        raise ValueError(
            f"{layer}: all dimensions of `value` and `key`, except the last one, must be equal: both are (B, S, I), "
            f"one value for each key. {received} Did you swap query and key? The order is (query, value, key)."
        )
    if len(query) < 3 or len(query) != len(value):
        raise ValueError(
            f"{layer}: `query` (B, T, I) and `value` (B, S, I) must have the same number of axes, three or more. "
            f"{received} Add a batch axis with `x[None]`, or embed token ids first. Pass a mask as `attention_mask=`."
        )
    return query, value, key


def check_widths_known(layer: str, query: Shape, value: Shape, key: Shape) -> None:
    """Raise a ValueError unless the number of features of each input is known."""
    for name, shape in (("query", query), ("value", value), ("key", key)):
        if shape[-1] is None:
            raise ValueError(
                f"{layer}: the last axis of `{name}` (I, the features) must be known when the layer is built, because "
                f"its kernel has that size. Received: {name}.shape={shape}. Give the Input a feature size, such as "
                "Input((None, 64))."
            )


def check_batch_axes(layer: str, folding: Folding, query: Shape, value: Shape, key: Shape) -> None:
    """Raise a ValueError unless query, value and key have equal sizes in the axes that are not attended over."""
    for name, shape in (("value", value), ("key", key)):
        for axis in folding.batch_axes:
            if not _agree(query[axis], shape[axis]):
                place = "the batch (B)" if axis == 0 else f"axis {axis}, which is not an attention axis"
                raise ValueError(
                    f"{layer}: `query` and `{name}` must have the same size in {place}. Received: query.shape={query}, "
                    f"{name}.shape={shape}, attention_axes={folding.attention_axes}. Repeat the smaller one "
                    f"(`keras.ops.repeat`), or attend over that axis."
                )


def check_widths(layer: str, built: tuple[int, int, int], query: Shape, value: Shape, key: Shape) -> None:
    """Raise a ValueError unless query, value and key have the widths that the kernels were `built` for."""
    for name, shape, width in zip(("query", "value", "key"), (query, value, key), built, strict=True):
        if shape[-1] not in (width, None):
            swapped = ""
            if (value[-1], key[-1]) == (built[2], built[1]):
                swapped = " Key and value seem to be swapped. The order is (query, value, key)."
            raise ValueError(
                f"{layer}: the {name} kernel was built for inputs with {width} features (I). "
                f"Received: {name}.shape={shape}.{swapped} Use a new layer for inputs of another width."
            )


def check_floating(layer: str, **inputs: Any) -> None:
    """Raise a ValueError if an input is boolean, like a mask, or integer, like token ids."""
    for name, x in inputs.items():
        dtype = "float" if x is None else keras.backend.standardize_dtype(x.dtype)
        if "float" not in dtype:
            fix = "Embed token ids first (`keras.layers.Embedding`)."
            if dtype == "bool":
                fix = "Pass a mask as `attention_mask=`. The order is (query, value, key)."
            raise ValueError(
                f"{layer}: `{name}` must be floating point, of shape (B, positions, I). "
                f"Received: dtype {dtype}, shape {tuple(x.shape)}. {fix}"
            )


def check_ids(layer: str, ids: Any) -> None:
    """Raise a ValueError unless `ids` are token ids (B, T)."""
    dtype = keras.backend.standardize_dtype(ids.dtype) if hasattr(ids, "dtype") else type(ids).__name__
    if "int" not in dtype or len(ids.shape) != 2:
        raise ValueError(
            f"{layer}: token ids must be integers of shape (B, T), one row for each sequence. Received: dtype {dtype}, "
            f'shape {tuple(getattr(ids, "shape", ()))}. Give a `keras.Input` of ids `dtype="int32"`, and a single '
            "sequence a batch axis with `ids[None]`."
        )


def check_flag(layer: str, name: str, value: Any) -> None:
    """Raise a ValueError if `value` is a tensor instead of True or False."""
    if getattr(value, "shape", ()) != ():
        raise ValueError(
            f"{layer}: `{name}` must be True or False. Received: a tensor of shape {tuple(value.shape)}. "
            "Pass a mask of your own as `attention_mask=`."
        )


def check_flash(layer: str, flash: bool | None, return_scores: bool) -> None:
    """Raise a ValueError if the user asks for both a fused kernel and the scores."""
    if flash and return_scores:
        raise ValueError(
            f"{layer}: Returning attention scores is not supported when flash attention is enabled. Please disable "
            "flash attention to access attention scores. (A fused kernel never has all scores in memory.)"
        )


def check_weights(layer: keras.layers.Layer, weights: list[Any]) -> None:
    """Raise a ValueError if `weights` come before `build`, or have the layout of the built-in layer."""
    if len(weights):
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


class NotBuiltError(ValueError, AttributeError):
    """The layer has no weights yet. It is also an AttributeError, so that `hasattr(layer, "query_dense")` is False."""


def check_built(layer: keras.layers.Layer) -> None:
    """Raise a NotBuiltError if the layer has no weights yet."""
    if not layer.built:
        raise NotBuiltError(
            f"{layer.name}: the layer has no weights before it is built, because their shapes depend on the inputs. "
            "Call the layer once, or call `build(query_shape, value_shape)`, before you read, set or load its weights."
        )


def stores_any(store: Any, *names: str) -> bool:
    """Tell whether a file has a place for a sublayer that is saved under one of `names`.

    `store` is what Keras passes to `load_own_variables`: its view of the file at the place of the layer.
    """
    return any(hasattr(store, "has_path") and store.has_path(f"{store._h5_entry_path}/{name}") for name in names)


class CheckedLayer(keras.layers.Layer):
    """A layer that explains wrong call arguments, and whose flags stay Python booleans when it is rematerialized."""

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` as `keras.RematScope` asks for it. Keras would trace all arguments, also `training`."""
        rematerialize = super().rematerialized_call

        def run(*args: Any, **kwargs: Any) -> Any:
            names, values = [*range(len(args)), *kwargs], [*args, *kwargs.values()]
            # TensorFlow cannot recompute functions of booleans.
            traced = [n for n, x in enumerate(values) if hasattr(x, "shape") and "bool" not in str(x.dtype)]

            def call(*tensors: Any) -> Any:
                given = dict(zip(names, values, strict=True))
                given |= {names[number]: tensor for number, tensor in zip(traced, tensors, strict=True)}
                positional = [given.pop(number) for number in range(len(args))]
                return layer_call(*positional, **given)

            return rematerialize(call, *args, **kwargs)(*(values[number] for number in traced))

        return run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Keras takes only tensors as positional arguments. As in the course, `layer(x, True, mask)` works here.
        first = next((n for n, x in enumerate(args) if isinstance(x, (bool, np.bool_)) or (n and x is None)), None)
        if first is not None:
            names = list(inspect.signature(self.call).parameters)[first : len(args)]
            if len(names) == len(args) - first and not kwargs.keys() & names:
                args, kwargs = args[:first], {**kwargs, **dict(zip(names, args[first:], strict=True))}
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            known = inspect.signature(self.call).parameters
            unknown = [name for name in kwargs if name not in known]
            # Only if the error is about this call: functions that it calls may raise the same error.
            if unknown and f"'{unknown[0]}'" in str(error):
                raise explain_unknown(error, known) from error
            if "value" in known and "missing a required argument: 'value'" in str(error):
                raise TypeError(
                    f"{self.name}: {error}. Self-attention is `layer(x, x)`, cross-attention "
                    "`layer(target, enc_output)`. For a list `[query, key, value]`, use "
                    "`kmha.layers.addons.MultiHeadAttention`."
                ) from error
            raise


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
