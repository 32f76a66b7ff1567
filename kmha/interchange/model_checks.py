"""What `convert_model` refuses, and why: what it could not convert into a model with the same outputs."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
from keras.src.models.functional import Functional

NAMES = {"keras": "keras.layers.MultiHeadAttention", "kmha": "kmha.MultiHeadAttention"}


def is_graph(layer: Any) -> bool:
    """Whether Keras knows what a model's layers are called with, and so can make it again."""
    return isinstance(layer, Functional | keras.Sequential)


def layers_of(model: Any) -> list[Any]:
    """The layers of a graph and of the graphs inside it, each once."""
    found: dict[int, Any] = {}
    for layer in model.layers:
        found |= {id(inner): inner for inner in (layers_of(layer) if is_graph(layer) else [layer])}
    return [*found.values()]


def check_convertible(model: Any, source: type, to: str) -> None:
    """Raises a ValueError if the model cannot be converted, or if nothing in it is to be."""
    theirs = NAMES["keras" if to == "kmha" else "kmha"]
    if not isinstance(model, keras.Model):
        raise ValueError(f"Expected a Keras model. Received: {model!r}. For a single layer see `kmha.interchange`.")
    if not is_graph(model):
        raise ValueError(f"{_of_its_own(model, source, to)} Only Sequential and functional models can be converted.")
    if not model.built or not model.inputs:
        raise ValueError(f"{model.name}: the model has no weights yet. Call it on data, or build it, first.")
    layers = layers_of(model)
    for layer in layers:
        if type(layer) is source:
            _check_attention(layer, to)
        elif held := [*attributes(layer, source)]:
            raise ValueError(_of_its_own(layer, source, to, held))
    for layer in layers:
        if makes_mask(layer):
            told = f"{layer.name} makes a mask. The built-in attention takes it off its inputs, so that what uses them "
            told += "after it does without, and averages all values where all is hidden; kmha's does neither. Outputs "
            warnings.warn(told + 'differ by that: see "Where kmha differs" in the README.', stacklevel=3)
    if not any(type(layer) is source for layer in layers):
        kinds = sorted({type(layer).__name__ for layer in layers})
        raise ValueError(f"{model.name} has no {theirs} to convert. It has layers of the classes {', '.join(kinds)}.")


def makes_mask(layer: Any) -> bool:
    """Whether a layer's output carries a mask that its inputs did not."""
    inner = layer._flatten_layers() if isinstance(layer, keras.layers.Layer) else []
    return any(isinstance(one, keras.layers.Masking) or getattr(one, "mask_zero", False) for one in inner)


def attributes(layer: Any, source: type, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """Where a layer holds layers of exactly that class: ".blocks[0].attention"."""
    seen |= {id(layer)}
    if is_graph(layer):
        held = {f".get_layer({inner.name!r})": inner for inner in layer.layers}
    else:  # `_layers`, and the backend's `_self_…`, hold what other attributes hold
        own = (name for name in vars(layer) if name != "_layers" and not name.startswith("_self_"))
        held = {f".{name}": vars(layer)[name] for name in own}
    for name, value in held.items():
        yield from (f"{name}{rest}" for rest in _within(value, source, seen))


def _within(value: Any, source: type, seen: frozenset[int]) -> Iterator[str]:
    if isinstance(value, keras.layers.Layer) and id(value) not in seen:
        if type(value) is source:
            yield ""
        yield from attributes(value, source, seen)
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from (f"[{key!r}]{rest}" for rest in _within(item, source, seen))


def _of_its_own(layer: Any, source: type, to: str, held: list[str] | None = None) -> str:
    kind = type(layer).__name__
    held = [*attributes(layer, source)] if held is None else held
    if not held:
        return f"{layer.name}: {kind} is a class of its own, which Keras cannot make again."
    where = ", ".join(f"`{kind}{path}`" for path in held[:6])
    carry = "from_builtin" if to == "kmha" else "to_builtin"
    return (
        f"{layer.name}: the attention layer is an attribute, {where}, of a class whose code cannot be rewritten. "
        f"Write {NAMES[to]} there in place of {source.__module__.split('.')[0]}'s, and carry the weights over with "
        f"`canonical.write(new, {carry}(canonical.read(old)))` of kmha.interchange."
    )


def _check_attention(layer: Any, to: str) -> None:
    for sublayer in layer._flatten_layers(include_self=False):
        if getattr(sublayer, "quantization_mode", None) is not None:
            raise ValueError(f"{layer.name}: it is quantized. Convert the model first, and quantize the new one.")
        if getattr(sublayer, "lora_enabled", False):
            raise ValueError(
                f"{layer.name}: it has LoRA weights. Save the model and load it, which merges them into the kernels, "
                "or convert first and enable LoRA in the new one."
            )
    if not layer.built:
        raise ValueError(f"{layer.name}: the layer has no weights yet. Call the model on data first.")
    for node in layer._inbound_nodes:
        _check_call(layer, node.arguments.args, node.arguments.kwargs, to)


def _check_call(layer: Any, args: Any, kwargs: Any, to: str) -> None:
    """Refuses what the built-in layer computes in a way of its own: README, "Where kmha differs"."""
    differs = f"{layer.name}: the two layers would not give the same numbers:"
    if to == "kmha" and (kwargs.get("query_mask") is not None or any(mask is not None for mask in args[3:4])):
        raise ValueError(
            f"{differs} the built-in one ignores the `query_mask` that it is called with, and kmha's honours it. "
            "Leave it out, or, if it is an attention mask, name it: `attention_mask=`."
        )
    rank, axes = len(args[0].shape) if args else 3, layer.get_config()["attention_axes"]
    hidden = kwargs.get("use_causal_mask") or layer.get_config()["sliding_window"] is not None
    along = tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes or range(1, rank - 1)))
    if hidden and along != (1,):
        raise ValueError(
            f"{differs} over the axes {along} the built-in one lays its causal mask or window along axis 1, and kmha's "
            "along these axes. Give the mask as `attention_mask=` in place of it."
        )
