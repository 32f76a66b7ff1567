"""The weights that a layer holds: which is which, in what form, and the way from and to the canonical layout.

A weight is known by its name, by the name of the attribute that its sublayer has, or by the order in which a layer is
usually written: query, key, value, output.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES
from kmha.verify.diagnosing import forms, naming

ALL = (*ROLES, "attention_output")
PACKED = ("packed", "attention_output")
_INPUT = {"packed": "I query", "attention_output": "I query", "key_value": "I key"}


class UnknownWeightsError(ValueError):
    """A layer's weights are not those of an attention layer."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """One array of a layer: its path by attributes, and how to set and read it.

    `transposed` says whether a matrix is (out, in), as in torch's `Linear`; `None` where nothing tells;
    `used`, whether the layer's call made it.
    """

    path: str
    shape: tuple[int, ...]
    assign: Callable[[np.ndarray], None]
    read: Callable[[], np.ndarray]
    transposed: bool | None = False
    used: bool = True

    def told_by(self, other: tuple[int, ...]) -> "Variable":
        """With `transposed` known by its shape in a layer with more input features."""
        longer = [mine != theirs for mine, theirs in zip(self.shape, other, strict=False)]
        if self.transposed is not None or len(longer) != 2 or sum(longer) != 1:
            return self
        return dataclasses.replace(self, transposed=longer[1])


@dataclasses.dataclass(frozen=True)
class Slot:
    """What one variable is: a projection's kernel or bias, in a form; of one head, where each has its own."""

    variable: Variable
    role: str
    is_bias: bool
    form: str
    head: int | None = None

    @property
    def name(self) -> str:
        return f"{self.role}/{'bias' if self.is_bias else 'kernel'}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the canonical weights that it holds."""
        kind = "bias" if self.is_bias else "kernel"
        return tuple(f"{role}/{kind}" for role in forms.PACKS.get(self.role, (self.role,)))

    @property
    def letters(self) -> str:
        if self.role == "attention_output":
            return "E" if self.is_bias else "HOE"
        letters = "HO" if self.is_bias else "HIO"
        if self.shared:
            return letters.replace("H", "").replace("I", "P")
        return f"{len(forms.PACKS[self.role])}{letters}" if self.role in forms.PACKS else letters

    @property
    def shared(self) -> bool:
        """Whether it is one small kernel for all heads, each of which has its part of the features."""
        return self.form in (*forms.SHARED, forms.SHARED_BIAS)

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets the variable from canonical weights; a bias that these lack is zeros."""
        if self.role in forms.PACKS:
            canonical = np.stack([weights.get(name, np.zeros(())) for name in self.names])
        elif self.name in weights:
            canonical = weights[self.name]
        else:
            self.variable.assign(np.zeros(self.variable.shape))
            return
        if self.head is not None:
            canonical = canonical[self.head : self.head + 1]
        if self.shared:
            canonical = canonical[0] if self.is_bias else canonical[0, : canonical.shape[1] // len(canonical)]
        self.variable.assign(forms.fill(canonical, self.letters, self.form))

    def read(self, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        """The canonical weights that the variable holds."""
        if self.shared:
            sizes = {**sizes, "P": sizes["I"] // sizes["H"]}
        array = forms.read(self.variable.read(), self.letters, self.form, sizes)
        if self.shared:
            return {self.name: np.stack([array] * sizes["H"]) if self.is_bias else _in_blocks(array, sizes["H"])}
        if self.role in forms.PACKS:
            return dict(zip(self.names, array, strict=True))
        return {self.name: array}


def _in_blocks(array: np.ndarray, heads: int) -> np.ndarray:
    """(H, I, O) of a kernel (P, O) that every head lays over its own part of the features."""
    part, size = array.shape
    blocks = np.zeros((heads, heads, part, size), array.dtype)
    blocks[np.arange(heads), np.arange(heads)] = array
    return blocks.reshape(heads, heads * part, size)


def arrangements(variables: Sequence[Variable], sizes: Mapping[str, int]) -> list[list[Slot]]:
    """All that the variables can be, the likeliest first.

    Args:
        variables: of the layer, in the order in which they were made.
        sizes: by letter: H, O, E, and I by role as "I query", "I key", "I value".

    Raises:
        UnknownWeightsError: nothing fits; it lists the weights.
    """
    untold = any(variable.transposed is None and len(variable.shape) == 2 for variable in variables)
    found = [
        slots
        for roles in _roles(variables)
        for order in (forms.ORDERS if any(role in forms.PACKS for role, _, _ in roles) else forms.ORDERS[:1])
        for transposed in ((False, True) if untold else (False,))
        if (slots := _fitted(variables, roles, sizes, order, transposed))
    ]
    if not found and variables:
        raise UnknownWeightsError(
            "the weights are not those of multi-head attention in any form that is known. Expected kernels for query, "
            f"key, value and output, such as (I, H·O), (H, I, O), or (H·O, I), with {_said(sizes)}. Received: "
            f"{listed(variables)}."
        )
    return found or [[]]


def listed(variables: Sequence[Variable]) -> str:
    """Their paths and shapes."""
    return ", ".join(f"{variable.path} {variable.shape}" for variable in variables) or "none"


def _said(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{letter}={size}" for letter, size in sizes.items())


def _roles(variables: Sequence[Variable]) -> Iterator[list[Any]]:
    """Which projection each variable belongs to: by name; those without one in every order."""
    named = [naming.weight(variable.path) for variable in variables]
    heads = [head_of(variable.path, variables) for variable in variables]
    known = [(role, is_bias, head) for (role, is_bias), head in zip(named, heads, strict=True)]
    owners: dict[str, list[int]] = {}
    for index, variable in enumerate(variables):
        if not named[index][0]:
            owner = re.sub(r"[/.]?[^/.]*$", "", variable.path) or naming.without_kind(variable.path)
            owners.setdefault(owner, []).append(index)
    found = {part for role, _ in named if role for part in (role, *forms.PACKS.get(role, ()))}
    packed = "packed" in found or len(owners) + len(found) <= len(PACKED)
    rest = [role for role in (PACKED if packed else ALL) if role not in found]
    for order in itertools.permutations(rest, len(owners)):
        if not ({*ROLES} <= {*found, *order} or "packed" in {*found, *order}):
            continue  # without an output projection there may be others, without these there are none
        roles: list[Any] = list(known)
        for role, indices in zip(order, owners.values(), strict=True):
            for index in indices:
                largest = max(len(variables[other].shape) for other in indices)
                is_bias = len(indices) > 1 and (named[index][1] or len(variables[index].shape) < largest)
                roles[index] = (role, is_bias, None)
        yield roles


def head_of(path: str, variables: Sequence[Variable]) -> int | None:
    """The number of the head, where there is a list of heads with weights of their own."""
    numbers = re.findall(r"[/._](\d+)(?=[/.])", path)
    pattern = re.sub(r"([/._])\d+(?=[/.])", r"\1#", path)
    alike = [other for other in variables if re.sub(r"([/._])\d+(?=[/.])", r"\1#", other.path) == pattern]
    return int(numbers[-1]) if numbers and len(alike) > 1 else None


def _fitted(
    variables: Sequence[Variable], roles: Any, sizes: Mapping[str, int], order: str, transposed: bool
) -> list[Slot] | None:
    """A slot for each variable, or `None` where a shape does not fit its part.

    `order` is that of packed forms, `transposed` is for variables that do not tell.
    """
    slots = []
    for variable, (role, is_bias, head) in zip(variables, roles, strict=True):
        mine = {**sizes, "I": sizes[_INPUT.get(role, f"I {role}")]}
        if head is not None and role != "attention_output":
            mine["H"] = 1
        mine["P"] = 0 if mine["I"] % mine["H"] else mine["I"] // mine["H"]
        fitting = forms.fitting(variable.shape, forms.names(role, is_bias), mine)
        if role in forms.PACKS:
            fitting = [form for form in fitting if forms.order(form) == order]
        # (I, H·O) and (H·O, I) have one shape where I = H·O.
        turned = transposed if variable.transposed is None else variable.transposed
        flat = [form for form in fitting if forms.is_transposed(form) == turned and form.count(",") == 1]
        if not fitting:
            return None
        chosen = flat[0] if flat and len(variable.shape) == 2 and not is_bias else fitting[0]
        slots.append(Slot(variable, role, is_bias, chosen, head if role != "attention_output" else None))
    return slots


def write(slots: Sequence[Slot], weights: Mapping[str, np.ndarray]) -> None:
    """Sets all variables."""
    for slot in slots:
        slot.write(weights)


def read(slots: Sequence[Slot], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """All weights, in the canonical layout."""
    weights: dict[str, Any] = {}
    for slot in slots:
        mine = {**sizes, "I": sizes[_INPUT.get(slot.role, f"I {slot.role}")]}
        if slot.head is None:
            weights |= slot.read(mine)
            continue
        heads = weights.setdefault(slot.name, [None] * sizes["H"])
        heads[slot.head] = slot.read({**mine, "H": 1})[slot.name][0]
    return {name: np.stack(array) if isinstance(array, list) else array for name, array in weights.items()}
