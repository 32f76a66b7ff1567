"""A function of NumPy, TensorFlow, torch or JAX arrays as a candidate, with or without weights as arguments.

Arguments are recognised by their names (`kmha.verify.diagnosing.naming`). `attention(q, k, v, mask=None)` is scaled
dot-product attention. With `w_q, w_k, w_v, w_o`, or a dict `weights` with canonical names, a function is a whole layer.
"""

import dataclasses
import functools
import inspect
import itertools
import numbers
import re
import types
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Trial
from kmha.verify.diagnosing import frameworks, guessing, naming, reproduction, trials
from kmha.verify.diagnosing.calling import (
    EMPTY,
    READS,
    SIZES,
    CandidateError,
    Parameters,
    call_roles,
    check_given,
    check_roles,
    given_sizes,
    guessed_arguments,
    input_arguments,
    mask_arguments,
    parameters,
    positional_only,
    random_names,
    with_copies,
    without_neutral,
)
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.conventions import BATCH, HEADS, MIDDLE, MIDDLE_SINGLE, ONE_KEY, SINGLE, Convention
from kmha.verify.diagnosing.stated_sizes import stated_heads, stated_size
from kmha.verify.diagnosing.trials import Accepts, Sizes
from kmha.verify.diagnosing.weights import KERNELS, OUTPUT_KERNELS, PACKED_KERNELS, packing_order, to_form


