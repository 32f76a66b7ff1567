"""An encoder layer or decoder layer as a candidate: a Keras or torch class, or a built layer.

The block's weights are set for each trial. `kmha.verify.diagnosing.block_weights` finds out which weights belong to
which sublayer. A class is instantiated for each trial. A built layer keeps its sizes, and a copy of it is diagnosed.
"""

import contextlib
import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial, causal
from kmha.verify.chains.blocks import NORMS, weights_of
from kmha.verify.diagnosing import block_trials, frameworks, naming
from kmha.verify.diagnosing.block_trials import BlockAccepts, BlockSizes
from kmha.verify.diagnosing.block_weights import (
    Sublayers,
    check_attends,
    owner,
    squeezed,
    sublayers,
    unused_owners,
    width_of,
)
from kmha.verify.diagnosing.calling import (
    EMPTY,
    CandidateError,
    guessed_arguments,
    lengths_of,
    mode_arguments,
    to_candidate_mask,
    values_by_role,
    without_flags,
)
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.choice_evidence import ROTATION, code_of, likely_combinations
from kmha.verify.diagnosing.conventions import BATCH, PADDING_SHAPES, SINGLE, TIME
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.evidence.source_text import stated_bases
from kmha.verify.diagnosing.layer_candidate import EPSILON_NAMES, LayerCandidate, letters
from kmha.verify.diagnosing.stated_sizes import number_of_heads, with_objects_inside
from kmha.verify.diagnosing.trials import SQUARE
from kmha.verify.diagnosing.weights import (
    Slot,
    UnknownWeightsError,
    Variable,
    arrangements,
    heads_by_size,
    likely_heads,
    listed,
    listed_heads,
    possible,
)

OF_ITSELF = re.compile("(^|_)(self|slf)")  # beginnings of the name of self-attention's mask
PADDINGS = {"B,1,T,S": "B,1,1,S", "B,T,S": "B,1,S", "T,S": "B,S"}  # a padding mask's shape for each mask's shape
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12)  # epsilons that many packages use
LARGEST = 0.01
CROSSING = "crossing"  # `chain` of an encoder layer that cannot do without its optional memory
MAX_READINGS = 12  # maximum number of arrangements of the weights to try

Reading = dict[str, list[Any]]  # slots of each sublayer, keyed by the prefix of its canonical weights


