"""A function around a layer, such as `lambda x: layer(Tensor(x)).data`, as a layer that holds it.

A method of a layer, such as `layer.attend`, is a function around the layer, too.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import METHODS, parameters, positional_only
from kmha.verify.diagnosing.copies import with_copies
from kmha.verify.diagnosing.embedding_candidate import is_embedding
from kmha.verify.diagnosing.layer_adapters import adapter_of, is_layer
from kmha.verify.diagnosing.making_layers import as_layer
from kmha.verify.diagnosing.plain_adapter import is_plain, is_plain_layer, is_weights, may_hold
from kmha.verify.diagnosing.with_parameters import as_class, class_around

MAKES = re.compile("rand|normal|uniform|glorot|xavier")
NO_LAYERS = (dict, list, tuple, int)  # what a function may refer to beside a layer
OWNER = "layer"  # name of the layer whose method is called


def stand_in(function: Any) -> Any | None:
    """Return what is diagnosed instead of a function: a class that makes its weights, or a layer that holds them.

    `None` if the function has no weights.
    """
    return as_class(function) or as_layer(function) or as_object(function)


def as_object(function: Any) -> Any | None:
    """Return a layer that holds the layers that a function refers to, and is called as the function is.

    The layers are those of a framework, objects of plain classes, or dicts and lists of weights. The method that a call
    of a layer runs stands for the layer itself. `None` if the function refers to no layer.
    """
    if is_method(function):
        return _with_owner(function)
    # A decorator may change what its function returns. An object, as a compiler makes one, computes the same.
    plain = function if inspect.isfunction(function) else inspect.unwrap(function)
    held = _held(plain) if inspect.isfunction(plain) and parameters(function) else {}
    if not held:
        return None
    return _holder(function, held, lambda of: with_copies(plain, {id(held[name]): of[name] for name in held}))


def is_method(thing: Any) -> bool:
    """Return whether something is a method of an object. Equinox has a class of its own for them."""
    return hasattr(thing, "__func__") and not isinstance(getattr(thing, "__self__", object), type)


def _with_owner(method: Any) -> Any | None:
    """Return the layer that a method belongs to, or a layer that holds it and is called as the method is."""
    owner, code = method.__self__, method.__func__
    if not (_has_weights(owner) or is_plain_layer(owner)):
        return None
    if method.__name__ in METHODS and method.__name__ == adapter_of(type(owner)).method:
        return owner
    return _holder(method, {OWNER: owner}, lambda of: functools.partial(code, of[OWNER]))


def _holder(
    function: Callable[..., Any], held: Mapping[str, Any], call_with: Callable[[Mapping[str, Any]], Callable[..., Any]]
) -> Any:
    """Return a layer that holds other layers, keyed by name. `call_with` returns the function that calls them."""
    base: Any = next((kind for each in held.values() if (kind := _base(each)) is not object), object)
    taken, inputs = base(), parameters(function)
    places = {name: f"own_{name}" if hasattr(taken, name) else name for name in held}

    def construct(self: Any) -> None:
        base.__init__(self)
        for name, layer in held.items():
            setattr(self, places[name], layer)

    def call(self: Any, **arguments: Any) -> Any:
        first = [arguments.pop(name) for name in positional_only(inputs) if name in arguments]
        return call_with({name: getattr(self, place) for name, place in places.items()})(*first, **arguments)

    method = "__call__" if base is object else adapter_of(base).method
    body = {"__init__": construct, method: call, "__annotations__": dict.fromkeys(places.values(), Any)}
    made = class_around(function, base, {}, inputs, body)
    kinds = [type(layer).__name__ for layer in held.values() if not isinstance(layer, NO_LAYERS)]
    made.__name__ = kinds[0] if len(kinds) == 1 else made.__name__  # names of classes tell what a layer is
    return made()


def is_weightless(holder: Any) -> bool:
    """Return whether no layer that a holder holds will make weights by random numbers when it is called."""
    held = [each for each in vars(holder).values() if not isinstance(each, NO_LAYERS)]
    texts = [frameworks.source_with_helpers(type(each)).lower() for each in held]
    return not is_layer(holder) and all(texts) and not any(MAKES.search(text) for text in texts)


def _base(layer: Any) -> type:
    """Return the base class of the layers of a framework, or `object` for a layer of none."""
    return adapter_of(type(layer)).base if is_layer(layer) else object


def _has_weights(thing: Any) -> bool:
    """Return whether an object is a layer of a framework that has weights, or will have them."""
    return is_layer(thing) and adapter_of(type(thing)).has_weights(thing)


def _held(function: Any) -> dict[str, Any]:
    """Return the layers that a function refers to, itself or through other functions, keyed by name.

    Beside weights, a number or an object of a plain class may state the number of heads, and such an object may call
    itself with the weights.
    """
    around, named = _named(function)
    found = {name: value for name, value in named.items() if _has_weights(value)}
    found |= {name: value for name, value in around.items() if is_plain_object(value)}
    beside = {name: value for name, value in around.items() if may_hold(value) or type(value) is int}
    for layer in found.values():  # a number of heads that a framework's layer states
        inside = getattr(layer, "__dict__", {}).items()
        beside |= {n: each for n, each in inside if type(each) is int and naming.argument(n.strip("_")) == "heads"}
    return beside | found if found else {}


def _named(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function refers to, keyed by name: of the functions around it, and of these and its module.

    What the functions refer to that it calls, from around it or from the same module, is included.
    """
    around: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for one in frameworks.called_by(function):
        outer = frameworks.around(one)
        for name, value in frameworks.named_in(one).items():
            if inspect.isfunction(value):
                continue
            named.setdefault(name, value)
            if name in outer:
                around.setdefault(name, value)
    return around, named


def is_plain_object(value: Any) -> bool:
    """Return whether a value is an object of a plain class that is a layer, or a dict or list of weights."""
    if isinstance(value, dict | list):
        return is_weights(value)
    encodes = may_hold(value) and is_plain(type(value)) and is_embedding(type(value).__name__, {}, {}, ())
    return (encodes or is_plain_layer(value)) and not is_layer(value)
