"""Convert a Keras model with built-in attention layers into the same model with kmha's, or back."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras.src.models.functional import Functional

from kmha.interchange import canonical
from kmha.interchange.keras import from_builtin, to_builtin
from kmha.layers import MultiHeadAttention
from kmha.layers.builtin import BUILTIN
from kmha.patch import replaced

_NAMES = {"keras": "keras.layers.MultiHeadAttention", "kmha": "kmha.MultiHeadAttention"}
_LAYERS = {"keras": BUILTIN, "kmha": MultiHeadAttention}


def convert_model(model: Any, to: str = "kmha") -> Any:
    """Return the same model with kmha's attention layers instead of the built-in ones, or the reverse.

    The new model has the same layers, names, weights, dtypes, `trainable` flags and states of dropout's seeds. It gives
    the same outputs to rounding (1e-5 in float32), in training too. A compiled model is compiled again with the same
    settings, and a layer that is used more than once stays one layer. The given model does not change. The state of the
    optimizer is not copied, because it has the shapes of the old kernels.

    Args:
        model: Built `keras.Sequential` or functional `keras.Model`, or a subclass that is made from its config, such as
            a backbone of KerasHub. It may contain other such models. A layer that makes attention layers itself, such
            as `keras_hub.layers.TransformerEncoder`, is made again from its config, within `kmha.patch_keras`. A
            wrapper, such as `TimeDistributed`, is made again around the converted layer or model.
            `GroupedQueryAttention`, subclasses of the two attention layers and all other layers stay as they are.
        to: "kmha" for `kmha.MultiHeadAttention`, "keras" for `keras.layers.MultiHeadAttention`.

    Raises:
        ValueError: There is nothing to convert; a layer or model that makes attention layers itself does not make the
            other ones from its config; a layer is quantized or has LoRA weights; or the two layers are known to give
            different numbers for a call (README, "Where kmha differs").

    Warns:
        UserWarning: A layer makes a mask, as `Embedding(mask_zero=True)` does. The built-in attention removes the mask
            from its inputs, so later layers do not see it, and averages all values at hidden positions. kmha's layer
            does neither, so the outputs differ there.

    >>> import keras, numpy as np
    >>> x = keras.Input((7, 6))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(3, 5, name="attention")(x, x))
    >>> ours = convert_model(model)
    >>> tuple(ours.get_layer("attention").query_dense.kernel.shape)
    (3, 6, 5)
    >>> inputs = np.random.default_rng(0).normal(size=(2, 7, 6)).astype("float32")
    >>> bool(np.allclose(ours(inputs), model(inputs), atol=1e-5))
    True
    """
    if to not in _LAYERS:
        raise ValueError(f"`to` must be 'kmha' or 'keras'. Received: {to!r}.")
    [source] = (layer for name, layer in _LAYERS.items() if name != to)
    check_convertible(model, source, to)
    pairs: dict[int, tuple[Any, Any]] = {}  # keyed by identity, so that a shared layer is cloned only once

    def clone(layer: Any) -> Any:
        if id(layer) not in pairs:
            made = _clone_graph(layer, clone) if is_plain_graph(layer) else _clone_layer(layer, source, _LAYERS[to])
            pairs[id(layer)] = layer, made
        return pairs[id(layer)][1]

    with replaced(by_any_name=True) if to == "kmha" else contextlib.nullcontext():
        converted = clone(model)
    for layer, made in pairs.values():
        for inner, new in [] if is_plain_graph(layer) else _counterparts(layer, made, source, to):
            if type(inner) is source:
                _copy_attention(inner, new, from_builtin if to == "kmha" else to_builtin)
            else:
                _copy_state(inner, new)
    _copy_trainable([*pairs.values()], source, to)
    for layer, made in pairs.values():
        if is_graph(layer):
            _compile_like(layer, made)
    return converted


def _clone_graph(model: Any, clone: Callable[[Any], Any]) -> Any:
    """Clone a model with the layers that `clone` returns. The new model is compiled later, when its weights are set."""
    compiled, model.compiled = model.compiled, False
    try:
        made = keras.models.clone_model(model, _inputs_like(model), clone)
    finally:
        model.compiled = compiled
    if type(made) is not type(model):
        raise ValueError(
            f"{model.name}: Keras cannot rebuild the class {type(model).__name__}, only a {type(made).__name__}. "
            "Convert a `keras.Model` with its inputs and outputs: `keras.Model(model.inputs, model.outputs)`."
        )
    if not made.built or not made.inputs:  # a Sequential model without an Input
        made.build(model.input_shape)
    return made


def _inputs_like(model: Any) -> Any:
    """Return new inputs with the names of the model's inputs. Keras itself would rename them."""
    if isinstance(model, keras.Sequential):
        return None
    layers = keras.tree.map_structure(lambda x: x._keras_history.operation, model.input)
    return keras.tree.map_structure(lambda layer: type(layer).from_config(layer.get_config()).output, layers)


