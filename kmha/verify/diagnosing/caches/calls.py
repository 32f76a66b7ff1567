"""Call a candidate of any framework with NumPy arrays, each time as it was before its first call."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import config_objects, frameworks, naming
from kmha.verify.diagnosing.caches import words
from kmha.verify.diagnosing.calling import CandidateError, constructor, parameters, random_names, values_by_role
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.jax_adapters import Held
from kmha.verify.diagnosing.layer_adapters import adapter_of, is_layer

WIDTH, HEADS, VOCABULARY, LENGTH, INNER, MEMORY = 12, 2, 17, 64, 13, 5
# What a class is constructed with, for each role in `kmha.verify.diagnosing.naming`.
_MADE = {
    "heads": HEADS,
    "size": WIDTH // HEADS,
    "value_size": WIDTH // HEADS,
    "width": WIDTH,
    "output": WIDTH,
    "inputs": WIDTH,
    "inner": INNER,
    "dropout": 0.0,
    "vocabulary": VOCABULARY,
    "length": LENGTH,
    "batch_first": True,
}


class Callee:
    """A layer, model or function that kmha calls with NumPy arrays.

    Args:
        thing: Class, instance or function.
        given: Arguments of the constructor or the call whose meaning does not follow from their names.
        dtype: Dtype of arrays of numbers. A torch module is converted to it.

    Raises:
        CandidateError: The class cannot be constructed.
    """

    def __init__(self, thing: Any, given: Mapping[str, Any], dtype: str) -> None:
        self.dtype, self.given = dtype, dict(given)
        self.framework = frameworks.likely_frameworks(thing)[0]
        self.is_layer = isinstance(thing, type) or not inspect.isroutine(thing)
        self.is_made = isinstance(thing, type)  # a layer that is not yet built is built by the first width
        self.original = self._constructed(thing) if self.is_made else thing
        self.found = self._parameters()
        self.call_given = {name: value for name, value in self.given.items() if name in self.found}
        if self.framework == "torch" and hasattr(self.original, "parameters"):
            self.original = frameworks.converted(copied(self.original).eval(), dtype)
        self.thing = self.original
        self.snapshot: list[Any] | None = None
        self.defaults = copy.deepcopy(getattr(self.original, "__defaults__", None))

    def _constructed(self, thing: type) -> Any:
        written = constructor(thing)
        found = config_objects.expanded(written, thing, frameworks.source_of(thing))
        arguments = {name: each.default for name, each in found.items() if "." in name}
        sizes = {name: role for role, name in naming.roles_of_constructor(found).items() if role in _MADE}
        keys = random_names(found) if self.framework == "jax" else frozenset()
        for name, parameter in found.items():
            if name in keys:
                continue
            own = name.rpartition(".")[2]
            role = naming.argument(own)
            role = role if role in _MADE else sizes.get(name, role)
            if name in self.given:
                arguments[name] = self.given[name]
            elif role is None and parameter.default is not inspect.Parameter.empty:
                continue
            elif own == "size":  # of what, only the layer knows
                arguments[name] = WIDTH
            elif role in _MADE:
                arguments[name] = _MADE[role]
            elif words.is_one_of(own, words.LAYERS):
                arguments[name] = 1
            elif words.is_one_of(own, words.LENGTH):
                arguments[name] = LENGTH
            elif words.is_one_of(own, words.BATCH):
                arguments[name] = 4
            elif parameter.default is inspect.Parameter.empty:
                raise CandidateError(f"{thing.__name__}: kmha does not know the argument `{name}`.")
        arguments = config_objects.folded(arguments, written)
        if not keys:
            return thing(**arguments)
        made = adapter_of(thing).new(thing, arguments, self.dtype)
        return made.module if isinstance(made, Held) else made

    def _parameters(self) -> dict[str, inspect.Parameter]:
        thing = self.original
        if inspect.isroutine(thing):
            return parameters(thing)
        method = next((name for name in ("forward", "call") if hasattr(type(thing), name)), "__call__")
        return parameters(getattr(type(thing), method), skip=1)

    def reset(self) -> None:
        """Put the candidate back into the state that it had before its first call."""
        if self.framework == "keras" and hasattr(self.original, "built"):
            if self.snapshot is None and self.original.built:
                self.snapshot = _attributes(self.original)
            _restore(self.snapshot or [])
            return
        if inspect.isroutine(self.original):
            if inspect.isfunction(self.original) and self.defaults is not None:
                self.original.__defaults__ = copy.deepcopy(self.defaults)
            return
        try:
            self.thing = copied(self.original)
        except Exception:  # untrusted code may forbid copies
            self.thing = self.original

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the candidate. NumPy arrays among the arguments become tensors."""
        return self.run(self.thing, {**self.call_given, **arguments})

    def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call a function or method with arguments by name."""
        made = {name: self.tensor(value) for name, value in arguments.items()}
        if self.framework == "torch":
            import torch

            with torch.no_grad():
                return function(**made)
        return function(**made)

    def tensor(self, value: Any) -> Any:
        """Convert NumPy arrays, and leave everything else as it is."""
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind == "i" and self.framework in ("tensorflow", "keras", "jax"):
            value = value.astype("int32")
        return frameworks.to_tensor(value, self.framework, self.dtype)

    def numbers(self) -> dict[str, Any]:
        """Return all settings of the candidate and of its configuration, keyed by name."""
        found: dict[str, Any] = {}
        config = getattr(self.original, "config", None) or getattr(self.original, "args", None)
        for owner in (config, self.original):
            found |= owner if isinstance(owner, dict) else getattr(owner, "__dict__", {})
        return found

    def sizes(self, role: str) -> list[int]:
        """Return the numbers that may be the width or the vocabulary of a candidate, the likeliest first."""
        stated = values_by_role({name.strip("_"): value for name, value in self.numbers().items()})
        likely = [stated.get(each) for each in ((role, "inputs", "output") if role == "width" else (role,))]
        shapes = [shape for shape in self.shapes() if len(shape) > 1]
        likely += [shape[0] for shape in shapes] if role == "vocabulary" else [n for shape in shapes for n in shape]
        numbers = [n for n in likely if isinstance(n, int) and not isinstance(n, bool) and n > 1]
        usual = [WIDTH if role == "width" else VOCABULARY]
        return list(dict.fromkeys([*usual, *numbers] if self.is_made else [*numbers, *usual]))[:8]

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the candidate's weights."""
        if hasattr(self.original, "parameters") and self.framework == "torch":
            return [tuple(each.shape) for each in self.original.parameters()]
        if self.framework == "jax" and is_layer(self.original):
            adapter = adapter_of(type(self.original))
            return [each.shape for each in adapter.variables(adapter.working_copy(self.original))]
        return [tuple(each.shape) for each in getattr(self.original, "weights", None) or []]

    def number(self, *roles: str) -> int | None:
        """Return the first of these settings that the candidate states."""
        stated = values_by_role({name.strip("_"): value for name, value in self.numbers().items()})
        return next((stated[role] for role in roles if isinstance(stated.get(role), int)), None)


def _attributes(layer: Any) -> list[tuple[Any, dict[str, Any], list[tuple[Any, np.ndarray]]]]:
    """Return the attributes of a Keras layer and its sublayers, and the values of its variables."""
    layers = list(layer._flatten_layers()) if hasattr(layer, "_flatten_layers") else [layer]
    variables = [(each, np.array(each)) for each in getattr(layer, "variables", [])]
    return [(each, dict(vars(each)), variables if each is layer else []) for each in layers]


def _restore(snapshot: list[tuple[Any, dict[str, Any], list[tuple[Any, np.ndarray]]]]) -> None:
    for layer, attributes, variables in snapshot:
        for name, value in attributes.items():
            vars(layer)[name] = value
        for name in set(vars(layer)) - set(attributes):
            if not name.startswith("_"):
                del vars(layer)[name]
        for variable, value in variables:
            if not np.array_equal(np.array(variable), value):
                variable.assign(value)
