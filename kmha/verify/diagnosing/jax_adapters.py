"""Adapters that create, build and call modules of flax.linen, flax.nnx, Equinox and Haiku, and set their parameters.

A linen, Haiku or Equinox module cannot be changed, so a `Held` module keeps the arrays of its parameters beside it.
Parameters are cast to the dtype of the trial, because these packages create them in float32.
"""

import dataclasses
import functools
import importlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.adapter import Adapter
from kmha.verify.diagnosing.assigned_names import with_assigned_names
from kmha.verify.diagnosing.attributes import inside, walk
from kmha.verify.diagnosing.calling import constructor, parameters, random_names
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.shared_variables import with_other_names
from kmha.verify.diagnosing.weights import Slot, Variable

QUICK = "unsafe_rbg"  # a way to draw random numbers that JAX compiles faster than its usual way
OUT_IN, IN_OUT = ("weight",), ("kernel", "w")  # names of matrices (out, in) in Equinox, and (in, out) elsewhere


class Held:
    """A module and the arrays of its parameters, keyed by path."""

    def __init__(self, module: Any, arrays: Mapping[tuple[str, ...], Any] | None = None) -> None:
        # The number of heads is read from the attributes of a layer.
        vars(self).update({name: value for name, value in _attributes(module).items() if isinstance(value, int)})
        self.module, self.arrays = module, dict(arrays or {})
        self.rest: dict[str, Any] = {}  # variables that are no parameters
        self.inner: list[Any] = []  # modules inside the module
        self.unused: set[str] = set()  # paths of sublayers that the module never calls
        self.places: list[list[str]] = []  # paths of each module that has several

    def set(self, path: tuple[str, ...], array: np.ndarray) -> None:
        """Set the parameter at `path`."""
        self.arrays[path] = _jnp().asarray(array)

    def nested(self) -> dict[str, Any]:
        """Return the parameters as nested dicts."""
        found: dict[str, Any] = {}
        for path, array in self.arrays.items():
            owner = functools.reduce(lambda inner, name: inner.setdefault(name, {}), path[:-1], found)
            owner[path[-1]] = array
        return found

    def cast(self, dtype: str) -> None:
        """Cast the floating-point parameters to `dtype`."""
        self.arrays = {path: _cast(array, dtype) for path, array in self.arrays.items()}


class JaxAdapter(Adapter):
    """The common part of the adapters of JAX modules."""

    framework = "jax"
    epsilon = 1e-6

    def __init__(self) -> None:
        self.counter = itertools.count()

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        return random_names(found)

    def random_key(self) -> Any:
        """Return a new key of random numbers, so that two calls with dropout differ."""
        import jax

        return jax.random.key(next(self.counter), impl=QUICK)

    def working_copy(self, layer: Any) -> Any:
        raise NotImplementedError

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        raise NotImplementedError

    def variables(self, layer: Held) -> list[Variable]:
        return [
            Variable(
                ".".join(path),
                tuple(array.shape),
                functools.partial(layer.set, path),
                functools.partial(_read, layer, path),
                is_transposed(path[-1]) if array.ndim == 2 else False,
                used=".".join(path[:-1]) not in layer.unused,
            )
            for path, array in layer.arrays.items()
        ]

    def parts(self, layer: Held) -> list[Any]:
        """Return the modules inside a module."""
        return list(layer.inner)