def _clone_layer(layer: Any, source: Any, target: Any) -> Any:
    if type(layer) is source:
        return target.from_config({**layer.get_config(), "flash_attention": _flash(layer, target)})
    if isinstance(layer, keras.layers.Lambda):  # Keras refuses to run the code in its config
        settings = {"output_shape": layer._output_shape, "mask": layer.mask, "arguments": layer.arguments}
        return keras.layers.Lambda(layer.function, **settings, name=layer.name, dtype=layer.dtype_policy)
    try:
        return type(layer).from_config(_rewritten(layer.get_config(), layer, source, target))
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(
            f"{layer.name}: Keras cannot rebuild the {type(layer).__name__} from its config. Give its class a "
            f"`get_config` with all arguments of its constructor. Keras says: {str(error).strip().splitlines()[0]}"
        ) from error


def _rewritten(config: Any, layer: Any, source: Any, target: Any) -> Any:
    """Return the config of a layer with the other class for each attention layer that it describes.

    A wrapper such as `TimeDistributed` has the whole config of the layer or model that it wraps.
    """
    inside = layer._flatten_layers() if isinstance(layer, keras.layers.Layer) else []
    flash = {inner.name: _flash(inner, target) for inner in inside if type(inner) is source}
    if not flash:
        return config
    old, new = (_described(keras.saving.serialize_keras_object(kind(1, 1))) for kind in (source, target))

    def rewrite(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [rewrite(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _described(value) == old:
            return {
                **value,
                **new,
                "config": {**value["config"], "flash_attention": flash.get(value["config"]["name"])},
            }
        return {key: rewrite(item) for key, item in value.items()}

    return rewrite(config)


def _described(saved: dict[str, Any]) -> dict[str, Any]:
    """Return what a serialized object says of its class."""
    return {key: saved.get(key) for key in ("module", "class_name", "registered_name")}


def _flash(layer: Any, target: type) -> bool | None:
    """Return the layer's `flash_attention` argument, which is missing from the built-in layer's config."""
    requested = layer._flash_attention or None
    if requested and target is not MultiHeadAttention and keras.backend.backend() == "tensorflow":
        message = "the built-in layer has no flash_attention=True on TensorFlow, so it computes all scores."
        warnings.warn(f"{layer.name}: {message}", stacklevel=6)
        return None
    return requested


def _copy_attention(layer: Any, made: Any, convert: Callable[[Any], Any]) -> None:
    canonical.write(made, convert(canonical.read(layer)))
    if hasattr(layer._dropout_layer, "seed_generator"):
        state = np.asarray(layer._dropout_layer.seed_generator.state)
        made._dropout_layer.seed_generator.state.assign(state.copy())


def _copy_state(layer: Any, made: Any) -> None:
    """Copy what Keras would save of one layer (weights, values computed from them, vocabulary), and its seeds."""
    state: dict[str, Any] = {}
    if not is_graph(layer):
        layer.save_own_variables(state)
    if state:  # copied, because JAX deletes arrays that it has used, also where two variables share one
        made.load_own_variables({name: np.asarray(value).copy() for name, value in state.items()})
    if hasattr(layer, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            made.load_assets(folder)
    for variable, new in zip(_own_variables(layer), _own_variables(made), strict=True):
        new.assign(np.asarray(variable).copy())


def _copy_trainable(pairs: list[tuple[Any, Any]], source: Any, to: str) -> None:
    """Copy the `trainable` flags from the outside in, because setting a flag also sets it for all layers inside."""
    models = [pair for pair in pairs if is_plain_graph(pair[0])]
    sizes = {id(layer): len(layer._flatten_layers()) for layer, _ in models}
    for layer, made in sorted(models, key=lambda pair: -sizes[id(pair[0])]):
        made.trainable = layer.trainable
    for layer, made in pairs:
        for inner, new in [] if is_plain_graph(layer) else _counterparts(layer, made, source, to):
            of_attention = type(inner) is source
            for one, other in ((inner, new), *(_projections(inner, new) if of_attention else ())):
                other.trainable = one.trainable
            for variable, other in _weights(inner, new) if of_attention else ():
                other.trainable = variable.trainable
            for variable, other in () if of_attention else zip(_own_variables(inner), _own_variables(new), strict=True):
                other.trainable = variable.trainable


def _counterparts(layer: Any, made: Any, source: Any, to: str, outer: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yield a layer and the layers inside it, each with its counterpart. The inside of attention is left out.

    An operation, such as `x + y`, has no counterpart, because it has no state.
    """
    if not isinstance(layer, keras.layers.Layer):
        return
    outer = layer if outer is None else outer
    wanted = _LAYERS[to] if type(layer) is source else type(layer)
    inside, new = ([] if type(layer) is source else _held(one) for one in (layer, made))
    if type(made) is not wanted or len(inside) != len(new):
        raise ValueError(_cannot_rewrite(outer, source, to))
    yield layer, made
    for pair in zip(inside, new, strict=True):
        yield from _counterparts(*pair, source, to, outer)


def _held(layer: Any) -> list[Any]:
    """Return the layers directly inside a layer."""
    return list(layer._flatten_layers(include_self=False, recursive=False))


def _own_variables(layer: Any) -> list[Any]:
    """Return the variables of a layer that belong to no layer inside it."""
    inside = {id(variable) for inner in _held(layer) for variable in inner.variables}
    return [variable for variable in layer.variables if id(variable) not in inside]


def _projections(layer: Any, made: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the sublayers of attention that have weights, with their counterparts."""
    by_name = {inner.name: inner for inner in made._layers if inner.weights}
    yield from ((inner, by_name[inner.name]) for inner in layer._layers if inner.weights)


def _weights(layer: Any, made: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the weights of attention with their counterparts."""
    new = canonical.variables(made)
    yield from ((variable, new[name]) for name, variable in canonical.variables(layer).items())


def _compile_like(model: Any, made: Any) -> None:
    """Compile the new model with the same settings, and with a new optimizer and new metrics."""
    if not model.compiled:
        return
    if type(model).compile is not keras.Model.compile:
        warnings.warn(f"{model.name}: its class overrides `compile`. Compile the new model yourself.", stacklevel=3)
        return
    stateful = keras.optimizers.Optimizer | keras.metrics.Metric

    def fresh(value: Any) -> Any:
        return type(value).from_config(value.get_config()) if isinstance(value, stateful) else value

    made.compile(**keras.tree.map_structure(fresh, model._compile_config.config))


def is_graph(layer: Any) -> bool:
    """Return True for a graph of layers, which Keras can rebuild."""
    return isinstance(layer, Functional | keras.Sequential)


def is_plain_graph(layer: Any) -> bool:
    """Return True for a graph without a constructor of its own."""
    return is_graph(layer) and not has_constructor(layer)


def has_constructor(model: Any) -> bool:
    """Return True for a graph that its class makes, as a backbone of KerasHub is."""
    return type(model).__init__ not in (Functional.__init__, keras.Sequential.__init__, keras.Model.__init__)


def layers_of(model: Any) -> list[Any]:
    """Return the layers of a graph and of the graphs inside it, without duplicates."""
    found: dict[int, Any] = {}
    for layer in model.layers:
        found |= {id(inner): inner for inner in (layers_of(layer) if is_graph(layer) else [layer])}
    return [*found.values()]


def check_convertible(model: Any, source: type, to: str) -> None:
    """Raise a ValueError if the model cannot be converted, or has no layer to convert."""
    theirs = _NAMES["keras" if to == "kmha" else "kmha"]
    if not isinstance(model, keras.Model):
        raise ValueError(f"Expected a Keras model. Received: {model!r}. For a single layer, see `kmha.interchange`.")
    if not is_graph(model):
        why = "Only Sequential and functional models can be converted."
        raise ValueError(f"{_cannot_rewrite(model, source, to)} {why}")
    if not model.built or not model.inputs:
        raise ValueError(f"{model.name}: the model has no weights yet. Call it on data, or build it, first.")
    layers = layers_of(model)
    for layer in layers:
        if type(layer) is source:
            _check_attention(layer, to)
    for layer in layers:
        if makes_mask(layer):
            warnings.warn(
                f"{layer.name} makes a mask. The built-in attention removes it from its inputs, so later layers do not "
                "see it, and averages all values where everything is hidden. kmha's layer does neither, so the outputs "
                'differ there: see "Where kmha differs" in the README.',
                stacklevel=3,
            )
    if not any(type(layer) is source or any(attributes(layer, source)) for layer in layers):
        kinds = sorted({type(layer).__name__ for layer in layers})
        raise ValueError(f"{model.name} has no {theirs} to convert. It has layers of the classes {', '.join(kinds)}.")


def makes_mask(layer: Any) -> bool:
    """Return True if a layer adds a mask to its output."""
    inner = layer._flatten_layers() if isinstance(layer, keras.layers.Layer) else []
    return any(isinstance(one, keras.layers.Masking) or getattr(one, "mask_zero", False) for one in inner)


def attributes(layer: Any, source: type, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """Yield the names of attributes that hold layers of exactly this class: ".blocks[0].attention"."""
    seen |= {id(layer)}
    if is_graph(layer):
        held = {f".get_layer({inner.name!r})": inner for inner in layer.layers}
    else:  # `_layers`, and a list of TensorFlow, repeat other attributes; torch keeps layers in `_modules`
        own = {**vars(layer), **getattr(layer, "_modules", {})}
        repeated = ("_layers", "_modules", "_self_unconditional_checkpoint_dependencies")
        held = {f".{name}": value for name, value in own.items() if name not in repeated}
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


def _cannot_rewrite(layer: Any, source: type, to: str, held: list[str] | None = None) -> str:
    kind = type(layer).__name__
    held = [*attributes(layer, source)] if held is None else held
    if not held:
        return f"{layer.name}: Keras cannot rebuild a model of the class {kind}."
    where = ", ".join(f"`{kind}{path}`" for path in held[:6])
    function = "from_builtin" if to == "kmha" else "to_builtin"
    return (
        f"{layer.name}: the attention layer is an attribute, {where}, and kmha cannot rewrite the code of that class. "
        f"Write {_NAMES[to]} there instead of {source.__module__.split('.')[0]}'s layer, and convert the weights with "
        f"`canonical.write(new, {function}(canonical.read(old)))`, with `from kmha.interchange import canonical` and "
        f"`from kmha.interchange.keras import {function}`."
    )


def _check_attention(layer: Any, to: str) -> None:
    for sublayer in layer._flatten_layers(include_self=False):
        if getattr(sublayer, "quantization_mode", None) is not None:
            raise ValueError(
                f"{layer.name}: the layer is quantized. Convert the model first, then quantize the new one."
            )
        if getattr(sublayer, "lora_enabled", False):
            raise ValueError(
                f"{layer.name}: the layer has LoRA weights. Save and load the model, which merges them into the "
                "kernels, or convert first and enable LoRA in the new model."
            )
    if not layer.built:
        raise ValueError(f"{layer.name}: the layer has no weights yet. Call the model on data first.")
    for node in layer._inbound_nodes:
        _check_call(layer, node.arguments.args, node.arguments.kwargs, to)


def _check_call(layer: Any, args: Any, kwargs: Any, to: str) -> None:
    """Raise a ValueError for a call in which the two layers differ (README, "Where kmha differs")."""
    differs = f"{layer.name}: the two layers would not give the same numbers:"
    if to == "kmha" and (kwargs.get("query_mask") is not None or any(mask is not None for mask in args[3:4])):
        raise ValueError(
            f"{differs} the built-in layer ignores the `query_mask` of a call, and kmha's uses it. Leave it out. If it "
            "is an attention mask, name it: `attention_mask=`."
        )
    rank, axes = len(args[0].shape) if args else 3, layer.get_config()["attention_axes"]
    hidden = kwargs.get("use_causal_mask") or layer.get_config()["sliding_window"] is not None
    along = tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes or range(1, rank - 1)))
    if hidden and along != (1,):
        raise ValueError(
            f"{differs} with attention over the axes {along}, the built-in layer lays its causal mask or window along "
            "axis 1, and kmha's lays it along these axes. Give the mask as `attention_mask=` instead."
        )
