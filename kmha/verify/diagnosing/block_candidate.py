"""An encoder layer, decoder layer or embedding as a candidate: a Keras or torch class, instantiated for each trial.

The block's variables are assigned to sublayers by shape and attribute name. A variable with an axis of F features
belongs to the feed-forward network. Vectors of E numbers in a sublayer called norm or ln belong to a normalization. All
other variables belong to attention. The second attention attends to the encoder's output.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial, causal
from kmha.verify.chains.blocks import NORMS, weights_of
from kmha.verify.diagnosing import block_trials, config_objects, frameworks
from kmha.verify.diagnosing.block_trials import BlockAccepts, BlockSizes
from kmha.verify.diagnosing.calling import to_candidate_mask, values_by_role
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.conventions import PADDING_SHAPES
from kmha.verify.diagnosing.layer_candidate import LENGTH, LayerCandidate, letters
from kmha.verify.diagnosing.naming import roles_of
from kmha.verify.diagnosing.weights import Slot, UnknownWeightsError, Variable, arrangements, listed, write_weights

PADDINGS = {"B,1,T,S": "B,1,1,S", "B,T,S": "B,1,S", "T,S": "B,S"}  # a padding mask's shape for each mask's shape


class BlockCandidate(LayerCandidate):
    """An encoder layer, decoder layer or embedding as a candidate."""

    def __init__(
        self,
        thing: Any,
        name: str,
        given: Mapping[str, Any],
        meaning: str | None = None,
        said: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(thing, name, given, meaning, said)
        self.chain = chain_of(self.constructor_roles, self.roles)
        if self.chain == "decoder":  # a decoder has masks for two attentions
            self.roles = roles_of(self.call_parameters)
        defaults = {role: self.constructor_parameters[name].default for role, name in self.constructor_roles.items()}
        activation = defaults.get("activation")
        self.block_accepts = BlockAccepts(
            self.chain,
            mask=bool({"padding", "mask"} & self.roles.keys()),
            causal=bool({"look_ahead", "causal", "mask"} & self.roles.keys()),
            query_padding="look_ahead" in self.roles,
            norm_first=defaults.get("norm_first") is True,
            activation=activation if isinstance(activation, str) else "relu",
        )

    def sizes(self, rng: np.random.Generator) -> Any:
        return block_trials.draw_block_sizes(rng, self.block_accepts)

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        drawn = block_trials.draw_block(seed, self.block_accepts, sizes)
        if self.chain == "embedding":
            return drawn
        epsilon = self._epsilon(drawn[0])
        drawn = [dataclasses.replace(trial, more={**trial.more, "epsilon": epsilon}) for trial in drawn]
        if self.chain == "encoder":
            return drawn
        # A decoder layer is always causal, with or without a mask.
        return [dataclasses.replace(trial, causal=True) for trial in drawn if not trial.causal]

    def _epsilon(self, trial: Trial) -> float:
        """Return the right epsilon: the constructor's argument, or the framework's default if there is no argument."""
        usual: float = trial.more["epsilon"]
        stated = values_by_role(self.given).get("epsilon")
        if isinstance(stated, int | float):
            return stated
        if "epsilon" in self.constructor_roles:
            return usual
        try:
            with quietly():
                found = self.adapter.epsilons(self.make(trial)[0])
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return usual
        return self.adapter.epsilon if found == {self.adapter.epsilon} else usual

    def smaller_sizes(self, sizes: BlockSizes) -> Iterator[Any]:
        """Yield a few small sizes, for the smallest failing case."""
        for batch, rows, heads, size in ((1, 1, 1, 2), (1, 2, 1, 2), (2, 2, 1, 2), (1, 2, 2, 2), (2, 3, 2, 2)):
            yield BlockSizes(batch, rows, rows + 1, heads, size, heads * size, 3, heads * size, 5)

    def _constructor(self, trial: Trial) -> dict[str, Any]:
        if self.chain == "embedding":
            vocabulary, width = trial.weights["embedding/embeddings"].shape
            values = {"vocabulary": vocabulary, "width": width, "length": LENGTH, "dropout": 0.0}
        else:
            inner = trial.weights["ffn/dense1/kernel"].shape
            query = trial.weights[f"{attentions(self.chain)[0]}/query/kernel"]
            values = {
                "width": inner[0],
                "inner": inner[1],
                "heads": query.shape[0],
                "size": query.shape[2],
                "dropout": 0.0,
                "epsilon": trial.more["epsilon"],
            }
        arguments = {
            self.constructor_roles[role]: value for role, value in values.items() if role in self.constructor_roles
        }
        return config_objects.folded({**arguments, **self.given}, self.written_parameters)

    def _arguments(self, trial: Trial) -> dict[str, Any]:
        if self.chain == "embedding":
            name = next(self.roles[role] for role in ("ids", "self", "query") if role in self.roles)
            return {name: frameworks.to_tensor(trial.more["ids"], self.framework, "int64")}
        found: dict[str, Any] = {role: trial.query for role in ("self", "query") if role in self.roles}
        if self.chain == "decoder":
            found["memory" if "memory" in self.roles else "key"] = trial.key
        arguments = {self.roles[role]: self.tensor(array, trial) for role, array in found.items()}
        for role, mask in self._masks(trial).items():
            if role in self.roles and mask is not None:
                arguments[self.roles[role]] = self.tensor(to_candidate_mask(self, mask, trial), trial)
        if "training" in self.roles:
            arguments[self.roles["training"]] = False
        if "causal" in self.roles and trial.causal:
            arguments[self.roles["causal"]] = True
        return arguments

    def _masks(self, trial: Trial) -> dict[str, np.ndarray | None]:
        """Return the self-attention mask and the padding mask, in the shapes that are being tried."""
        rows = trial.query.shape[1]
        square = np.ones((len(trial.query), rows, rows), bool)
        if trial.causal and "causal" not in self.roles:
            square &= causal(rows, rows)
        if self.chain == "decoder":
            target = trial.query_mask
            hidden = trial.causal or target is not None
            square = square if target is None else square & target[:, None]
            return {
                "look_ahead": self._square(square) if hidden else None,
                "padding": self._padding(trial.key_mask),
                "mask": self._padding(trial.key_mask),
            }
        if trial.causal and "causal" not in self.roles:
            square = square if trial.key_mask is None else square & trial.key_mask[:, None]
            return {"mask": self._square(square), "look_ahead": self._square(square)}
        return {"mask": self._padding(trial.key_mask), "padding": self._padding(trial.key_mask)}

    def _square(self, mask: np.ndarray) -> np.ndarray:
        return mask[:, None] if self.convention.mask_shape == "B,1,T,S" else mask

    def _padding(self, mask: np.ndarray | None) -> np.ndarray | None:
        return None if mask is None else PADDING_SHAPES[PADDINGS[self.convention.mask_shape]](mask)

    def _read(self, convention: int = 0) -> dict[str, np.ndarray]:
        raise ValueError(
            f"{self.name}: expected the class of a block. Received: a built layer, whose weights cannot be set."
        )

    def make(self, trial: Trial) -> tuple[Any, list[Slot]]:
        key = tuple((name, array.shape) for name, array in trial.weights.items())
        if (key, self.convention.dtype) not in self.cache:
            layer = self.adapter.new(self.layer_class, self._constructor(trial), self.convention.dtype)
            self.adapter.build(layer, self._arguments(trial), self.convention.dtype)
            self.cache[key, self.convention.dtype] = layer, self._parts(layer, trial)
        layer, parts = self.cache[key, self.convention.dtype]
        slots: list[Slot] = []
        for prefix, part in parts.items():
            weights = weights_of(trial.weights, prefix)
            write_weights(part, weights) if prefix.startswith("mha") else [slot.write(weights) for slot in part]
            slots += part
        return layer, slots

    def _parts(self, layer: Any, trial: Trial) -> dict[str, Any]:
        """Return the slots of each sublayer, keyed by the prefix of the sublayer's canonical weights."""
        variables = self.adapter.variables(layer)
        if self.chain == "embedding":
            shape = trial.weights["embedding/embeddings"].shape
            table = [variable for variable in variables if variable.shape == shape]
            if len(table) != 1:
                raise UnknownWeightsError(f"expected one embedding table {shape}. Received: {listed(variables)}.")
            return {"embedding": [PlainSlot(table[0], "embeddings")]}
        groups = grouped(variables, trial, self.chain)
        parts: dict[str, Any] = {}
        for prefix in attentions(self.chain):
            weights = weights_of(trial.weights, prefix)
            parts[prefix] = arrangements(groups[prefix], letters(weights))[0]
        parts["ffn"] = [PlainSlot(v, name, self.adapter.transposed and len(v.shape) == 2) for name, v in groups["ffn"]]
        for prefix in filter(None, NORMS[self.chain]):
            parts[prefix] = [PlainSlot(variable, name) for name, variable in groups[prefix]]
        return parts