class BlockCandidate(LayerCandidate):
    """An encoder layer or decoder layer as a candidate.

    Attributes:
        may_cross: Whether an encoder layer has an argument for a memory, which it does not get.
        kept: Variables of a built layer that cannot be copied, with their values, which each call restores.
        unused: Paths of sublayers whose weights have no effect.
        unknown_epsilon: Whether neither an argument nor an attribute states the epsilon of the normalizations.
    """

    kept: Sequence[tuple[Variable, np.ndarray]] = ()
    unknown_epsilon = False
    unused: frozenset[str] = frozenset()

    def __init__(self, thing: Any, name: str, given: Mapping[str, Any], *said: Any, chain: str = "") -> None:
        super().__init__(thing, name, given, *said)
        self.chain = "encoder" if chain == CROSSING else chain or chain_of(self.constructor_roles, self.roles)
        memory = self._memory() if self.chain == "encoder" else None
        crossing = memory is not None and (chain == CROSSING or memory.default is EMPTY)
        self.may_cross = memory is not None and not crossing
        if self.chain == "decoder":  # a decoder has masks for two attentions
            named = without_flags(self._named_inputs())
            self.roles = with_mask_of_target({**self.by_place, **naming.roles_of(named, self.said)}, named)
        elif crossing:
            if "memory_mask" in self.roles and "mask" not in self.roles:
                self.roles = {"mask" if role == "memory_mask" else role: name for role, name in self.roles.items()}
        elif "memory" in self.roles:  # it can also be a decoder, whose memory and mask of the memory are not passed
            others = naming.roles_of(name for name in self.call_parameters if not naming.OF_MEMORY.search(name.lower()))
            self.roles = {role: name for role, name in self.roles.items() if name in others.values()}
        if self.chain == "encoder" and not crossing and "target_padding" in self.roles:
            self.roles = {"padding": self.roles["target_padding"], **self.roles}
        defaults = {role: self.constructor_parameters[name].default for role, name in self.constructor_roles.items()}
        activation = defaults.get("activation")
        masks: set[str] = set() if self.mask_flag else {*self.roles}
        self.block_accepts = BlockAccepts(
            self.chain,
            mask=bool({"padding", "mask", "memory_mask", "lengths"} & masks),
            causal=bool({"look_ahead", "mask"} & masks) or (not crossing and "causal" in self.roles),
            query_padding=bool({"look_ahead", "target_padding"} & masks),
            crossing=crossing,
            norm_first=defaults.get("norm_first") is True,
            activation=activation if isinstance(activation, str) else "relu",
        )

    def _memory(self) -> inspect.Parameter | None:
        """Return the call's parameter for a memory beside its input."""
        name = next((self.roles[role] for role in ("memory", "key") if role in self.roles), "")
        return self.call_parameters[name] if name and {"self", "query"} & self.roles.keys() else None

    @property
    def built(self) -> bool:
        """True for a layer that is already built, whose sizes are fixed."""
        return not isinstance(self.thing, type)

    @property
    def has_fixed_sizes(self) -> bool:
        """True for a built layer, and for a class whose constructor takes no sizes."""
        return self.built or not {"width", "inputs", "output", "size", "heads"} & self.constructor_roles.keys()

    @property
    def memory_is_optional(self) -> bool:
        """True for a decoder layer that can be called without a memory."""
        memory = self.call_parameters.get(self.roles.get("memory", ""))
        return self.chain == "decoder" and memory is not None and memory.default is not EMPTY

    def input_layouts(self) -> list[dict[str, Any]]:
        entries = [*((TIME, BATCH) if self._is_time_first() else (BATCH, TIME)), SINGLE]
        entries = [each for each in entries if each != TIME or not self.says_batch_first]
        return [{"entry": entry, "guessed": guessed} for entry in entries for guessed in self._call_guesses()]

    def _is_time_first(self) -> bool:
        """Return whether an attention inside a built layer takes its positions first, as torch's do by default."""
        if not self.built:
            return False
        parts = self.adapter.parts(self.thing)
        return any(getattr(part, "batch_first", None) is False for part in parts)

    def sizes(self, rng: np.random.Generator) -> Any:
        drawn = block_trials.draw_block_sizes(rng, self.block_accepts)
        drawn = drawn if self.built else self._with_given(drawn)
        if self.convention.sizes == SQUARE:
            drawn = dataclasses.replace(drawn, rows=self.square_length, columns=self.square_length)
        trial = block_trials.draw_block(0, self.block_accepts, drawn)[0]
        try:
            try:
                return self._sizes_with(trial, drawn)
            except UnknownWeightsError:
                if not self._find_unused(trial):
                    raise
                return self._sizes_with(trial, drawn)
        except UnknownWeightsError as error:
            if self.built:
                raise CandidateError(f"{self.name}: {error}") from None
            self.weights_error = error
        except CandidateError:
            raise
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            if self.built:
                raise
            if self._reads_size_as_width():
                return self.sizes(rng)
        return drawn

    def _reads_size_as_width(self) -> bool:
        """Take an argument such as `key_dim` for the width if nothing else is, and return whether this changed it."""
        roles = self.constructor_roles
        if "size" not in roles or {"width", "inputs", "output"} & roles.keys():
            return False
        self.constructor_roles = {"width" if role == "size" else role: name for role, name in roles.items()}
        return True

    def _sizes_with(self, trial: Trial, drawn: BlockSizes) -> BlockSizes:
        with quietly():
            if self.built:
                return self._sizes_of(self.thing, drawn)
            made = self._unbuilt(trial) if self.has_fixed_sizes else None
            if made is None or not self._variables(made):  # Keras makes the weights in the first call
                made = self._new_in_any_dtype(trial)
            return self._sizes_of(made, drawn)

    def _with_weights(self, trial: Trial) -> Any:
        """Return a new layer in the convention's dtype. Its weights tell the sizes even if the call needs a mask."""
        try:
            return self._new(trial)
        except (Exception, SystemExit):  # untrusted code may raise anything
            made = self._unbuilt(trial)
            if not (self.block_accepts.mask and self._variables(made)):
                raise
            return made

    def _variables(self, layer: Any) -> list[Variable]:
        return [each for each in self.adapter.variables(layer) if owner(each) not in self.unused]

    def _find_unused(self, trial: Trial) -> bool:
        """Find the sublayers whose weights have no effect, such as a cross-attention that is not asked for.

        Return whether there are any.
        """
        try:
            with quietly():
                layer = self._new(trial)
                arguments = self._arguments(trial)
                variables = self.adapter.variables(layer)
                self.unused = unused_owners(variables, lambda: self.adapter.call(layer, arguments, False))
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            pass
        return bool(self.unused)

    def _with_given(self, drawn: BlockSizes) -> BlockSizes:
        """Return the drawn sizes, with the sizes among the constructor's given arguments in their places."""
        names = naming.roles_of(self.constructor_parameters, self.said)
        given = {role: self.given[name] for role, name in names.items() if isinstance(self.given.get(name), int)}
        heads = given.get("heads", drawn.heads)
        widths = [given[role] for role in ("width", "inputs", "output") if given.get(role)]
        width = widths[0] if widths else heads * given.get("size", drawn.size)
        heads = next(number for number in (heads, 2, 3, 1) if width % number == 0)
        inner = given.get("inner", drawn.inner)
        return dataclasses.replace(drawn, heads=heads, width=width, size=width // heads, memory=width, inner=inner)

    def _new(self, trial: Trial) -> Any:
        """Return a layer with the trial's sizes, built by a first call.

        Some code raises an error without a mask, or, since it confuses the masks of two attentions, unless T = S.
        """
        layer = self._unbuilt(trial)
        plain = dataclasses.replace(trial, key_mask=None, query_mask=None, causal=False)
        same = dataclasses.replace(plain, key=plain.query, value=plain.query)
        ways = [plain, trial, same] if same.key.shape[-1] == trial.key.shape[-1] else [plain, trial]
        for each in ways[:-1]:
            with contextlib.suppress(Exception, SystemExit):  # untrusted code may raise anything
                self.adapter.build(layer, self._arguments(each), self.convention.dtype)
                return layer
        self.adapter.build(layer, self._arguments(ways[-1]), self.convention.dtype)
        return layer

    def _new_in_any_dtype(self, trial: Trial) -> Any:
        """Return a new layer in the convention's dtype, or in float32 if its code computes in float32 alone."""
        start = self.convention
        try:
            return self._new(trial)
        except (Exception, SystemExit):  # untrusted code may raise anything
            self.use_convention(dataclasses.replace(start, dtype="float32"))
            return self._with_weights(trial)
        finally:
            self.use_convention(start)

    def _sizes_of(self, layer: Any, drawn: BlockSizes) -> BlockSizes:
        """Return the drawn sizes, with the sizes that the layer's weights have in their places."""
        variables = self._variables(layer)
        check_attends(self.name, variables)
        heads = self._heads(layer, drawn)
        if not variables:  # a built Keras layer that was never called
            drawn = dataclasses.replace(drawn, heads=heads, width=heads * drawn.size)
            layer = self._new(block_trials.draw_block(0, self.block_accepts, drawn)[0])
            variables = self._variables(layer)
        width = (width_of(variables) or drawn.width) if self.has_fixed_sizes else drawn.width
        found = self._sublayers(variables, width, None if self.has_fixed_sizes else drawn.inner)
        size = head_size(found.attentions[0][0], heads, width)
        gated = any("gate/kernel" in slot.parts for slot in found.forward[0])
        norms = len(found.norms[0])
        extra = max(0, norms - len([prefix for prefix in NORMS[self.chain] if prefix]))
        changes = {"width": width, "memory": width, "inner": found.inner, "heads": heads, "size": size}
        taken = {width, heads, size, found.inner}
        batch, *lengths = [number for number in (2, 3, 4, 5, 7, 9, 11) if number not in taken][-4:]
        if self.has_fixed_sizes and self.convention.sizes != SQUARE:
            changes |= {"batch": batch, "rows": lengths[1], "columns": lengths[0]}
        return dataclasses.replace(drawn, **changes, gated=gated, extra=extra)

    def _heads(self, layer: Any, drawn: BlockSizes) -> int:
        """Return the layer's number of heads: an argument, or an attribute of the layer or of a part of it.

        Raises:
            CandidateError: Nothing states the number.
        """
        fixed = self.fixed.get("heads")
        if fixed or ("heads" in self.constructor_roles and not self.built):
            return int(fixed or drawn.heads)
        parts = [each for each in (layer, *self.adapter.parts(layer)) if hasattr(each, "__dict__")]
        for part in parts:
            described = [each for each in vars(part).values() if hasattr(each, "__dict__") and not callable(each)]
            for each in (part, *described):
                if heads := number_of_heads(each, self.given):
                    return heads
        queries = [each for each in self._variables(layer) if naming.weight(each.path)[0] == "query"]
        if heads := heads_by_size(layer, self.given, queries):
            return heads
        heads = listed_heads(queries)
        kernels = [sorted(squeezed(each.shape)) for each in queries if len(squeezed(each.shape)) == 2]
        if heads and all(size * heads == width for size, width in kernels):  # a list of attentions has larger kernels
            return heads
        if kernels and all(likely_heads(part, queries) == [1] for part in parts):
            return 1
        raise CandidateError(
            f"{self.name}: nothing states its number of heads. Give it: arguments={{'num_heads': …}}, or "
            "--set num_heads=H."
        )

    def _sublayers(self, variables: Sequence[Variable], width: int, inner: int | None) -> Sublayers:
        found = sublayers(variables, width, inner, len(attentions(self.chain)))
        if not found.forward:
            features = f" with {inner} hidden features" if inner else ""
            number = len(attentions(self.chain))
            raise UnknownWeightsError(
                f"expected the weights of {number} attention{'s' * (number > 1)}, two dense layers{features}, and "
                f"normalizations of {width} features. Received: {listed(variables)}."
            )
        return found

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        drawn = block_trials.draw_block(seed, self.block_accepts, sizes)
        epsilon, rotates = self._seen_in(drawn[0])
        more: dict[str, Any] = {"epsilon": epsilon, "unknown_epsilon": self.unknown_epsilon, "rotates": rotates}
        more |= {"may_be_causal": self.said_causal is not False, "bases": stated_bases(self) if rotates else ()}
        drawn = [dataclasses.replace(trial, more={**trial.more, **more}) for trial in drawn]
        if self.chain == "encoder":
            return drawn
        masks = (value for name, value in self.call_given.items() if "mask" in name)
        if self.mask_flag or self.said_causal is False or any(value is None for value in masks):
            return [trial for trial in drawn if not trial.causal]
        # A decoder layer is always causal, with or without a mask.
        return [dataclasses.replace(trial, causal=True) for trial in drawn if not trial.causal]

    def _seen_in(self, trial: Trial) -> tuple[float, bool]:
        """Return the right epsilon, and whether the code of the layer rotates queries and keys."""
        for make in (lambda: self.make(trial)[0], lambda: self._unbuilt(trial)):
            try:
                with quietly():
                    layer = make()
                    parts = self.adapter.parts(layer)
                    code = code_of(layer, parts)
                    return self._epsilon(trial, with_objects_inside([layer, *parts]), code), bool(ROTATION.search(code))
            except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
                continue
        return self._epsilon(trial, (), ""), False

    def _unbuilt(self, trial: Trial) -> Any:
        """Return a layer that was not called yet, because calls may need masks of a form that is not found yet."""
        if self.built:
            return self.adapter.working_copy(self.original)
        return self.adapter.new(self.layer_class, self._constructor(trial), self.convention.dtype)

    def _epsilon(self, trial: Trial, parts: Sequence[Any], code: str) -> float:
        """Return the right epsilon: the constructor's argument, or the one that the normalizations have."""
        usual: float = trial.more["epsilon"]
        stated = values_by_role(self.given).get("epsilon")
        if isinstance(stated, int | float):
            return stated
        if "epsilon" in self.constructor_roles and not self.built:
            return usual
        found = {epsilon for part in parts if (epsilon := epsilon_of(part)) is not None}
        found = found or epsilons_in(code)
        if len(found) == 1 and 0.0 < max(found) <= LARGEST:
            return found.pop()
        self.unknown_epsilon = bool(parts) and not found
        return usual

    def smaller_sizes(self, sizes: BlockSizes) -> Iterator[Any]:
        """Yield a few small sizes, for the smallest failing case."""
        for batch, rows, heads, size in ((1, 1, 1, 2), (1, 2, 1, 2), (2, 2, 1, 2), (1, 2, 2, 2), (2, 3, 2, 2)):
            changes: dict[str, Any] = {"batch": batch, "rows": rows, "columns": rows + 1}
            if not self.has_fixed_sizes:
                width = heads * size
                inner = 5 if "inner" in self.constructor_roles else sizes.inner * width // sizes.width
                changes |= {"heads": heads, "size": size, "width": width, "inner": inner, "memory": width}
            yield dataclasses.replace(sizes, **changes)

    def _constructor(self, trial: Trial) -> dict[str, Any]:
        inner = trial.weights["ffn/dense1/kernel"].shape
        query = trial.weights[f"{attentions(self.chain)[0]}/query/kernel"]
        values = {
            "width": inner[0],
            "output": inner[0],
            "inputs": inner[0],
            "inner": inner[1],
            "heads": query.shape[0],
            "rotary_size": query.shape[2],
            "size": query.shape[2],
            "value_size": query.shape[2],
            "dropout": trial.rate,
            "epsilon": trial.more["epsilon"],
            "use_bias": True,
            "batch_first": True,
            "depth": 1,
            "length": self.longest,
        }
        sizes = {"T": self.longest, "H": values.get("heads", 1), "I": values["width"], "O": values.get("size", 1)}
        return self.constructor_arguments(values, sizes)

    def _arguments(self, trial: Trial) -> dict[str, Any]:
        found: dict[str, Any] = {role: trial.query for role in ("self", "query") if role in self.roles}
        size = trial.weights[f"{attentions(self.chain)[0]}/query/kernel"].shape[-1]
        if self.block_accepts.has_memory:
            found |= {role: trial.key for role in ("memory", "key", "value") if role in self.roles}
        if self.convention.entry == TIME:
            found = {role: np.swapaxes(array, 0, 1) for role, array in found.items()}
        elif self.convention.entry == SINGLE:
            found = {role: array[0] for role, array in found.items()}
        arguments = {**guessed_arguments(self, trial, size), **self.call_given}
        arguments |= {self.roles[role]: self.tensor(array, trial) for role, array in found.items()}
        for role, mask in self._masks(trial).items():
            if role not in self.roles:
                continue
            name = self.roles[role]
            if mask is not None:
                tensor = self.tensor(to_candidate_mask(self, mask, trial, self._meaning(role)), trial)
                listed = role == "look_ahead" and self._takes_list(name)
                arguments[name] = [tensor, None] if listed else tensor  # one for each attention
            elif self.neutral_masks or self.call_parameters[name].default is EMPTY:
                arguments[name] = self._neutral(role, trial) if self.neutral_masks else None
        if "lengths" in self.roles:
            arguments |= lengths_of(self, self.roles["lengths"], trial)
        arguments |= mode_arguments(self.roles, trial)
        if "causal" in self.roles and (trial.causal or self.call_parameters[self.roles["causal"]].default is True):
            arguments[self.roles["causal"]] = trial.causal
        return self.packed(arguments)

    def _takes_list(self, name: str) -> bool:
        """Return whether the code takes masks one by one from an argument, such as `attn_masks[index]`."""
        used = rf"\b{name}\[|isinstance\({name}\b|len\({name}\)|(in|zip\(.*) {name}\b"
        return name.endswith("s") and bool(re.search(used, frameworks.source_of(self.layer_class)))

    def _neutral(self, role: str, trial: Trial) -> Any:
        """Return a mask that hides nothing."""
        items, rows = trial.query.shape[:2]
        every = dataclasses.replace(trial, mask=None, causal=False, key_mask=np.ones((items, trial.key.shape[1]), bool))
        mask = self._masks(dataclasses.replace(every, query_mask=np.ones((items, rows), bool)))[role]
        mask = self._square(np.ones((items, rows, rows), bool)) if mask is None else mask
        return self.tensor(to_candidate_mask(self, mask, trial, self._meaning(role)), trial)

    def _meaning(self, role: str) -> str:
        """Return the meaning of True in the mask with this role."""
        paddings = ("padding", "target_padding")
        return self.convention.padding_meaning if role in paddings else self.convention.mask_meaning

    def _masks(self, trial: Trial) -> dict[str, np.ndarray | None]:
        """Return the masks of each role, in the shapes that are being tried."""
        rows = trial.query.shape[1]
        columns = trial.key.shape[1] if self.block_accepts.crossing else rows
        square = np.ones((len(trial.query), rows, columns), bool)
        hidden = trial.causal and ("causal" not in self.roles or self.block_accepts.crossing)
        if hidden:
            square &= causal(rows, columns)
        if self.chain == "decoder":
            target, memory = trial.query_mask, self._padding(trial.key_mask, "padding" in self.roles)
            found = {"padding": memory, "mask": memory, "memory_mask": None if "padding" in self.roles else memory}
            if "target_padding" in self.roles:
                found["target_padding"] = self._padding(target, True)
            elif target is not None:
                square &= target[:, None]
                hidden = True
            return {**found, "look_ahead": self._square(square) if hidden else None}
        padding = trial.key_mask
        if "padding" in self.roles:
            looked = self._square(square) if hidden else None
            own = self._padding(padding, True)
            return {"mask": looked, "look_ahead": looked, "padding": own, "target_padding": own}
        if hidden:
            square = square if padding is None else square & padding[:, None]
            return {"mask": self._square(square), "look_ahead": self._square(square)}
        return {"mask": self._padding(padding, False), "look_ahead": None}

    def mask_shapes(self) -> list[str]:
        return [shape for shape in super().mask_shapes() if shape in PADDINGS or shape == "T,S,B"]

    def _square(self, mask: np.ndarray) -> np.ndarray:
        shape = self.convention.mask_shape
        if shape == "T,S" and (mask == mask[:1]).all():
            return mask[0]
        if self.convention.entry == TIME:
            return np.moveaxis(mask, 0, 2) if shape == "B,T,S" else mask[:, None]
        return mask[:, None] if shape == "B,1,T,S" else mask

    def _padding(self, mask: np.ndarray | None, alone: bool) -> np.ndarray | None:
        """Return a padding mask. `alone` means that the call takes another mask besides."""
        if mask is None:
            return None
        if self.convention.entry == TIME and not alone:
            return mask.T[None] if self.convention.mask_shape == "B,T,S" else mask
        shape = self.convention.mask_shape
        return PADDING_SHAPES["B,S" if alone and shape == "T,S" else PADDINGS[shape]](mask)

    def _read(self, convention: int = 0) -> Any:
        """Return `None`, because a copy of a built layer gets the weights of each trial."""
        try:
            self.thing = copied(self.thing)
        except Exception:  # Keras copies no layer of a class that it cannot import
            self.kept = [(variable, variable.read().copy()) for variable in self._variables(self.thing)]
        return None

    def call(self, trial: Trial) -> tuple[Any, list[tuple[Any, Any]]]:
        try:
            return super().call(trial)
        finally:
            for variable, array in self.kept:
                variable.assign(array)

    def weights_present(self, trial: Trial) -> frozenset[str] | None:
        try:
            reading = self._made(trial)[1]
        except (Exception, SystemExit):  # untrusted code may raise anything, and a later call reports the error
            return None
        found = {f"{prefix}/{name}" for prefix, slots in reading.items() for slot in slots for name in slot.names}
        # A normalization that serves twice has weights for both places.
        prefixes = [prefix for prefix in NORMS[self.chain] if prefix]
        kinds = {name.rpartition("/")[2] for name in found if name.startswith("layernorm")}
        return frozenset(found | {f"{prefix}/{kind}" for prefix in prefixes for kind in kinds})

    def likely_choices(self, trial: Trial) -> list[tuple[str, ...]]:
        layer = self._made(trial)[0]
        return likely_combinations(self.chain, layer, self.adapter.parts(layer), trial, self.expected)

    def make(self, trial: Trial) -> tuple[Any, list[Any]]:
        layer, reading = self._made(trial)
        slots: list[Any] = []
        for prefix, part in reading.items():
            weights = weights_of(trial.weights, prefix)
            for slot in part:
                slot.write(weights)
            slots += part
        return layer, slots

    def projections(self, trial: Trial) -> list[tuple[str, Slot]]:
        reading = self._made(trial)[1]
        return [(f"{prefix}/", slot) for prefix in attentions(self.chain) for slot in reading[prefix]]

    def _made(self, trial: Trial) -> tuple[Any, Any]:
        shapes = tuple((name, array.shape) for name, array in trial.weights.items() if name.endswith("kernel"))
        key = shapes, self.convention.dtype, self.convention.entry, trial.rate
        layer, readings = self.made_once(key, trial, lambda: self._read_new(trial))
        return layer, readings[min(self.convention.weights, len(readings) - 1)]

    def _read_new(self, trial: Trial) -> tuple[Any, list[Reading]]:
        layer = self._new(trial)
        return layer, self._readings(self._variables(layer), layer, trial)

    def _readings(self, variables: list[Variable], layer: Any, trial: Trial) -> list[Reading]:
        """Return the possible slots of each sublayer, as in the first layer, whose sizes tell its axes apart."""
        by_path = {variable.path: variable for variable in variables}
        first = self.cache.get("first")
        if first is None:
            first = self.cache["first"] = self._first_readings(variables, trial)
        slots_of_first = (slot for reading in first for slots in reading.values() for slot in slots)
        if not all(slot.variable.path in by_path for slot in slots_of_first):
            return self._first_readings(variables, trial)
        return [
            {
                prefix: [dataclasses.replace(slot, variable=by_path[slot.variable.path]) for slot in slots]
                for prefix, slots in reading.items()
            }
            for reading in first
        ]

    def _first_readings(self, variables: list[Variable], trial: Trial) -> list[Reading]:
        width, inner = trial.weights["ffn/dense1/kernel"].shape
        return readings(self._sublayers(variables, width, inner), trial, self.chain)


def readings(found: Sublayers, trial: Trial, chain: str) -> list[Reading]:
    """Return the possible slots of each sublayer, keyed by the prefix of its canonical weights, the likeliest first."""
    prefixes = attentions(chain)
    sizes = [letters(weights_of(trial.weights, prefix)) for prefix in prefixes]
    places = [prefix for prefix in NORMS[chain] if prefix]
    result: list[tuple[int, Reading]] = []
    for order, variables in enumerate(found.attentions):
        groups = [possible(group, each)[:MAX_READINGS] for group, each in zip(variables, sizes, strict=True)]
        for attention, forward, norm in itertools.product(
            enumerate(itertools.product(*groups)), enumerate(found.forward), enumerate(found.norms)
        ):
            reading: Reading = dict(zip(prefixes, attention[1], strict=False))
            reading["ffn"] = list(forward[1])
            extra = [f"extra{number}" for number in range(1, 1 + max(0, len(norm[1]) - len(places)))]
            reading |= {prefix: list(slots) for prefix, slots in zip((*places, *extra), norm[1], strict=False)}
            reading["scales"] = list(found.scales)
            result.append((order + attention[0] + forward[0] + norm[0], reading))
    return [reading for _, reading in sorted(result, key=lambda each: each[0])[:MAX_READINGS]]


def with_mask_of_target(roles: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return a decoder's roles. If a further mask is the memory's, a mask of unknown meaning is the look-ahead mask.

    Args:
        roles: Roles of the call's arguments.
        names: Names of all arguments of the call.

    >>> with_mask_of_target({"mask": "attention_mask", "memory_mask": "encoder_attention_mask"})
    {'look_ahead': 'attention_mask', 'memory_mask': 'encoder_attention_mask'}
    >>> with_mask_of_target({"self": "x", "mask": "mask"}, ["x", "mask", "memory", "src_mask"])
    {'memory_mask': 'src_mask', 'self': 'x', 'look_ahead': 'mask'}
    >>> with_mask_of_target({"self": "x", "mask": "mask"}, ["x", "memory", "mask", "self_mask"])
    {'self': 'x', 'mask': 'mask', 'look_ahead': 'self_mask'}
    """
    of_memory = f"src|source|{naming.OF_MEMORY.pattern}"
    own = [name for name in names if naming.argument(name) == "mask" and OF_ITSELF.search(name)]
    if len(own) == 1 and roles.get("mask", own[0]) != own[0] and "look_ahead" not in roles:
        return {**roles, "look_ahead": own[0]}
    masks = [name for name in names if naming.argument(name) == "mask" and name not in roles.values()]
    if len(masks) == 1 and re.search(of_memory, masks[0]):
        roles = {"memory_mask": masks[0], **roles}
    others = {"memory_mask", "padding"} & roles.keys()
    if "look_ahead" in roles or not others or re.search(of_memory, roles.get("mask", "src")):
        return {**roles}
    return {"look_ahead" if role == "mask" else role: name for role, name in roles.items()}


def epsilons_in(code: str) -> set[float]:
    """Return the usual epsilons that occur in code as numbers.

    >>> epsilons_in("x / np.sqrt(variance + 1e-5)")
    {1e-05}
    """
    return {float(number) for number in re.findall(r"\b1e-\d+\b", code)} & {*EPSILONS}


def epsilon_of(part: Any) -> float | None:
    """Return the epsilon of a normalization, which an attribute states, or `None`."""
    if not re.search("norm|^ln", type(part).__name__.lower()):
        return None
    stated = (value for name, value in getattr(part, "__dict__", {}).items() if naming.plain(name) in EPSILON_NAMES)
    return next((value for value in stated if isinstance(value, float)), None)


def head_size(variables: Sequence[Variable], heads: int, width: int) -> int:
    """Return the number of features of a head (O) in an attention with these variables.

    Raises:
        UnknownWeightsError: No number of features matches the weights.
    """
    numbers = sorted({size for variable in variables for size in variable.shape}, reverse=True)
    options = [number // (heads * packed) for packed in (1, 3, 2) for number in numbers if number % heads == 0]
    error = UnknownWeightsError(f"expected the weights of an attention. Received: {listed(variables)}.")
    for grouped, size in itertools.product((False, True), dict.fromkeys([width // heads, *options, *numbers])):
        found = {"H": heads, "O": size, "E": width, **{f"I {role}": width for role in ("query", "key", "value")}}
        try:
            if size and arrangements(variables, found, grouped):
                return size
        except UnknownWeightsError as each:
            error = each
    raise error


def chain_of(made: Mapping[str, str], called: Mapping[str, str]) -> str:
    """Return the kind of block that a class is, judged by its argument names, or "attention" if it is not a block.

    >>> chain_of({"inner": "dff", "heads": "num_heads"}, {"self": "x", "memory": "enc_output"})
    'decoder'
    """
    if "inner" in made:
        return "decoder" if "memory" in called or "key" in called else "encoder"
    return "embedding" if "vocabulary" in made and "heads" not in made else "attention"


def attentions(chain: str) -> tuple[str, ...]:
    """Return the prefixes of the canonical weights of a block's attentions."""
    return ("mha1", "mha2") if chain == "decoder" else ("mha",)


__all__ = ["CROSSING", "BlockCandidate", "attentions", "chain_of", "head_size", "readings"]
