"""Call a candidate without its cache, which is what decoding with the cache is compared with."""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.caches import WeightsAttend
from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.caches import arrays, words
from kmha.verify.diagnosing.caches.arrays import INDICES, LAYOUTS, MASKS
from kmha.verify.diagnosing.caches.calls import MEMORY, Callee
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.conventions import with_identity_kernels
from kmha.verify.diagnosing.layer_adapters import adapter_of
from kmha.verify.diagnosing.weights import arrangements_of_layer, canonical_weights
from kmha.verify.tolerance import is_close

EMPTY = inspect.Parameter.empty
_IDS = "ids inputids idx tokens tokenids"


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arguments that take the tokens and the mask of an uncached call.

    Attributes:
        names: Arguments that take the tokens.
        width: Number of features, or 0 for ids.
        vocabulary: Number of ids.
        layout: Layout of features, a key of `LAYOUTS`.
        mask: Argument that takes a mask, or "".
        mask_form: Form of the mask, a key of `MASKS`.
        causal: Argument that makes the uncached call causal, or "".
        memory: Argument that takes the output of an encoder, or "".
    """

    names: tuple[str, ...]
    width: int
    vocabulary: int = 0
    layout: str = "(B, P, I)"
    mask: str = ""
    mask_form: str = ""
    causal: str = ""
    memory: str = ""


class UncachedCalls:
    """The calls of a candidate without its cache."""

    def __init__(self, callee: Callee) -> None:
        self.callee = callee
        self.roles = words.roles(callee.found)
        if isinstance(callee.found.get(self.roles.get("cache", "")), inspect.Parameter):
            default = callee.found[self.roles["cache"]].default
            if isinstance(default, bool):  # `cache=False` is a flag
                self.roles["flag"] = self.roles.pop("cache")
        mine = set(self.roles.values())
        self.arguments = {role: n for role, n in naming.roles_of(callee.found).items() if n not in mine}
        self.ran = False  # whether a call without the cache runs
        self.rng, self.dtype = np.random.default_rng(0), callee.dtype
        self.memory = self.rng.normal(size=(8, MEMORY, 1))

    def inputs(self) -> Iterator[Inputs]:
        """Yield all usual ways to pass tokens and a causal mask."""
        callee, mine = self.callee, set(self.roles.values())
        three = tuple(self.arguments[role] for role in ("query", "key", "value") if role in self.arguments)
        rest = [n for n, p in callee.found.items() if n not in mine and n not in callee.call_given]
        names = three if len(three) > 1 else tuple(rest[:1])
        mask = self.arguments.get("look_ahead") or self.arguments.get("mask", "")
        masks: list[dict[str, Any]] = [{}]
        masks += [{"causal": self.arguments["causal"]}] if "causal" in self.arguments else []
        masks += [{"mask": mask, "mask_form": form} for form in MASKS] if mask else []
        likely_ids = words.is_one_of(names[0], _IDS) if names else False
        options: list[dict[str, Any]] = [{"width": width} for width in callee.sizes("width")]
        ids = [{"width": 0, "vocabulary": number} for number in callee.sizes("vocabulary")]
        for option in ids + options if likely_ids else options + ids[:2]:
            layouts = list(LAYOUTS)[: 2 if callee.is_layer else None] if option["width"] else list(LAYOUTS)[:1]
            for layout in layouts:
                for each, memory in itertools.product(masks, self._memories(names, option["width"])):
                    yield Inputs(names, layout=layout, memory=memory, **option, **each)

    def _memories(self, names: tuple[str, ...], width: int) -> list[str]:
        """Return the argument for an encoder's output, or "" to leave it out."""
        name = self.arguments.get("memory", "")
        if not name or name in names or not width:
            return [""]
        return [name] if self.callee.found[name].default is EMPTY else ["", name]

    def is_causal(self, inputs: Inputs) -> bool | None:
        """Return whether the uncached call is causal, or `None` if it does not run, or not with these axes."""
        try:
            with quietly():
                tokens = self.probe(inputs, 2, 5)
                whole, part = self.full(inputs, tokens), self.full(inputs, tokens[:, :3])
                other = self.full(inputs, self._with_another_first(inputs, tokens))
        except (Exception, SystemExit):  # untrusted code may raise anything
            return None
        self.ran = True
        if whole.ndim != 3 or whole.shape[:2] != tokens.shape[:2] or not np.isfinite(whole).all():
            return None
        if is_close(other[0, -1], whole[0, -1], "float32") or not is_close(other[1], whole[1], "float32"):
            return None  # the last position depends on the first one of its own item, and of no other item
        return is_close(whole[:, :3], part, "float32")

    def _with_another_first(self, inputs: Inputs, tokens: np.ndarray) -> np.ndarray:
        """Return the tokens with another first token in item 0."""
        changed = tokens.copy()
        changed[0, 0] = changed[0, 0] + 1 if inputs.width else changed[0, 0] % (inputs.vocabulary - 1) + 1
        return changed

    def probe(self, inputs: Inputs, batch: int, length: int) -> np.ndarray:
        if inputs.width:
            return self.rng.normal(size=(batch, length, inputs.width))
        return self.rng.integers(1, inputs.vocabulary, size=(batch, length))

    def tokens(self, inputs: Inputs, tokens: np.ndarray) -> dict[str, Any]:
        turned = LAYOUTS[inputs.layout][0](tokens) if inputs.width else tokens
        found: dict[str, Any] = dict.fromkeys(inputs.names, turned)
        if inputs.memory:
            found[inputs.memory] = np.repeat(self.memory[: len(tokens)], inputs.width, 2)
        for role, value in (("training", False), ("deterministic", True)):
            if role in self.arguments:
                found[self.arguments[role]] = value
        return found

    def full(self, inputs: Inputs, tokens: np.ndarray) -> np.ndarray:
        """Return the candidate's output (B, T, E) without a cache."""
        callee = self.callee
        if not callee.is_layer or not {"cache", "key_cache"} & self.roles.keys():  # it may keep its cache itself
            callee.reset()
        length = tokens.shape[1]
        arguments = self.tokens(inputs, tokens)
        if inputs.mask:
            arguments[inputs.mask] = MASKS[inputs.mask_form](arrays.causal_rows(0, length, length), len(tokens))
        if inputs.causal:
            arguments[inputs.causal] = True
        for role, name in self.roles.items():
            if role == "flag":
                arguments[name] = False
            elif callee.found[name].default is EMPTY:
                arguments[name] = None if role != "index" else self.index(arrays.index_forms(name)[0], 0, tokens)
        return self.output(inputs, callee.call(arguments))

    def output(self, inputs: Inputs, result: Any) -> np.ndarray:
        array = frameworks.numeric_array(arrays.output_of(result))
        self.dtype = str(array.dtype) if str(array.dtype) in ("float16", "float32", "bfloat16") else "float64"
        return LAYOUTS[inputs.layout][1](np.asarray(array, "float64"))

    def index(self, form: str, start: int, tokens: np.ndarray) -> Any:
        return INDICES[form](start, tokens.shape[1], len(tokens))

    def weights(self, inputs: Inputs) -> Mapping[str, np.ndarray] | None:
        """Return the canonical weights with which a single attention gives the uncached output, if there are any."""
        tokens = self.probe(inputs, 2, 5)
        right = self.full(inputs, tokens)
        found = self.likeliest_weights(inputs, tokens, right)
        return found if found is not None and is_close(WeightsAttend(found).whole(tokens), right, "float32") else None

    def likeliest_weights(self, inputs: Inputs, tokens: np.ndarray, output: np.ndarray) -> dict[str, np.ndarray] | None:
        """Return the canonical weights with which a single attention gives an output most like this one."""
        unlike: dict[float, dict[str, np.ndarray]] = {}
        for weights in self._readings(inputs):
            with contextlib.suppress(ValueError):
                mine = WeightsAttend(weights).whole(tokens)
                if is_close(mine, output, "float32"):
                    return weights
                unlike.setdefault(-float((mine * output).sum() / np.linalg.norm(mine)), weights)
        return unlike[min(unlike)] if unlike else None

    def _readings(self, inputs: Inputs) -> Iterator[dict[str, np.ndarray]]:
        if not inputs.width:
            return
        if not self.callee.shapes():
            for heads in (1, arrays.HEADS) if inputs.width % arrays.HEADS == 0 else (1,):
                yield with_identity_kernels({}, heads, inputs.width // heads)
            return
        layer = self.callee.original
        with contextlib.suppress(ValueError):
            adapter = adapter_of(type(layer))
            variables = adapter.variables(adapter.working_copy(layer))
            for sizes, slots in arrangements_of_layer("", layer, variables, self.callee.given):
                yield canonical_weights(sizes, slots)
