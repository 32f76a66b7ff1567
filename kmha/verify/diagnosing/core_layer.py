"""A layer without weights as a candidate: scaled dot-product attention alone, written as a class or an object."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import reproduction
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.stated_sizes import stated_size, uses


class CoreLayerCandidate(FunctionCandidate):
    """The call of a layer without weights, as a function. A class is instantiated for each head size."""

    def __init__(self, layer: LayerCandidate) -> None:
        self.layer = layer
        given = dict(layer.call_given)
        said = {role: name for role, name in layer.said.items() if name in layer.call_parameters}
        super().__init__(_call_of(layer, self), layer.name, given, layer.said_meaning, said)
        self.stated = None if isinstance(layer.thing, type) else stated_size(layer.thing)
        self.made_guesses, self.mask_flag = layer.made_guesses, layer.mask_flag
        if self.mask_flag:
            self.accepts = dataclasses.replace(self.accepts, mask=False, padding=False, query_padding=False)
        self.frameworks = (layer.framework,)
        self.framework = layer.framework

    def code(self, trial: Trial) -> list[str]:
        lines, given = reproduction.assignments(self.arguments(trial), self.framework)
        head = reproduction.imports(self.layer.thing, self.framework, self.source, self.name)
        called = self.name
        if isinstance(self.layer.thing, type):
            made = self.layer.constructor_of(trial.query.shape[1], trial.query.shape[-1])
            called = f"{self.name}({', '.join(f'{name}={value!r}' for name, value in made.items())})"
        return [*head, *lines, f"result = {called}({', '.join(given)})"]


def _call_of(layer: LayerCandidate, candidate: FunctionCandidate) -> Callable[..., Any]:
    """Return a function with the parameters of the layer's call."""
    made: dict[int, Any] = {}

    def instance(query: Any) -> Any:
        size = int(query.shape[-1])
        if not isinstance(layer.thing, type):
            return layer.thing
        if size not in made:
            heads = int(query.shape[1]) if len(query.shape) == 4 else 1
            arguments = layer.constructor_of(heads, size)
            made[size] = layer.adapter.new(layer.layer_class, arguments, candidate.convention.dtype)
        return made[size]

    def call(**arguments: Any) -> Any:
        query = next(value for value in arguments.values() if hasattr(value, "shape"))
        return layer.adapter.call(instance(query), arguments, False)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in layer.call_parameters.values()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def is_core(layer: LayerCandidate) -> bool:
    """Return whether a layer with separate query and key, or input and memory, has no weights."""
    crosses = any(pair <= layer.roles.keys() for pair in ({"query", "key"}, {"self", "memory"}))
    counts = "heads" in {**layer.roles, **layer.fixed} or (
        "heads" in layer.constructor_roles and _mentions_heads(layer)
    )
    if not crosses or counts:
        return False
    try:
        with quietly():
            thing = layer.sample()
            return not layer.adapter.variables(thing) and _has_no_sublayers(thing)
    except (Exception, SystemExit):  # untrusted code may raise anything
        return False


def _mentions_heads(layer: LayerCandidate) -> bool:
    """Return whether the code of a class uses its number of heads outside of the constructor."""
    name, base = layer.constructor_roles["heads"], layer.adapter.base
    return uses(name, *(each for each in layer.layer_class.__mro__ if issubclass(each, base) and each is not base))


def _has_no_sublayers(thing: Any) -> bool:
    """Return whether a Keras layer has no sublayers, which would make their weights when they are first called."""
    parts = thing._flatten_layers(include_self=False) if hasattr(thing, "_flatten_layers") else ()
    return all(type(part).__name__ in ("Dropout", "Softmax", "Activation") for part in parts)
