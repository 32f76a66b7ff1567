"""Which of a block's variables are of which sublayer: attentions, the feed-forward network, normalizations.

They are known by their shapes and the names of their attributes: what has an axis of F features is of the feed-forward
network, vectors of E in a layer called norm or ln are a normalization's, the rest is attention, the second one that of
the encoder's output.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.chains.blocks import NORMS
from kmha.verify.diagnosing import held
from kmha.verify.diagnosing.held import UnknownWeightsError, Variable


@dataclasses.dataclass(frozen=True)
class Whole:
    """A variable that is one canonical array as it is, or its transpose."""

    variable: Variable
    name: str
    transposed: bool = False

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Sets it."""
        array = weights[self.name]
        self.variable.assign(array.T if self.transposed else array)


def attentions(chain: str) -> tuple[str, ...]:
    """The prefixes of their canonical weights."""
    return {"encoder": ("mha",), "decoder": ("mha1", "mha2"), "embedding": ()}[chain]


def grouped(variables: Sequence[Variable], trial: Trial, chain: str) -> dict[str, Any]:
    """The variables by the prefix of their canonical weights: attentions, "ffn", and normalizations.

    Raises:
        UnknownWeightsError: there are too few or too many of something; it lists the weights.
    """
    width, inner = trial.weights["ffn/dense1/kernel"].shape
    norms: dict[str, list[Variable]] = {}
    rest: list[Variable] = []
    for variable in variables:
        owner = variable.path.rpartition(".")[0]
        last = variable.path.rpartition(".")[2]
        if last in ("gamma", "beta") or re.search(r"norm|(^|[._])ln", owner.lower()):
            norms.setdefault(owner, []).append(variable)
        else:
            rest.append(variable)
    forward = _feed_forward(rest, inner)
    attention = [variable for variable in rest if variable not in forward.values()]
    names = [prefix for prefix in NORMS[chain] if prefix]
    blocks = _by_attribute(attention, len(attentions(chain)))
    if len(forward) != 4 or len(norms) not in (1, len(names)) or blocks is None:
        raise UnknownWeightsError(
            f"expected the weights of {len(attentions(chain))} attentions, two dense layers with {inner} features in "
            f"between, and {len(names)} normalizations of {width}. Received: {held.listed(variables)}."
        )
    found: dict[str, Any] = dict(zip(attentions(chain), blocks, strict=True))
    found["ffn"] = list(forward.items())
    found |= {prefix: [] for prefix in names}  # one that serves all places has the first one's weights
    for prefix, pair in zip(names, norms.values(), strict=False):
        by_name = {variable.path.rpartition(".")[2]: variable for variable in pair}
        called = {"gamma": ("gamma", "weight"), "beta": ("beta", "bias")}
        found[prefix] = [(name, by_name[each]) for name, keys in called.items() for each in keys if each in by_name]
    return found


def _feed_forward(variables: Sequence[Variable], inner: int) -> dict[str, Variable]:
    """Two kernels with F features on one side, and the biases beside them."""
    found: dict[str, Variable] = {}
    kernels = [variable for variable in variables if len(variable.shape) == 2 and inner in variable.shape]
    for number, kernel in enumerate(kernels[:2], 1):
        owner = kernel.path.rpartition(".")[0]
        found[f"dense{number}/kernel"] = kernel
        for variable in variables:
            if variable is not kernel and variable.path.rpartition(".")[0] == owner and len(variable.shape) == 1:
                found[f"dense{number}/bias"] = variable
    return found


def _by_attribute(variables: Sequence[Variable], count: int) -> list[list[Variable]] | None:
    """In as many groups as there are attentions, by the attribute of the block that they are in."""
    groups: dict[str, list[Variable]] = {}
    for variable in variables:
        groups.setdefault(variable.path.split(".")[0], []).append(variable)
    if count == 1:
        return [list(variables)]
    if len(groups) != count:
        return None
    crossing = [name for name in groups if re.search(r"cross|enc|memory|src", name.lower())]
    order = sorted(groups, key=lambda name: name in crossing) if len(crossing) == 1 else list(groups)
    return [groups[name] for name in order]