class LinenAdapter(JaxAdapter):
    """Adapter of a `flax.linen.Module`."""

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        _jnp()
        return Held(layer_class(**arguments))

    def configured(self, layer: Any) -> dict[str, Any]:
        """Return the module's fields that differ from their defaults. Its parameters, if it is bound, are left out."""
        fields = [field for field in dataclasses.fields(layer) if field.init and field.name not in ("parent", "name")]
        values = {field.name: getattr(layer, field.name) for field in fields}
        defaults = {field.name: field.default for field in fields}
        return {name: value for name, value in values.items() if value is not defaults[name]}

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        return random_names(found) | {"parent", "name"}

    def build(self, layer: Held, arguments: Mapping[str, Any], dtype: str) -> None:
        """Make the parameters, by a first call."""
        import flax.linen as nn

        called: dict[int, Any] = {}

        def remember(following: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
            called[id(context.module)] = context.module
            return following(*args, **kwargs)

        def run(module: Any) -> None:
            module(**arguments, **self._keys(layer))
            first = next((value for value in arguments.values() if hasattr(value, "shape")), None)
            for path, part in () if first is None else walk(module, nn.Module, (nn.Dense, nn.DenseGeneral)):
                if id(part) not in called:  # this layer is never used, which is a mistake, but it needs weights
                    part(first if isinstance(getattr(part, "axis", -1), int) else _of_heads(first, called.values()))
                    layer.unused.add(path)

        with nn.intercept_methods(remember):
            made = layer.module.init(self._random(), method=run)
        layer.inner = list(called.values())
        layer.places = [paths for owner in layer.inner for paths in _several_names(owner, nn.Module)]
        layer.arrays = dict(_flat(made.get("params", {})))
        layer.rest = {name: value for name, value in made.items() if name != "params"}
        layer.cast(dtype)

    def call(self, layer: Held, arguments: Mapping[str, Any], training: bool) -> Any:
        variables = {**layer.rest, "params": layer.nested()}
        mutable = list(layer.rest) or False
        result = layer.module.apply(variables, rngs=self._random(), mutable=mutable, **arguments, **self._keys(layer))
        return result[0] if mutable else result

    def variables(self, layer: Held) -> list[Variable]:
        found = with_assigned_names(super().variables(layer), layer.inner)
        return with_other_names(found, layer.places)

    def _random(self) -> dict[str, Any]:
        return {"params": self.random_key(), "dropout": self.random_key()}

    def _keys(self, layer: Held) -> dict[str, Any]:
        return required_keys(type(layer.module).__call__, self.random_key)

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a function `layer` with these weights."""
        return [
            "import functools",
            f"params = {_nested_code(slots, weights)}",
            f"layer = functools.partial({made}.apply, {{'params': params}})",
        ]


class HaikuAdapter(JaxAdapter):
    """Adapter of an `hk.Module`, which exists only inside `hk.transform`."""

    epsilon = 1e-5

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        return random_names(found) | {"name", "w_init"}

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        import haiku as hk

        _jnp()
        initial = {"w_init": hk.initializers.RandomNormal()} if "w_init" in constructor(layer_class) else {}

        def run(**inputs: Any) -> Any:
            keys = required_keys(layer_class.__call__, self.random_key)
            return layer_class(**{**initial, **arguments})(**inputs, **keys)

        return Held(hk.transform_with_state(run))

    def build(self, layer: Held, arguments: Mapping[str, Any], dtype: str) -> None:
        """Make the parameters, by a first call."""
        import haiku as hk

        def remember(following: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
            layer.inner.append(context.module)
            return following(*args, **kwargs)

        with hk.intercept_methods(remember):
            params, layer.rest = layer.module.init(self.random_key(), **arguments)
        layer.arrays = {(*module.split("/"), name): a for module, own in params.items() for name, a in own.items()}
        layer.cast(dtype)

    def call(self, layer: Held, arguments: Mapping[str, Any], training: bool) -> Any:
        params: dict[str, dict[str, Any]] = {}
        for path, array in layer.arrays.items():
            params.setdefault("/".join(path[:-1]), {})[path[-1]] = array
        return layer.module.apply(params, layer.rest, self.random_key(), **arguments)[0]

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a function `layer` with these weights."""
        params: dict[str, dict[str, str]] = {}
        for slot, array in zip(slots, weights, strict=True):
            owner, _, name = slot.variable.path.rpartition(".")
            params.setdefault(owner.replace(".", "/"), {})[name] = array
        return [
            "import haiku as hk",
            f"params = {_code(params)}",
            f"module = hk.without_apply_rng(hk.transform(lambda **inputs: {made}(**inputs)))",
            "layer = lambda **inputs: module.apply(params, **inputs)",
        ]


class EquinoxAdapter(JaxAdapter):
    """Adapter of an `equinox.Module`, which usually takes one item at a time, and is mapped over a batch.

    Attributes:
        is_mapped: Whether calls are mapped over the batch, or `None` until a call with a batch runs.
    """

    epsilon = 1e-5
    single = True
    is_mapped: bool | None = None

    def working_copy(self, layer: Any) -> Any:
        return self._held(layer)

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        _jnp()
        layer = self._held(layer_class(**arguments, **required_keys(layer_class.__init__, self.random_key)))
        layer.cast(dtype)
        return layer

    def _held(self, module: Any) -> Held:
        import equinox
        import jax

        leaves = jax.tree_util.tree_flatten_with_path(module)[0]
        arrays = {_names(path): leaf for path, leaf in leaves if equinox.is_inexact_array(leaf)}
        layer = Held(module, arrays)
        layer.inner = inside(module, equinox.Module)
        return layer

    def build(self, layer: Held, arguments: Mapping[str, Any], dtype: str) -> None:
        """Cast the parameters, and check that the module runs."""
        layer.cast(dtype)
        self.call(layer, arguments, False)

    def has_weights(self, layer: Any) -> bool:
        return bool(self._held(layer).arrays)

    @property
    def base(self) -> type:
        return importlib.import_module("equinox").Module

    def call(self, layer: Held, arguments: Mapping[str, Any], training: bool) -> Any:
        import equinox
        import jax

        module = jax.tree_util.tree_map_with_path(lambda path, leaf: layer.arrays.get(_names(path), leaf), layer.module)
        module = equinox.nn.inference_mode(module, value=not training)
        keys = {name: self.random_key() for name in random_names(parameters(getattr(type(module), self.method)))}
        call = self.entry(module)
        arrays = {name: value for name, value in arguments.items() if hasattr(value, "shape")}
        rest = {name: value for name, value in arguments.items() if name not in arrays}
        if self.is_mapped is False or not _has_batch(arrays):
            return call(**arguments, **keys)
        try:
            result = jax.vmap(lambda items: call(**items, **rest, **keys))(arrays)
            self.is_mapped = True
        except Exception:  # untrusted code may raise anything
            if self.is_mapped:
                raise
            result = call(**arguments, **keys)
            self.is_mapped = False
        return result

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a module with these weights."""
        paths = [_attribute_code("layer", slot.variable.path) for slot in slots]
        arrays = [f"    jax.numpy.asarray({array})," for array in weights]
        return [
            "import equinox",
            f"layer = {_with(made, 'key=jax.random.key(0)')}",
            f"weights = lambda layer: [{', '.join(paths)}]",
            "layer = equinox.tree_at(weights, equinox.nn.inference_mode(layer), [",
            *arrays,
            "])",
            *([] if self.is_mapped is False else _mapped(call)),
        ]


class NnxAdapter(JaxAdapter):
    """Adapter of a `flax.nnx.Module`, whose parameters are variables that can be set."""

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        return random_names(found) | (frozenset({"decode"}) & found.keys())

    def working_copy(self, layer: Any) -> Any:
        """Return a copy, because the diagnosis changes the module's dtype and mode."""
        return copied(layer)

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        from flax import nnx

        _jnp()
        found = parameters(layer_class.__init__)
        more = {name: nnx.Rngs(self.random_key()) for name in random_names(found)}
        layer = layer_class(**arguments, **more)
        self._cast(layer, dtype)
        return layer

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Cast the parameters, and check that the module runs."""
        self._cast(layer, dtype)
        self.call(layer, arguments, False)

    def _cast(self, layer: Any, dtype: str) -> None:
        for _, variable in self._params(layer):
            _assign(variable, _cast(_value(variable), dtype))

    def has_weights(self, layer: Any) -> bool:
        return bool(self._params(layer))

    @property
    def base(self) -> type:
        return importlib.import_module("flax.nnx").Module

    def _params(self, layer: Any) -> list[tuple[str, Any]]:
        from flax import nnx

        return list(walk(layer, nnx.Pytree, nnx.Param))

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        from flax import nnx

        (layer.train if training else layer.eval)()
        found = parameters(getattr(type(layer), self.method))
        more: dict[str, Any] = {name: nnx.Rngs(self.random_key()) for name in random_names(found)}
        if "decode" in found:  # decoding one position at a time is off, and nnx asks for a decision
            more["decode"] = False
        return self.entry(layer)(**arguments, **more)

    def variables(self, layer: Any) -> list[Variable]:
        return [
            Variable(
                path,
                tuple(_value(variable).shape),
                functools.partial(_assign, variable),
                functools.partial(_numpy, variable),
                is_transposed(path.split(".")[-1]) if _value(variable).ndim == 2 else False,
            )
            for path, variable in self._params(layer)
        ]

    def parts(self, layer: Any) -> list[Any]:
        """Return the modules inside a module."""
        from flax import nnx

        return inside(layer, nnx.Pytree)

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a module with these weights."""
        places = [_attribute_code("layer", slot.variable.path) for slot in slots]
        lines = [f"{place}.set_value(jax.numpy.asarray({array}))" for place, array in zip(places, weights, strict=True)]
        return ["from flax import nnx", f"layer = {_with(made, 'rngs=nnx.Rngs(0)')}", "layer.eval()", *lines]


def required_keys(function: Any, key: Callable[[], Any]) -> dict[str, Any]:
    """Return a key for each parameter without a default that takes a key of random numbers."""
    found = parameters(function)
    return {name: key() for name in random_names(found) if found[name].default is found[name].empty}


def is_transposed(name: str) -> bool | None:
    """Return whether a matrix with this name is (out, in), or `None` if the name does not say so."""
    return True if name in OUT_IN else False if name in IN_OUT else None


def _several_names(owner: Any, module: type) -> Iterator[list[str]]:
    """Yield the paths of each module that several attributes of `owner` refer to, the path of its parameters first."""
    names: dict[int, list[str]] = {}
    parts: dict[str, Any] = {n: part for n, part in vars(owner).items() if isinstance(part, module) and n != "parent"}
    for name, part in parts.items():
        names.setdefault(id(part), [".".join(part.path)]).append(".".join((*owner.path, name)))
    yield from (paths for paths in names.values() if len(paths) > 2)


def _of_heads(inputs: Any, called: Iterable[Any]) -> Any:
    """Return inputs (..., H, O), as the projection of the output takes them, with the sizes of another projection."""
    features = next(part.features for part in called if not isinstance(getattr(part, "features", 0), int))
    return _jnp().zeros((*inputs.shape[:-1], *features), inputs.dtype)


def _attributes(module: Any) -> Mapping[str, Any]:
    return getattr(module, "__dict__", {})


def _jnp() -> Any:
    """Return `jax.numpy` with float64, which must be on before parameters are made."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy


def _cast(array: Any, dtype: str) -> Any:
    jnp = _jnp()
    return jnp.asarray(array, dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _has_batch(arrays: Mapping[str, Any]) -> bool:
    """Return whether the first array has a batch axis, as inputs (B, P, I) and ids (B, P) have."""
    first = next(iter(arrays.values()), None)
    return first is not None and first.ndim == (2 if first.dtype.kind in "iu" else 3)


def _mapped(call: str) -> list[str]:
    """Return a line that maps a layer over the batch axis, if the input of its call has this axis."""
    name = re.match(r"layer\((\w+)=", call)
    return [f"layer = jax.vmap(layer) if {name[1]}.ndim == 3 else layer"] if name else []


def _read(layer: Held, path: tuple[str, ...]) -> np.ndarray:
    return frameworks.to_numpy(layer.arrays[path])


def _value(variable: Any) -> Any:
    return variable.get_value() if hasattr(variable, "get_value") else variable.value


def _numpy(variable: Any) -> np.ndarray:
    return frameworks.to_numpy(_value(variable))


def _assign(variable: Any, array: Any) -> None:
    array = _jnp().asarray(array)
    if hasattr(variable, "set_value"):
        variable.set_value(array)
    else:  # flax before 0.12
        variable.value = array


def _flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return the arrays of nested dicts in the order in which they were made, with their paths."""
    found = []
    for name, item in tree.items():
        found += _flat(item, (*path, name)) if isinstance(item, Mapping) else [((*path, name), _unboxed(item))]
    return found


def _unboxed(item: Any) -> Any:
    """Return the array inside a box that says how a parameter is distributed."""
    return item.unbox() if hasattr(item, "unbox") else item


def _names(path: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key)))) for key in path)


def _attribute_code(owner: str, path: str) -> str:
    return owner + "".join(f"[{name}]" if name.isdigit() else f".{name}" for name in path.split("."))


def _with(made: str, argument: str) -> str:
    """Return the call of a constructor with one more argument. What is made already, `layer`, stays as it is."""
    return f"{made[:-1]}{'' if made.endswith('()') else ', '}{argument})" if made.endswith(")") else made


def _nested_code(slots: Sequence[Slot], weights: Sequence[str]) -> str:
    holder = Held(None)
    paths = [(slot.variable.place or slot.variable.path).split(".") for slot in slots]
    holder.arrays = {tuple(path): array for path, array in zip(paths, weights, strict=True)}
    return _code(holder.nested())


def _code(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    return "{" + ", ".join(f"{name!r}: {_code(item)}" for name, item in tree.items()) + "}"
