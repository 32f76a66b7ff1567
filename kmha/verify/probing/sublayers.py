"""The Keras layers within a layer, model or function: their descriptions, paths and calls."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras


def is_keras(thing: Any) -> bool:
    """Return whether `thing` is a Keras layer. Models are layers too."""
    return isinstance(thing, keras.layers.Layer)


def describe(thing: Any) -> str:
    """Return the name of a layer, model or function for a report.

    >>> describe(keras.layers.Dense(3, name="last"))
    "Dense 'last'"
    """
    if is_keras(thing):
        return f"{type(thing).__name__} {thing.name!r}"
    return getattr(thing, "__name__", type(thing).__name__)


def parameters_of(thing: Any) -> dict[str, Any]:
    """Return the parameters of a layer's call, or of a function, keyed by name, or an empty dict if unknown."""
    try:
        return dict(inspect.signature(thing.call if is_keras(thing) else thing).parameters)
    except (TypeError, ValueError):
        return {}


def is_functional(thing: Any) -> bool:
    """Return whether `thing` is a model of `keras.Input`, which passes on any mask that its inputs carry."""
    return isinstance(thing, keras.Sequential) or hasattr(thing, "_inputs_struct")


def layers_of(thing: Any) -> list[Any]:
    """Return the layer itself and all layers within it, or an empty list for a function."""
    return list(thing._flatten_layers()) if is_keras(thing) else []


def paths(thing: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return (path, layer) for `thing`, whose path is "", and for all its sublayers, without repeating a reused layer.

    >>> import kmha
    >>> [path for path, _ in paths(kmha.layers.FeedForward(5, 3))]
    ['', 'dense1', 'dense2']
    """
    if not is_keras(thing):
        return []
    found = {id(thing): (path, thing)}
    for layer in thing._flatten_layers(include_self=False, recursive=False):
        for inner, each in paths(layer, f"{path}/{layer.name}".lstrip("/")):
            found.setdefault(id(each), (inner, each))
    return list(found.values())


def find(thing: Any, layer: Any) -> Any:
    """Return the layer within `thing` of that name or path, such as "encoder/layer1/mha", or the layer itself.

    Raises:
        ValueError: There is no such layer, or more than one.
    """
    known = paths(thing)
    if isinstance(layer, str):
        found = [(path, each) for path, each in known if path and f"/{path}".endswith(f"/{layer}")]
    else:
        found = [(path, each) for path, each in known if each is layer]
    if len(found) == 1:
        return found[0][1]
    name = layer if isinstance(layer, str) else getattr(layer, "name", layer)
    listed = ", ".join(path for path, _ in (found or known) if path) or "none"
    if found:
        raise ValueError(f"layer: {name!r} is the name of {len(found)} layers. Give more of the path: {listed}.")
    raise ValueError(f"layer: {describe(thing)} has no layer {name!r}. Its layers are: {listed}.")


@contextlib.contextmanager
def wrapped(layers: list[Any], wrapper: Callable[[Any, Callable[..., Any], Any, Any], Any]) -> Iterator[None]:
    """Replace each call of `layers` by `wrapper(layer, call, args, kwargs)`, after Keras has filled in masks."""
    before = [vars(layer).get("call") for layer in layers]
    for layer in layers:
        vars(layer)["call"] = _through(wrapper, layer, layer.call)
    try:
        yield
    finally:
        for layer, call in zip(layers, before, strict=True):
            if call is None:
                del vars(layer)["call"]
            else:
                vars(layer)["call"] = call


def _through(wrapper: Callable[..., Any], layer: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: wrapper(layer, call, args, kwargs)