class FunctionCandidate(Candidate):
    """A function of arrays as a candidate.

    Attributes:
        stated: The attribute of an object without weights that states its head size, and this size, or `None`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        given: Mapping[str, Any],
        meaning: str | None = None,
        said: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.function, self.name, self.said_meaning = function, name, meaning
        self.said = dict(said)
        self.frameworks = frameworks.likely_frameworks(function)
        self.framework = self.frameworks[0]
        self.call_parameters = _without_random_keys(parameters(function), given)
        self.fixed = {**stated_heads(function), **given_sizes(f"{name}()", given)}
        given = {n: value for n, value in given.items() if n in self.call_parameters or naming.argument(n) != "heads"}
        self.given = given  # without a number of heads that no argument takes: the user tells it of the code
        check_given(f"{name}()", given, self.call_parameters)
        check_roles(f"{name}()", said, self.call_parameters)
        roles, self.neutral_temperature = without_neutral(
            self.call_parameters, call_roles(self.call_parameters, said), said
        )
        self.roles = {role: name for role, name in roles.items() if name not in given}
        if "padding" not in self.roles and _has_two_axes(function, self.roles.get("lengths", "")):
            self.roles["padding"] = self.roles.pop("lengths")
        weights = {name for name in self.call_parameters if naming.weight(name)[0] and name not in self.roles.values()}
        late = self._after_weights(weights)
        self.by_place = self.roles_beside_names({*given, *weights, *late})
        if len(late) == 1 and "heads" not in self.roles:
            self.by_place["heads"] = late[0]
        self.roles |= self.by_place
        if self._dropout_is_optional():
            del self.roles["dropout"]
        # `k` is the key, or a weight if another argument is the key. So inputs are recognised before weights.
        rest = [name for name in self.call_parameters if name not in self.roles.values() and name not in given]
        self.weight_names = {name: naming.weight(name) for name in rest if naming.weight(name)[0]}
        self.core = not (self.weight_names or "weights" in self.roles or "heads" in {**self.roles, **self.fixed})
        self.stated = stated_size(function) if self.core else None
        self.accepts = self._accepts()
        self._check_inputs()
        meanings: dict[str, Any] = {f"{role}_meaning": self.meanings(role)[0] for role in ("mask", "padding")}
        self.convention = dataclasses.replace(Convention(weights=self.weight_conventions()[0]), **meanings)

    def _dropout_is_optional(self) -> bool:
        """Return whether the call has dropout that can be left out. It may be a rate, a layer or a function."""
        default = self.call_parameters[self.roles["dropout"]].default if "dropout" in self.roles else EMPTY
        return default is None or (default is not EMPTY and "training" not in self.roles)

    def _after_weights(self, weights: Container[str]) -> list[str]:
        """Return the required arguments of unknown meaning after the weights, which are no inputs."""
        names = list(self.call_parameters)
        first = next((place for place, name in enumerate(names) if name in weights), len(names))
        known = {*self.roles.values(), *self.given}
        return [
            name
            for name in names[first:]
            if name not in weights and name not in known and self.call_parameters[name].default is EMPTY
        ]

    def _call_guesses(self) -> list[tuple[tuple[str, str], ...]]:
        """Return the combinations of values to try for required arguments that no role explains."""
        known = {*self.roles.values(), *self.weight_names, *self.given}
        unknown = {n: each for n, each in self.call_parameters.items() if each.default is EMPTY and n not in known}
        return [tuple(each.items()) for each in guessing.combinations(unknown)]

    def _accepts(self) -> Accepts:
        roles = self.roles
        cross = ("query" in roles and "key" in roles) or "memory" in roles
        return Accepts(
            cross=cross,
            value="value" in roles,
            mask="mask" in roles,
            causal="causal" in roles,
            padding="padding" in roles or "lengths" in roles,
            query_padding="query_padding" in roles,
            training="training" in roles and "dropout" in roles,
            wide=not (self.core or self.weight_names or "weights" in roles),
        )

    def _check_inputs(self) -> None:
        required = [name for name, each in self.call_parameters.items() if each.default is EMPTY]
        if required and all(naming.argument(name) in (*SIZES, "inner", "vocabulary") for name in required):
            raise CandidateError(
                f"{self.name}() takes sizes alone ({', '.join(required)}), so it makes something to call. Diagnose "
                f"what it makes, such as layer = {self.name}(…), with kmha diagnose MODULE:layer. {READS}."
            )
        if not {"query", "self"} & self.roles.keys():
            raise CandidateError(
                f"{self.name}() has no argument for its input. Expected names such as `query, key, value` or `x`. "
                f"Received: {', '.join(self.call_parameters) or 'no arguments'}."
                + naming.role_hint("query", self.call_parameters)
            )
        known = {role for role, _ in self.weight_names.values()}
        if known and not (known >= set(ROLES) or "packed" in known):
            missing = ", ".join(role for role in ROLES if role not in known)
            raise CandidateError(
                f"{self.name}() has weights, but none for {missing}. Expected names such as w_q, w_k, w_v and w_o, or "
                f"w_qkv. Received: {', '.join(self.weight_names)}."
            )

    def input_layouts(self) -> list[dict[str, Any]]:
        if self.core:
            entries = (HEADS, BATCH, MIDDLE, SINGLE, ONE_KEY, MIDDLE_SINGLE)
            found: list[dict[str, Any]] = [{"entry": entry} for entry in entries]
        else:
            heads = [False] if "heads" in self.roles or not self.weight_names else [False, True]
            found = [{"entry": entry, "one_head": one} for entry in (BATCH, SINGLE) for one in heads]
        guessed = self._call_guesses()
        return [
            {**one, "framework": name, "guessed": each} for name in self.frameworks for one in found for each in guessed
        ]

    def use_layout(self, **changes: Any) -> None:
        super().use_layout(**changes)
        self.convention = dataclasses.replace(self.convention, weights=self.weight_conventions()[0])

    def sizes(self, rng: np.random.Generator) -> Sizes:
        sizes = trials.draw_sizes(rng, self.accepts, self._biased(), self.convention.sizes)
        heads = 1 if self.convention.one_head else self.fixed.get("heads", sizes.heads)
        changes: dict[str, Any] = {"heads": heads}
        if self.accepts.wide:
            changes |= dict.fromkeys(("width", "features", "key_features"), heads * sizes.size)
        return self._with_stated(dataclasses.replace(sizes, **changes))

    def smaller_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        yield from map(self._with_stated, super().smaller_sizes(sizes))

    def _with_stated(self, sizes: Sizes) -> Sizes:
        if self.stated is None:
            return sizes
        width = sizes.heads * self.stated[1]
        wide = ("width", "features", "key_features") if self.accepts.wide else ()
        changes: dict[str, Any] = dict.fromkeys(wide, width)
        return dataclasses.replace(sizes, size=self.stated[1], **changes)

    def _biased(self) -> bool:
        return "weights" in self.roles or any(is_bias for _, is_bias in self.weight_names.values())

    @property
    def flat(self) -> bool:
        """True if the function's weights have no axis of heads."""
        return self.convention.one_head or "heads" in {**self.roles, **self.fixed}

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        if "weights" in self.roles:
            return None
        found = {(part, is_bias) for role, is_bias in self.weight_names.values() for part in _parts(role)}
        return frozenset(f"{role}/{'bias' if is_bias else 'kernel'}" for role, is_bias in found)

    def weight_conventions(self) -> list[Any]:
        """Return all pairs (form of the kernels into heads, form of the output kernel) to try."""
        if not self.weight_names:
            return [None]
        packed = any(role == "packed" for role, _ in self.weight_names.values())
        into = PACKED_KERNELS if packed else (("I,HO", "HO,I", *KERNELS) if self.flat else KERNELS)
        out: tuple[str, ...] = ("HO,E", "E,HO", "H,O,E") if self.flat else OUTPUT_KERNELS
        if "attention_output" not in {role for role, _ in self.weight_names.values()}:
            out = out[:1]
        pairs = list(itertools.product(dict.fromkeys(into), out))
        # Pairs of one kind come first: both flat, both transposed, or both with an axis of heads.
        return sorted(
            pairs,
            key=lambda pair: ("H," in pair[0], pair[0].startswith("HO")) != ("H," in pair[1], pair[1].startswith("E")),
        )

    def arguments(self, trial: Trial) -> dict[str, Any]:
        """Return all arguments of the call, keyed by name."""
        found = {**guessed_arguments(self, trial), **self.given, **input_arguments(self, self.roles, trial)}
        found |= mask_arguments(self, self.roles, trial)
        found |= {self.roles[role]: size for role, size in self._numbers(trial).items() if role in self.roles}
        if "weights" in self.roles and not self.core:
            tensors = {name: self.tensor(array, trial) for name, array in trial.weights.items()}
            found[self.roles["weights"]] = tensors
        for name, (role, is_bias) in self.weight_names.items():
            found[name] = self.tensor(self._weight(role or "", is_bias, trial), trial)
        return found

    def _numbers(self, trial: Trial) -> dict[str, Any]:
        """Return the sizes and the dropout rate, keyed by role."""
        found: dict[str, Any] = {"dropout": trial.rate, "inputs": int(trial.query.shape[-1])}
        if trial.core:
            heads, size, width = trial.query.shape[1], trial.query.shape[-1], trial.query.shape[-1]
        else:
            heads, _, size = trial.weights["query/kernel"].shape
            width = trial.weights["attention_output/kernel"].shape[2]
        found |= {"kv_heads": int(heads), "temperature": float(size) ** 0.5}
        return {**found, "heads": int(heads), "size": int(size), "value_size": int(size), "width": int(width)}

    def _weight(self, role: str, is_bias: bool, trial: Trial) -> np.ndarray:
        into, out = self.convention.weights
        kind = "bias" if is_bias else "kernel"
        weights = trial.weights
        flat = self.flat
        if role == "packed":
            arrays = np.stack([weights[f"{part}/{kind}"] for part in ROLES])
            form = (packing_order(into) if flat else "3,H,O") if is_bias else into
            return _packed(arrays, form)
        array = weights[f"{role}/{kind}"]
        if role == "attention_output":
            return array if is_bias else to_form(array, "HOE", out)
        return to_form(array, "HO", "HO" if flat else "H,O") if is_bias else to_form(array, "HIO", into)

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        arguments = self.arguments(trial)
        copies = with_copies(arguments)
        first = [arguments.pop(name) for name in positional_only(self.call_parameters) if name in arguments]
        return self.function(*first, **arguments), copies

    def code(self, trial: Trial) -> list[str]:
        lines, given = reproduction.assignments(
            self.arguments(trial), self.framework, positional_only(self.call_parameters)
        )
        head = reproduction.imports(self.function, self.framework, self.source, self.name)
        return [*head, *lines, f"result = {self.name}({', '.join(given)})"]


