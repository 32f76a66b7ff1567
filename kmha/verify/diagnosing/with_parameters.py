"""A function that takes its weights as one argument, as a class that holds them.

`attention(params, x, mask=None)` says nothing of what `params` is. Code written like this has a function beside it that
makes the weights, such as `init_params(rng, d_model, n_heads)`. kmha finds that function by what it returns. Without
one, kmha makes a dict of the weights that the code reads, such as `params["W_q"]`, if their names tell what they are.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming, reproduction, weights_in_dicts
from kmha.verify.diagnosing.calling import EMPTY, Parameters, parameters, random_names
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.plain_adapter import PlainAdapter, places_of
from kmha.verify.diagnosing.weights import Slot, Variable

INPUTS = ("query", "key", "value", "self", "memory", "ids", "weights")
# Roles of a function's arguments that are settings, not inputs.
SETTINGS = ("heads", "kv_heads", "size", "value_size", "width", "inputs", "output", "inner", "epsilon")
SIZES = (24, 40, 56, 72, 88)  # different sizes to try, all multiples of the number of heads
MAKES = re.compile("param|weight|^_?init|_init$")  # names of functions that make weights
MULTI_QUERY = re.compile(r"multi[-_ ]?query|\bmqa\b|_mqa|mqa_")  # Shazeer 2019: all heads share one key and value
STATES = re.compile("mask|cache|past|state")  # in names of dicts that hold no weights
LAYERS = ("layers", "blocks")  # names of arguments for the weights of several layers
LIMIT = 8  # maximum number of functions to try
SPREAD, *SPARE = "weights", "parameters", "dicts"  # names of the dict that kmha makes for several arguments


class WithParameters:
    """The base class of functions with their weights. `as_class` makes the subclasses.

    Attributes:
        function: Function that is diagnosed.
        maker: Function that makes its weights.
        place: Name of the function's argument that takes the weights.
        roles: Names of the constructor's arguments, keyed by role, where the names themselves do not tell.
        is_dict: Whether kmha makes the weights itself, as a dict.
        spreads: Whether the keys of this dict are arguments of the function.
    """

    function: Callable[..., Any]
    maker: Callable[..., Any]
    place: str
    roles: Mapping[str, str]
    is_dict: bool
    spreads: bool


class FunctionAdapter(PlainAdapter):
    """Adapter of the classes that `as_class` makes."""

    def __init__(self, layer_class: type[WithParameters]) -> None:
        super().__init__(layer_class)
        self.layer_class = layer_class

    def variables(self, layer: Any) -> list[Variable]:
        """Return the weights whose names the code of the function mentions, or all if it mentions none."""
        found = super().variables(layer)
        if self.layer_class.is_dict:
            return found
        texts = _texts_of_function(self.layer_class.function)
        used = [each for each in found if texts.intersection(each.path.split(".")[1:])]
        return _of_one_layer(used or found)

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make the weights, and a function that uses them."""
        own, tree = self.layer_class, ast.parse(made, mode="eval").body
        values = {each.arg: ast.unparse(each.value) for each in tree.keywords}  # type: ignore[attr-defined]
        maker, name = own.maker, made.partition("(")[0]
        passed = [f"{n}={values[n]}" for n in parameters(maker) if n in values]
        passed += [f"{n}={_SOURCES[self.framework == 'jax']}" for n in self._random(maker)]
        settings = [f"{n}={values[n]}" for n in parameters(own.function) if n in values]
        settings += [f"{n}={values[m]}" for n, m in _shared(own.function, maker).items() if m in values]
        weight = f"**{own.place}" if own.spreads else f"{own.place}={own.place}"
        in_layers = [slot.variable.part_of == slot.variable.path for slot in slots]
        arrays = [f"{array}[None]" if one else array for array, one in zip(weights, in_layers, strict=True)]
        lines = self.statements("layer", slots, arrays)
        made_weights = f"{maker.__name__}({', '.join(passed)})"
        if own.is_dict:
            made_weights = repr(_dicts_in(maker(**dict.fromkeys(parameters(maker), 1))))
        imports = [] if own.is_dict else reproduction.imports(maker, "numpy", "", maker.__name__)[1:]
        return [
            "import functools",
            *imports,
            f"{own.place} = {made_weights}",
            *(line.replace(f"layer.{own.place}", own.place) for line in lines),
            f"layer = functools.partial({', '.join([name, weight, *settings])})",
        ]


