"""A layer as a candidate: a Keras layer or a torch module, as a class (made for each trial) or as it is.

A class is made with the sizes and the dropout of the trial, and its weights are set; of a layer that is there already,
the weights are read.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify import frameworks, held, naming, reproduction, trials
from kmha.verify.chain import ROLES, Trial
from kmha.verify.layer_kinds import kind_of
from kmha.verify.subjects import (
    Convention,
    Subject,
    SubjectError,
    check_known,
    constructor,
    inputs,
    masks,
    parameters,
    roles_of,
)
from kmha.verify.trials import Accepts, Sizes

LENGTH = 64  # more positions than any trial has


class LayerSubject(Subject):
    """See the module's docstring."""

    def __init__(self, thing: Any, name: str, given: Mapping[str, Any], hides: bool = False) -> None:
        self.thing, self.name, self.given, self.hides = thing, name, dict(given), hides
        self.layer_class = thing if isinstance(thing, type) else type(thing)
        self.kind = kind_of(self.layer_class)
        self.framework = self.kind.framework()
        self.call_found = parameters(getattr(self.layer_class, self.kind.method), skip=1)
        self.roles = roles_of(self.call_found)
        self.made_found = constructor(self.layer_class)
        self.made_roles = {role: n for role, n in roles_of(self.made_found).items() if n not in self.given}
        if isinstance(thing, type):
            check_known(f"{name}(…)", self.made_found, self.made_roles.values(), self.given)
        check_known(f"{name}'s {self.kind.method}()", self.call_found, self.roles.values(), {})
        self.accepts = self._accepts()
        self.cache: dict[Any, Any] = {}
        self.convention = Convention(weights=0)
        if not isinstance(thing, type):
            self.weights = self._read()

    def _accepts(self) -> Accepts:
        roles, made = self.roles, self.made_roles
        is_class = isinstance(self.thing, type)
        if not {"query", "self"} & roles.keys():
            raise SubjectError(
                f"{self.name}: its {self.kind.method}() has no argument for the input: expected names such as `query`, "
                f"`value`, `key` or `x`. Received: {', '.join(self.call_found)}."
            )
        return Accepts(
            cross=("query" in roles and "key" in roles) or ("query" in roles and "value" in roles) or "memory" in roles,
            value="value" in roles and "key" in roles,
            mask="mask" in roles,
            causal="causal" in roles,
            padding="padding" in roles,
            query_padding="query_padding" in roles,
            training=is_class and "dropout" in made and "training" in roles,
            wide="size" not in made,
            half=is_class and self.kind.half,
        )

    def sizes(self, rng: np.random.Generator) -> Sizes:
        if self.weights is not None:
            return self._held_sizes()
        drawn = trials.draw_sizes(rng, self.accepts)
        changes: dict[str, int] = {}
        if "output" not in self.made_roles and not self.accepts.wide:
            changes["width"] = drawn.features
        if "heads" not in self.made_roles and "heads" not in {naming.argument(name) for name in self.given}:
            changes |= {"heads": 1, "size": drawn.width} if self.accepts.wide else {"heads": 1}
        return trials.dataclasses.replace(drawn, **changes)

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        """The calls to try, without the biases that the layer has not: it may leave them out on purpose."""
        drawn = super().draw(seed, sizes)
        try:
            names = {slot.name for slot in self.make(drawn[0])[1]}
        except Exception:  # a stranger's code may raise anything; it will again, and be heard
            return drawn
        packed = {f"{role}/bias" for role in ROLES} if "packed/bias" in names else set()
        kept = {name for name in drawn[0].weights if not name.endswith("/bias") or name in names | packed}
        weights = [{name: trial.weights[name] for name in trial.weights if name in kept} for trial in drawn]
        return [dataclasses.replace(trial, weights=each) for trial, each in zip(drawn, weights, strict=True)]

    def _held_sizes(self) -> Sizes:
        weights = self.weights or {}
        heads, features, size = weights["query/kernel"].shape
        key_features, width = weights["key/kernel"].shape[1], weights["attention_output/kernel"].shape[2]
        batch, rows, columns = [n for n in (2, 3, 5, 7, 9, 11) if n not in (heads, size)][:3]
        return Sizes(batch, rows, columns, heads, features, key_features, size, width, "query/bias" in weights)

    def mask_shapes(self) -> list[str]:
        """`attention_mask` is (B, T, S) in Keras; a layer of one's own often wants an axis of heads."""
        return ["B,T,S", "B,1,T,S", "T,S"]

    def weight_conventions(self) -> list[Any]:
        """The numbers of the arrangements that are possible."""
        return list(range(len(self.cache["arrangements"]))) if "arrangements" in self.cache else [0]

    def make(self, trial: Trial) -> tuple[Any, list[held.Slot]]:
        """The layer for a trial, with its weights set; made anew where sizes, dropout or dtype are others."""
        sizes = letters(trial.weights)
        dtype = trial.dtype if trial.dtype == "float16" else self.convention.dtype
        key = (*sizes.items(), trial.rate, dtype)
        if key not in self.cache:
            layer = self.thing
            if self.weights is None:
                layer = self.kind.new(self.layer_class, self._constructor(trial), dtype)
            self.kind.build(layer, self._arguments(trial), dtype)
            found = held.arrangements(self._oriented(layer, trial, dtype), sizes)
            self.cache[key] = layer, found
            self.cache["arrangements"] = found
        layer, found = self.cache[key]
        slots = found[min(self.convention.weights, len(found) - 1)]
        if self.weights is None:
            held.write(slots, trial.weights)
        return layer, slots

    def _oriented(self, layer: Any, trial: Trial, dtype: str) -> list[held.Variable]:
        """The layer's variables. Where a square one does not tell, a layer with one more input feature does."""
        variables = self.kind.variables(layer)
        name = self.made_roles.get("inputs")
        if self.weights is not None or name is None or all(each.transposed is not None for each in variables):
            return variables
        arguments = self._constructor(trial)
        try:
            other = self.kind.new(self.layer_class, {**arguments, name: arguments[name] + 1}, dtype)
        except Exception:  # a stranger's code may raise anything
            return variables
        shapes = {each.path: each.shape for each in self.kind.variables(other)}
        return [each.told_by(shapes.get(each.path, each.shape)) for each in variables]

    def _constructor(self, trial: Trial) -> dict[str, Any]:
        """What the class is made with."""
        sizes = letters(trial.weights)
        by_role = {
            "heads": sizes["H"],
            "size": sizes["O"],
            "value_size": sizes["O"],
            "length": LENGTH,
            "width": sizes["E"] if self.accepts.wide else sizes["I query"],
            "output": sizes["E"],
            "inputs": sizes["I query"],
            "use_bias": True,
            "dropout": trial.rate if self.accepts.training else 0.0,
        }
        arguments = {self.made_roles[role]: value for role, value in by_role.items() if role in self.made_roles}
        return {**arguments, **self.given}

    def _arguments(self, trial: Trial) -> dict[str, Any]:
        """All that the call takes, by name."""
        return inputs(self, self.roles, trial) | masks(self, self.roles, trial)

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        layer, _ = self.make(trial)
        arguments = self._arguments(trial)
        tensors = [value for value in arguments.values() if hasattr(value, "shape")]
        copies = [(tensor, frameworks.back(tensor).copy()) for tensor in tensors]
        return self.kind.call(layer, arguments, trial.training), copies

    def _read(self) -> dict[str, np.ndarray]:
        """The canonical weights of a layer that is there already."""
        variables = self.kind.variables(self.thing)
        if not variables:
            raise SubjectError(f"{self.name}: the layer has no weights yet. Call it once, or `build` it, first.")
        heads = _number_of_heads(self.thing, self.given)
        kernels = [variable.shape for variable in variables if len(variable.shape) > 1]
        for sizes in _possible_sizes(kernels, heads):
            try:
                found = held.arrangements(variables, sizes)
            except held.UnknownWeightsError:
                continue
            return held.read(found[0], sizes)
        raise SubjectError(
            f"{self.name}: its weights fit no reading as multi-head attention"
            + (
                f" with {heads} heads"
                if heads
                else ": give the number of heads, arguments={'num_heads': …} or --set num_heads=H"
            )
            + f". They are: {', '.join(f'{v.path} {v.shape}' for v in variables)}."
        )

    def code(self, trial: Trial) -> list[str]:
        layer, slots = self.make(trial)
        lines, given = reproduction.assignments(self._arguments(trial), self.framework)
        head = reproduction.imports(self.thing, self.framework)
        if self.weights is not None:
            return [*head, *lines, f"result = layer({', '.join(given)})  # layer: the one that was diagnosed"]
        made = ", ".join(f"{name}={value!r}" for name, value in self._constructor(trial).items())
        weights = [reproduction.literal(slot.variable.read()) for slot in slots]
        call = f"layer({', '.join(given)})"
        return [
            *head,
            *lines,
            *self.kind.script(f"{self.name}({made})", call, slots, weights, self.convention.dtype),
            f"result = {call}",
        ]


