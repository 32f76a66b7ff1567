"""A function of arrays as a candidate: NumPy, TensorFlow, torch or JAX, with its weights among the arguments, or none.

Arguments are known by their names (`kmha.verify.naming`): `attention(q, k, v, mask=None)` is scaled dot-product
attention; with `w_q, w_k, w_v, w_o`, or a dict `weights` with canonical names, it is the whole layer.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify import forms, frameworks, naming, reproduction, trials
from kmha.verify.chain import ROLES, Trial
from kmha.verify.subjects import (
    Convention,
    Subject,
    SubjectError,
    check_known,
    inputs,
    masks,
    parameters,
    roles_of,
)
from kmha.verify.trials import Accepts, Sizes

ALL = (*ROLES, "attention_output")


class FunctionSubject(Subject):
    """See the module's docstring."""

    def __init__(self, function: Callable[..., Any], name: str, given: Mapping[str, Any], hides: bool = False) -> None:
        self.function, self.name, self.given, self.hides = function, name, dict(given), hides
        self.framework = frameworks.of(function)
        self.found = parameters(function)
        self.roles = {role: name for role, name in roles_of(self.found).items() if name not in given}
        # `k` is a key, but where there is another argument for keys it may be a weight: names of weights come second.
        rest = [name for name in self.found if name not in self.roles.values() and name not in given]
        self.weight_names = {name: naming.weight(name) for name in rest if naming.weight(name)[0]}
        check_known(f"{name}()", self.found, {*self.roles.values(), *self.weight_names}, given)
        self.core = not self.weight_names and "weights" not in self.roles
        self.accepts = self._accepts()
        self._check_inputs()
        self.convention = Convention(weights=self.weight_conventions()[0])

    def _accepts(self) -> Accepts:
        roles = self.roles
        cross = ("query" in roles and "key" in roles) or "memory" in roles
        return Accepts(
            cross=cross,
            value="value" in roles,
            mask="mask" in roles,
            causal="causal" in roles,
            padding="padding" in roles,
            query_padding="query_padding" in roles,
            training="training" in roles and "dropout" in roles,
        )

    def _check_inputs(self) -> None:
        if not {"query", "self"} & self.roles.keys():
            raise SubjectError(
                f"{self.name}() has no argument for its input: expected names such as `query, key, value` or `x`. "
                f"Received: {', '.join(self.found) or 'no arguments'}."
            )
        known = {role for role, _ in self.weight_names.values()}
        if known and not (known >= set(ALL) - {"attention_output"} or "packed" in known):
            missing = ", ".join(role for role in ROLES if role not in known)
            raise SubjectError(f"{self.name}() has weights, but none for {missing}: name it w_q, w_k, w_v or w_o.")

    def sizes(self, rng: np.random.Generator) -> Sizes:
        return trials.draw_sizes(rng, self.accepts, use_bias=self._biased())

    def _biased(self) -> bool:
        return "weights" in self.roles or any(is_bias for _, is_bias in self.weight_names.values())

    def weight_conventions(self) -> list[Any]:
        """(form of kernels into heads, form of the output kernel)."""
        if not self.weight_names:
            return [None]
        flat = "heads" in self.roles
        packed = any(role == "packed" for role, _ in self.weight_names.values())
        into = forms.PACKED if packed else (("I,HO", "HO,I", *forms.KERNELS) if flat else forms.KERNELS)
        out = ("HO,E", "E,HO", "H,O,E") if flat else forms.OUTPUT_KERNELS
        pairs = list(itertools.product(dict.fromkeys(into), out))
        # Those that go together come first: both flat, both transposed, both with an axis of heads.
        return sorted(
            pairs,
            key=lambda pair: ("H," in pair[0], pair[0].startswith("HO")) != ("H," in pair[1], pair[1].startswith("E")),
        )

    def arguments(self, trial: Trial) -> dict[str, Any]:
        """All that the call takes."""
        found = {**self.given, **inputs(self, self.roles, trial), **masks(self, self.roles, trial)}
        heads = trial.query.shape[1] if trial.core else trial.weights["query/kernel"].shape[0]
        if "heads" in self.roles:
            found[self.roles["heads"]] = int(heads)
        if "dropout" in self.roles:
            found[self.roles["dropout"]] = trial.rate
        if "weights" in self.roles and not self.core:
            tensors = {name: self.tensor(array, trial) for name, array in trial.weights.items()}
            found[self.roles["weights"]] = tensors
        for name, (role, is_bias) in self.weight_names.items():
            found[name] = self.tensor(self._weight(role or "", is_bias, trial), trial)
        return found

    def _weight(self, role: str, is_bias: bool, trial: Trial) -> np.ndarray:
        into, out = self.convention.weights
        kind = "bias" if is_bias else "kernel"
        weights = trial.weights
        flat = "heads" in self.roles
        if role == "packed":
            arrays = np.stack([weights[f"{part}/{kind}"] for part in ROLES])
            form = (forms.order(into) if flat else "3,H,O") if is_bias else into
            return _packed(arrays, form)
        array = weights[f"{role}/{kind}"]
        if role == "attention_output":
            return array if is_bias else forms.fill(array, "HOE", out)
        return forms.fill(array, "HO", "HO" if flat else "H,O") if is_bias else forms.fill(array, "HIO", into)

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        arguments = self.arguments(trial)
        tensors = [value for value in arguments.values() if hasattr(value, "shape")]
        copies = [(tensor, frameworks.back(tensor).copy()) for tensor in tensors]
        order = [n for n, p in self.found.items() if p.kind is p.POSITIONAL_ONLY and n in arguments]
        return self.function(*(arguments.pop(name) for name in order), **arguments), copies

    def code(self, trial: Trial) -> list[str]:
        lines, given = reproduction.assignments(self.arguments(trial), self.framework)
        called = f"result = {self.name}({', '.join(given)})"
        return [*reproduction.imports(self.function, self.framework), *lines, called]


def _packed(arrays: np.ndarray, form: str) -> np.ndarray:
    """Query, key and value in one array; `3` in the form is the axis that they are stacked along."""
    letters = "PHIO" if arrays.ndim == 4 else "PHO"
    return forms.fill(arrays, letters, form.replace("3", "P"))
