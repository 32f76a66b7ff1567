"""A function around a layer, such as `lambda x: layer(Tensor(x)).data`, as a layer that holds it.

A method of a layer, such as `layer.attend`, is a function around the layer, too.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import METHODS, Parameters, call_parameters, parameters, positional_only
from kmha.verify.diagnosing.copies import with_copies
from kmha.verify.diagnosing.embedding_candidate import is_embedding
from kmha.verify.diagnosing.layer_adapters import adapter_of, is_layer
from kmha.verify.diagnosing.making_layers import as_layer
from kmha.verify.diagnosing.plain_adapter import (
    is_array,
    is_plain,
    is_plain_layer,
    is_weights,
    may_hold,
    places_of,
)
from kmha.verify.diagnosing.weights import PACKS
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

    The layers are those of a framework, objects of plain classes, or weights in dicts, lists or variables. Arguments
    that `functools.partial` gives, and defaults, count as what the function refers to. The method that a call of a
    layer runs stands for the layer itself. `None` if the function refers to no layer.
    """
    if not callable(function):
        return None
    bound = function if isinstance(function, functools.partial) else functools.partial(function)
    compiled = is_compiled(bound.func)
    if bound is function and not compiled and (is_layer(bound.func) or is_plain_layer(bound.func)):
        method = getattr(bound.func, adapter_of(type(bound.func)).method)
        bound = functools.partial(method, *bound.args, **bound.keywords)
    if is_method(bound.func):
        return _with_owner(bound)
    plain: Any = inspect.unwrap(bound.func) if compiled else bound.func
    held = _held(plain, bound) if inspect.isfunction(plain) else {}
    return _holder(bound, held, lambda memo: with_copies(plain, memo)) if held else None


def is_compiled(thing: Any) -> bool:
    """Return whether an object, as a compiler makes one, computes what a function does.

    A function inside another one does not count: a decorator may change what its function returns.
    """
    return not isinstance(thing, type) and not inspect.isfunction(thing) and inspect.isfunction(inspect.unwrap(thing))


def is_method(thing: Any) -> bool:
    """Return whether something is a method of an object. Equinox has a class of its own for them."""
    return hasattr(thing, "__func__") and not isinstance(getattr(thing, "__self__", object), type)


def _with_owner(bound: Any) -> Any | None:
    """Return the layer that a method belongs to, or a layer that holds it and is called as the method is."""
    method = bound.func
    owner, code = method.__self__, method.__func__
    if not (_has_weights(owner) or is_plain_layer(owner)):
        return None
    is_call = method.__name__ in METHODS and method.__name__ == adapter_of(type(owner)).method
    if is_call and not (bound.args or bound.keywords):
        return owner
    return _holder(bound, {OWNER: owner}, lambda memo: functools.partial(code, memo[id(owner)]))


def _holder(bound: Any, held: Mapping[str, Any], call_with: Callable[[dict[int, Any]], Callable[..., Any]]) -> Any:
    """Return a layer that holds other layers, and is called as a function is.

    Args:
        bound: Function, with arguments that are given beforehand.
        held: Layers, or what holds some, keyed by name.
        call_with: Function that returns the function that calls the layers. Its argument has what the holder's copies
            of them are, keyed by the ids of their originals.
    """
    layers: dict[str, Any] = {}
    for whole, value in held.items():
        for name, long_name, layer in [*_layers_in(value, whole)] or [(whole, whole, value)]:
            layers[long_name if layers.get(name, layer) is not layer else name] = layer
    base: Any = next((kind for each in layers.values() if (kind := _base(each)) is not object), object)
    taken, ids = base(), {id(value) for value in held.values()}
    found = parameters(bound) or _passed_on(layers.values())
    inputs = {name: each for name, each in found.items() if not (name in bound.keywords or id(each.default) in ids)}
    places = {name: f"own_{name}" if hasattr(taken, name) else name for name in layers}

    def construct(self: Any) -> None:
        base.__init__(self)
        for name, layer in layers.items():
            setattr(self, places[name], layer)

    def call(self: Any, **arguments: Any) -> Any:
        own = {id(layer): getattr(self, places[name]) for name, layer in layers.items()}
        memo = {id(value): _with_layers(value, own) for value in held.values()}
        first = [memo.get(id(each), each) for each in bound.args]
        first += [arguments.pop(name) for name in positional_only(inputs) if name in arguments]
        given = {name: memo.get(id(each), each) for name, each in bound.keywords.items()}
        return call_with(memo)(*first, **given, **arguments)

    method = "__call__" if base is object else adapter_of(base).method
    body = {"__init__": construct, method: call, "__annotations__": dict.fromkeys(places.values(), Any)}
    made = class_around(bound.func, base, {}, inputs, body)
    kinds = [type(layer).__name__ for layer in layers.values() if not isinstance(layer, NO_LAYERS)]
    made.__name__ = kinds[0] if len(kinds) == 1 else made.__name__  # names of classes tell what a layer is
    return made()