def letters(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes of canonical weights by letter."""
    heads, _, size = weights["query/kernel"].shape
    inner = {f"I {role}": weights[f"{role}/kernel"].shape[1] for role in ("query", "key", "value")}
    return {"H": heads, "O": size, "E": weights["attention_output/kernel"].shape[2], **inner}


def _number_of_heads(layer: Any, given: Mapping[str, Any]) -> int | None:
    for name, value in [*given.items(), *vars(layer).items()]:
        if naming.argument(name.strip("_")) == "heads" and isinstance(value, int):
            return value
    return None


def _possible_sizes(kernels: list[tuple[int, ...]], heads: int | None) -> list[dict[str, int]]:
    """All readings of the kernels' shapes: in and out features, heads and head size."""
    numbers = sorted({number for shape in kernels for number in shape})
    found = []
    for head_count in [heads] if heads else [n for shape in kernels if len(shape) == 3 for n in shape]:
        for size in {n for n in numbers} | {n // head_count for n in numbers if n % head_count == 0}:
            for features in numbers:
                for key_features in [features, *(n for n in numbers if n != features)]:
                    for width in [features, *(n for n in numbers if n != features)]:
                        sizes = {"H": head_count, "O": size, "E": width, "I query": features}
                        found.append({**sizes, "I key": key_features, "I value": key_features})
    return found