def _dicts_in(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return dicts in dicts, without the arrays in them."""
    return {name: _dicts_in(each) for name, each in weights.items() if isinstance(each, dict)}


def _of_one_layer(found: list[Variable]) -> list[Variable]:
    """Return the weights without their first axis if it is that of the layers, of which there is one."""
    stacked = len(found) > 1 and all(len(each.shape) > 1 and each.shape[0] == 1 for each in found)
    return [each.item(each.path, 0) for each in found] if stacked else found


_SOURCES = ("np.random.default_rng(0)", "jax.random.PRNGKey(0)")


def as_class(function: Any) -> type[WithParameters] | None:
    """Return a class that holds the weights of a function, or `None` if no argument takes them.

    Args:
        function: Function of arrays, one of whose arguments takes all weights.
    """
    if not inspect.isfunction(inspect.unwrap(function)):
        return None
    place = _place(parameters(function))
    if place is not None:
        texts = _texts_of_function(function)
        for maker in _makers(function):
            roles = _roles_of_maker(maker, texts)
            if roles is not None:
                return _made_class(function, maker, place, roles)
    return _of_dicts(function)


def _texts_of_function(function: Any) -> set[str]:
    return set().union(*(frameworks.texts_of(each.__code__) for each in frameworks.with_helpers([function])))


def _place(found: Parameters) -> str | None:
    """Return the argument that may take the weights: by its name, or because no role explains it."""
    roles = naming.roles_of(found)
    if "weights" in roles:
        return roles["weights"]
    inputs = {"query", "self"} & roles.keys()
    required = [n for n, each in found.items() if each.default is EMPTY]
    # A function of an input that needs `layers` needs more than their number.
    unknown = [n for n in required if naming.argument(n) is None or naming.plain(n) in LAYERS]
    return unknown[0] if inputs and len(unknown) == 1 and unknown[0] not in random_names(found) else None


def _makers(function: Any) -> Sequence[Callable[..., Any]]:
    """Return the functions beside `function` that take sizes alone."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    others = [each for each in scope.values() if inspect.isfunction(each) and each.__module__ == function.__module__]
    return [each for each in others if each is not function and _may_make(each)][:LIMIT]


def _of_dicts(function: Callable[..., Any]) -> type[WithParameters] | None:
    """Return a class that makes the dicts of weights that the code reads, if the names tell what all of them are."""
    required = {n for n, each in parameters(function).items() if each.default is EMPTY and not STATES.search(n)}
    required = {n for n in required if naming.argument(n) in (None, "weights")}
    trees = {n: tree for n, tree in weights_in_dicts.trees_of(function).items() if n in required}
    trees |= {n: {} for n in required if trees and n not in trees and naming.weight(n)[0]}
    found = [*weights_in_dicts.paths(trees)]
    sizes = weights_in_dicts.shapes(found, 2, 3)
    if sizes is None:
        return None
    several = len(trees) > 1
    place = next(name for name in (SPREAD, *SPARE) if name not in trees) if several else next(iter(trees))

    def make(d_model: int, dff: int, groups: int) -> dict[str, Any]:
        weights = weights_in_dicts.made(weights_in_dicts.shapes(found, d_model, dff, groups) or {})
        return weights if several else weights[place]

    def make_block(d_model: int, dff: int) -> dict[str, Any]:
        return make(d_model, dff, 1)

    def make_attention(d_model: int) -> dict[str, Any]:
        return make(d_model, 0, 1)

    def make_multi_query(d_model: int, num_heads: int) -> dict[str, Any]:
        return make(d_model, 0, num_heads)

    is_block = any(3 in shape for shape in sizes.values())  # then there is a feed-forward network
    says = f"{function.__name__} {function.__doc__}".lower()
    chosen = make_block if is_block else make_multi_query if MULTI_QUERY.search(says) else make_attention
    return _made_class(function, chosen, place, {}, trees)


def _may_make(function: Callable[..., Any]) -> bool:
    """Return whether a function takes sizes alone. One that takes nothing must have a name that says what it makes."""
    found = parameters(function)
    rest = {n: each for n, each in found.items() if n not in random_names(found)}
    required = [n for n, each in rest.items() if each.default is EMPTY]
    if not required and not MAKES.search(function.__name__.lower()):
        return False
    return not any(naming.argument(n) in INPUTS for n in required)


def _roles_of_maker(maker: Callable[..., Any], texts: set[str]) -> dict[str, str] | None:
    """Return the names of the sizes that a function takes, keyed by role, or `None` if it does not make the weights.

    The sizes that names do not tell are tried: the width is the one that most axes have.
    """
    found = parameters(maker)
    random = random_names(found)
    names = [n for n, each in found.items() if each.default is EMPTY and n not in random]
    names = names or [n for n, each in found.items() if type(each.default) is int and n not in random]
    known = {role: n for role, n in naming.roles_of(names).items() if role in (*SETTINGS, "vocabulary", "length")}
    if len(names) > len(SIZES):
        return None
    heads = known.get("heads")
    sizes = dict(zip(names, SIZES, strict=False)) | ({heads: 2} if heads else {})
    try:
        with quietly():
            made = maker(**sizes, **{n: _source(maker) for n in random if found[n].default is EMPTY})
        holder = type("Holder", (), {})()
        holder.params = made
        places = list(places_of(holder, constants=True))
    except (Exception, SystemExit):  # untrusted code may raise anything
        return None
    used = [place for place in places if texts.intersection((place.path, *place.path.split(".")))]
    if len(places) < 2 or len(used) * 2 < len(places):
        return None
    shapes = {place.path: place.value().shape for place in places}
    if apart := _roles_of_axes(shapes, {size: n for n, size in sizes.items()}):
        return apart
    axes = list(itertools.chain.from_iterable(shapes.values()))
    unknown = sorted((n for n in names if n not in known.values()), key=lambda n: -axes.count(sizes[n]))
    free = [role for role in ("width", "inner") if role not in known and not (role == "width" and "inputs" in known)]
    return dict(zip(free, [n for n in unknown if sizes[n] in axes], strict=False))


def _roles_of_axes(shapes: Mapping[str, Sequence[int]], names: Mapping[int, str]) -> dict[str, str]:
    """Return the names of the sizes of a query's kernel (in, heads, head size), keyed by role, or none without one.

    >>> _roles_of_axes({"params.q": (24, 40, 2), "params.o": (40, 2, 24)}, {24: "d", 40: "n", 2: "h"})
    {'width': 'd', 'heads': 'n', 'size': 'h'}
    """
    queries = [shape for path, shape in shapes.items() if naming.weight(path)[0] == "query" and len(shape) == 3]
    if not queries or len({*queries[0]} & names.keys()) < 3:
        return {}
    return dict(zip(("width", "heads", "size"), (names[size] for size in queries[0]), strict=True))


def _source(maker: Callable[..., Any]) -> Any:
    """Return a source of random numbers for a function that makes weights."""
    if frameworks.likely_frameworks(maker)[0] != "jax":
        return np.random.default_rng(0)
    import jax

    return jax.random.PRNGKey(0)


def _shared(function: Any, maker: Callable[..., Any]) -> dict[str, str]:
    """Return the names of the function's arguments that have the role of an argument of the maker, with its name."""
    own = {role: n for role, n in naming.roles_of(parameters(maker)).items() if role in SETTINGS}
    there = naming.roles_of(parameters(function))
    return {name: own[role] for role, name in there.items() if role in own and name != own[role]}


def _made_class(
    function: Any,
    maker: Callable[..., Any],
    place: str,
    roles: Mapping[str, str],
    made: Collection[str] = (),
) -> type[WithParameters]:
    """Return the class of a function. `made` are the names of the arguments that kmha makes itself, if it does."""
    spreads, taken = place not in made and bool(made), made or (place,)
    found, makes = parameters(function), parameters(maker)
    shared = _shared(function, maker)
    by_role = {name: role for role, name in naming.roles_of(found).items()}
    settings = [n for n in found if by_role.get(n) in SETTINGS and n not in taken]
    own = {**{n: found[n] for n in settings if n not in shared}, **makes}

    def construct(self: Any, **arguments: Any) -> None:
        passed = {n: value for n, value in arguments.items() if n in makes}
        setattr(self, place, maker(**passed))
        self.settings = {n: arguments[n] for n in settings if n in arguments}
        self.settings |= {n: arguments[other] for n, other in shared.items() if other in arguments}
        vars(self).update({n: value for n, value in arguments.items() if isinstance(value, int)})

    def call(self: Any, **inputs: Any) -> Any:
        weights = getattr(self, place)
        return function(**(weights if spreads else {place: weights}), **inputs, **self.settings)

    inputs = {n: each for n, each in found.items() if n not in taken and n not in settings}
    body = {"__init__": construct, "__call__": call, "place": place, "roles": dict(roles)}
    body |= {"is_dict": bool(made), "spreads": spreads}
    body |= {"function": staticmethod(function), "maker": staticmethod(maker)}
    return class_around(function, WithParameters, own, inputs, body)


def class_around(
    function: Callable[..., Any], parent: Any, settings: Parameters, inputs: Parameters, body: Mapping[str, Any]
) -> Any:
    """Return a class with the name, text and source of a function.

    Args:
        function: Function that the class wraps.
        parent: Base class.
        settings: Arguments of the constructor.
        inputs: Arguments of the call, which is `call` or `forward` in `body`, or else `__call__`.
        body: Attributes of the class, with functions that take their arguments by name.
    """
    found, plain = dict(body), inspect.unwrap(function)
    found["__init__"].__signature__ = _signature(settings)
    call = found[next(name for name in ("call", "forward", "__call__") if name in found)]
    call.__signature__, call.__wrapped__ = _signature(inputs), plain
    found |= {name: getattr(function, name) for name in ("__module__", "__doc__", "__qualname__")}
    return type(parent)(function.__name__, (parent,), {**found, "__wrapped__": plain})


def _signature(found: Parameters) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([own, *(each.replace(kind=kind) for each in found.values())])