def _without_random_keys(found: Parameters, given: Mapping[str, Any]) -> Parameters:
    """Leave out parameters with a default that take a key of random numbers, as functions of JAX arrays have."""
    keys = {name for name in random_names(found) if found[name].default is not found[name].empty and name not in given}
    return {name: parameter for name, parameter in found.items() if name not in keys}


def _has_two_axes(function: Any, name: str) -> bool:
    """Return whether code takes both axes of an argument called lengths, which is a mask (B, S) then."""
    return bool(name) and re.search(rf"\b{re.escape(name)}\[\s*:\s*,\s*:", frameworks.source_of(function)) is not None


def _parts(role: str | None) -> tuple[str, ...]:
    return ROLES if role == "packed" else (role or "",)


def _packed(arrays: np.ndarray, form: str) -> np.ndarray:
    """Return query, key and value packed into one array. `3` in the form is the axis that stacks them."""
    letters = "PHIO" if arrays.ndim == 4 else "PHO"
    return to_form(arrays, letters, form.replace("3", "P"))


def held_by(function: Any) -> str:
    """Return the name of an object that a function or a callable object keeps, and that may contain weights, or "".

    >>> import numpy as np
    >>> kernel, scale = np.eye(3), 0.5
    >>> held_by((lambda kernel: lambda x: x @ kernel)(kernel)), held_by((lambda scale: lambda x: x * scale)(scale))
    ('kernel', '')
    """
    while isinstance(function, functools.partial):
        function = function.func
    plain = (str, bytes, numbers.Number, type, type(None), tuple, types.ModuleType)
    held = frameworks.around(function) if hasattr(function, "__code__") else dict(vars(function))
    for name, value in held.items():
        empty = hasattr(value, "parameters") and not [*value.parameters()]  # such as a dropout layer
        if not (isinstance(value, plain) or inspect.isroutine(value) or empty):
            return name
    return ""