def chain_of(made: Mapping[str, str], called: Mapping[str, str]) -> str:
    """Return the kind of block that a class is, judged by its argument names, or "attention" if it is not a block.

    >>> chain_of({"inner": "dff", "heads": "num_heads"}, {"self": "x", "memory": "enc_output"})
    'decoder'
    """
    if "inner" in made:
        return "decoder" if "memory" in called or "key" in called else "encoder"
    return "embedding" if "vocabulary" in made and "heads" not in made else "attention"


@dataclasses.dataclass(frozen=True)
class PlainSlot:
    """A variable that contains one whole canonical array, or the transpose of the array."""

    variable: Variable
    name: str
    transposed: bool = False

    def write(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the variable from canonical weights."""
        array = weights[self.name]
        self.variable.assign(array.T if self.transposed else array)


def attentions(chain: str) -> tuple[str, ...]:
    """Return the prefixes of the canonical weights of a chain's attentions."""
    return {"encoder": ("mha",), "decoder": ("mha1", "mha2"), "embedding": ()}[chain]


def grouped(variables: Sequence[Variable], trial: Trial, chain: str) -> dict[str, Any]:
    """Group the variables of attentions, "ffn" and normalizations by the prefix of their canonical weights.

    Raises:
        UnknownWeightsError: A sublayer has too few or too many variables.
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
            f"expected the weights of {len(attentions(chain))} attentions, two dense layers with {inner} hidden "
            f"features, and {len(names)} normalizations of {width} features. Received: {listed(variables)}."
        )
    found: dict[str, Any] = dict(zip(attentions(chain), blocks, strict=True))
    found["ffn"] = list(forward.items())
    found |= {prefix: [] for prefix in names}  # a single normalization gets the weights of the first normalization
    for prefix, pair in zip(names, norms.values(), strict=False):
        by_name = {variable.path.rpartition(".")[2]: variable for variable in pair}
        called = {"gamma": ("gamma", "weight", "scale"), "beta": ("beta", "bias", "offset")}
        found[prefix] = [(name, by_name[each]) for name, keys in called.items() for each in keys if each in by_name]
    return found


def _feed_forward(variables: Sequence[Variable], inner: int) -> dict[str, Variable]:
    """Return the two kernels with an axis of F features, and the biases that belong to them."""
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
    """Group the variables into `count` attentions, according to the attributes of the block that lead to them."""
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