def _passed_on(layers: Iterable[Any]) -> Parameters:
    """Return the parameters of the layer to which a function such as that of `jax.vmap` passes all that it gets."""
    called = [each for each in layers if is_layer(each)]
    return call_parameters(called[0], adapter_of(type(called[0])).method) if len(called) == 1 else {}


def _layers_in(value: Any, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the layers of a framework in dicts, lists and tuples, each with a short and a long name for an attribute.

    The short name is the key in a dict, which may tell what a layer is, as an attribute of a layer would.
    """
    if isinstance(value, dict | list | tuple):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            own = re.sub(r"\W", "_", f"{name}_{key}")
            for short, long, layer in _layers_in(each, own):
                is_name = short == own and isinstance(key, str) and key.isidentifier()
                yield str(key) if is_name else short, long, layer
    elif _has_weights(value):
        yield name, name, value


def _with_layers(value: Any, own: Mapping[int, Any]) -> Any:
    """Return what `own` has for a layer, keyed by the layer's id, or a dict, list or tuple with that for each layer."""
    if id(value) in own:
        return own[id(value)]
    if isinstance(value, dict):
        return {key: _with_layers(each, own) for key, each in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(_with_layers(each, own) for each in value)
    return value


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


def _held(function: Any, bound: Any) -> dict[str, Any]:
    """Return the layers that a function refers to, itself or through other functions, keyed by name.

    Beside weights, a number or an object of a plain class may state the number of heads, and such an object may call
    itself with the weights. Layers without weights, such as dropout, are held too, because a mode is set for them.
    """
    given = inspect.signature(function).bind_partial(*bound.args, **bound.keywords).arguments
    around, named = _named(function)
    around, named = {**around, **given}, {**named, **given}
    found = {name: value for name, value in named.items() if any(_layers_in(value, name))}
    found |= {name: value for name, value in named.items() if is_plain_object(value) or _is_record(value)}
    arrays = {name: value for name, value in named.items() if _may_be_weights(value)}
    packed = any(naming.weight(name)[0] in PACKS for name in arrays)
    found |= arrays if found or packed or is_weights(arrays) else {}
    beside = {name: value for name, value in around.items() if may_hold(value)}
    beside |= {name: value for name, value in named.items() if is_layer(value) and not isinstance(value, type)}
    beside |= {n: each for n, each in named.items() if type(each) is int and (n in around or _is_heads(n))}
    for layer in found.values():  # a number of heads that a framework's layer states
        inside = getattr(layer, "__dict__", {}).items()
        beside |= {n: each for n, each in inside if type(each) is int and _is_heads(n)}
    return beside | found if found else {}


def _is_record(value: Any) -> bool:
    """Return whether an object only keeps weights under names, as a dataclass does."""
    if isinstance(value, type) or inspect.ismodule(value) or callable(value) or is_layer(value):
        return False
    return may_hold(value) and hasattr(value, "__dict__") and is_weights(value)


def _may_be_weights(value: Any) -> bool:
    """Return whether a value is an array of several numbers, or a dict, list or tuple with arrays.

    A mask has two numbers at most.
    """
    if isinstance(value, dict | list | tuple):
        return next(places_of(value), None) is not None
    return is_array(value) and len(np.unique(frameworks.to_numpy(value))) > 2


def _is_heads(name: str) -> bool:
    return naming.argument(name.strip("_")) == "heads"


def _named(function: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function refers to, keyed by name: of the functions around it, and of these and its module.

    What the functions refer to that it calls, from around it or from the same module, is included.
    """
    around: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for one in frameworks.called_by(function):
        outer = frameworks.around(one)
        for name, value in frameworks.referred_to(one).items():
            if inspect.isfunction(value):
                continue
            named.setdefault(name, value)
            if name in outer:
                around.setdefault(name, value)
    return around, named


def is_plain_object(value: Any) -> bool:
    """Return whether a value is an object of a plain class that is a layer, or a dict or list of weights."""
    if isinstance(value, type) or inspect.ismodule(value):
        return False
    if isinstance(value, dict | list | tuple):
        return is_weights(value)
    encodes = may_hold(value) and is_plain(type(value)) and is_embedding(type(value).__name__, {}, {}, ())
    return (encodes or is_plain_layer(value)) and not is_layer(value)
