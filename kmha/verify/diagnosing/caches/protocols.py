"""Recognise how a candidate takes and returns its key/value cache, by trying the usual ways.

A *way* says how to make an empty cache, which argument takes the cache, which the position, and which mask a call gets.
The search takes the first way in which decoding with and without the cache agrees, or else the first that runs.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.caches import WeightsAttend
from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.caches import arrays, linen, words
from kmha.verify.diagnosing.caches.arrays import INDICES, LAYOUTS, MASKS
from kmha.verify.diagnosing.caches.calls import MEMORY, Callee
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.conventions import with_identity_kernels
from kmha.verify.diagnosing.layer_adapters import adapter_of
from kmha.verify.diagnosing.weights import weights_of_layer
from kmha.verify.tolerance import is_close

BUFFER, GROWING, NO_MASK = "buffer", "growing", "none"
SINGLE = [1, 1, 1]
EMPTY = inspect.Parameter.empty
_IDS = "ids inputids idx tokens tokenids"


def has_cache(thing: Any) -> bool:
    """Return whether a candidate seems to have a key/value cache, from the names of its arguments and methods."""
    if isinstance(thing, Decoding):
        return True
    if inspect.isroutine(thing):
        return "cache" in words.roles(_names(thing)) or "key_cache" in words.roles(_names(thing))
    kind = thing if isinstance(thing, type) else type(thing)
    method = next((name for name in ("forward", "call", "__call__") if name in dir(kind)), None)
    found = words.roles(_names(getattr(kind, method))) if method else {}
    prepared = words.methods(kind, words.SETUPS) or words.methods(kind, words.RESETS) or _holds_cache(thing)
    return bool({"cache", "key_cache"} & found.keys() or (prepared and {"index", "flag"} & found.keys()))


def _holds_cache(thing: Any) -> bool:
    """Return whether an attribute of an object is named like a cache. A class says so by a starting position."""
    if isinstance(thing, type):
        return False
    named = [*vars(thing), *vars(thing).get("_buffers", ())] if hasattr(thing, "__dict__") else []
    return any(words.role(name.strip("_")) in ("cache", "key_cache") for name in named)


def _names(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


@dataclasses.dataclass(frozen=True)
class Inputs:
    """How the tokens, and a mask of the uncached call, are passed.

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


@dataclasses.dataclass(frozen=True)
class Way:
    """How a cached call is made.

    Attributes:
        make: Function of the batch size and the capacity that returns the empty cache.
        made: How the empty cache is made, as text.
        index: Form of the positions, a key of `INDICES`, or "".
        columns: `BUFFER` for a mask over the capacity, `GROWING` for a mask over the positions so far, or `NO_MASK`.
    """

    make: Callable[[int, int], Any]
    made: str
    index: str
    columns: str


class Protocol:
    """The search for the ways of one candidate."""

    def __init__(self, callee: Callee) -> None:
        self.callee = callee
        self.roles = words.roles(callee.found)
        if isinstance(callee.found.get(self.roles.get("cache", "")), inspect.Parameter):
            default = callee.found[self.roles["cache"]].default
            if isinstance(default, bool):  # `cache=False` is a flag
                self.roles["flag"] = self.roles.pop("cache")
        mine = set(self.roles.values())
        self.arguments = {role: n for role, n in naming.roles_of(callee.found).items() if n not in mine}
        self.rng, self.dtype = np.random.default_rng(0), callee.dtype
        self.memory = self.rng.normal(size=(8, MEMORY, 1))

    def find(self) -> Decoding | None:
        """Return the candidate's decoding, or `None` if no way runs."""
        bidirectional = []
        for inputs in self.inputs():
            causal = self._is_causal(inputs)
            found = self._with_cache(inputs, True) if causal else None
            if found is not None:
                return found
            if causal is False and not inputs.mask and not inputs.causal:
                bidirectional.append(inputs)
        return next((found for each in bidirectional if (found := self._with_cache(each, False))), None)

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

    def _is_causal(self, inputs: Inputs) -> bool | None:
        """Return whether the uncached call is causal, or `None` if it does not run, or not with these axes."""
        try:
            with quietly():
                tokens = self._probe(inputs, 2, 5)
                whole, part = self.full(inputs, tokens), self.full(inputs, tokens[:, :3])
                other = self.full(inputs, self._with_another_first(inputs, tokens))
        except (Exception, SystemExit):  # untrusted code may raise anything
            return None
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

    def _probe(self, inputs: Inputs, batch: int, length: int) -> np.ndarray:
        if inputs.width:
            return self.rng.normal(size=(batch, length, inputs.width))
        return self.rng.integers(1, inputs.vocabulary, size=(batch, length))

    def _tokens(self, inputs: Inputs, tokens: np.ndarray) -> dict[str, Any]:
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
        arguments = self._tokens(inputs, tokens)
        if inputs.mask:
            arguments[inputs.mask] = MASKS[inputs.mask_form](arrays.causal_rows(0, length, length), len(tokens))
        if inputs.causal:
            arguments[inputs.causal] = True
        for role, name in self.roles.items():
            if role == "flag":
                arguments[name] = False
            elif callee.found[name].default is EMPTY:
                arguments[name] = None if role != "index" else self._index(arrays.index_forms(name)[0], 0, tokens)
        return self._output(inputs, callee.call(arguments))

    def _output(self, inputs: Inputs, result: Any) -> np.ndarray:
        array = frameworks.numeric_array(arrays.output_of(result))
        self.dtype = str(array.dtype) if str(array.dtype) in ("float16", "float32", "bfloat16") else "float64"
        return LAYOUTS[inputs.layout][1](np.asarray(array, "float64"))

    def _index(self, form: str, start: int, tokens: np.ndarray) -> Any:
        return INDICES[form](start, tokens.shape[1], len(tokens))

    def _with_cache(self, inputs: Inputs, causal: bool) -> Decoding | None:
        fallback: tuple[int, Decoding] | None = None
        for way in self.ways(inputs):
            decoding = self._decoding(inputs, way, causal)
            runs, agree = self._score(decoding)
            if runs == [SINGLE]:  # this cache takes one position at a time
                decoding = dataclasses.replace(decoding, several=False)
            if runs and agree == len(runs):
                return decoding
            if runs and (fallback is None or len(runs) > fallback[0]):
                fallback = len(runs), decoding
        return fallback[1] if fallback else None

    def _score(self, decoding: Decoding) -> tuple[list[list[int]], int]:
        """Return which short requests run, and in how many of them decoding with and without the cache agrees."""
        runs, agree = [], 0
        for lengths in (SINGLE, [2, 1, 1]):
            rng = np.random.default_rng(1)
            try:
                with quietly():
                    tokens = decoding.tokens(rng, 2, sum(lengths))
                    output = decoding.decode([tokens], [lengths], sum(lengths) + 2)
                    right = decoding.full(tokens)
            except (Exception, SystemExit):  # untrusted code may raise anything
                continue
            if self._is_lost(decoding, tokens):
                continue
            runs.append(lengths)
            agree += is_close(output[:, -1], right[:, -1], "float32")
        return runs, agree

    def _is_lost(self, decoding: Decoding, tokens: np.ndarray) -> bool:
        """Return whether a call gave no cache back, and left the empty cache that it got empty."""
        if not {"cache", "key_cache"} & self.roles.keys():
            return False
        with quietly():
            decoding.fresh()
            cache = decoding.step(tokens[:, :1], decoding.start(len(tokens), 4), 0)[1]
        return cache is None or (isinstance(cache, dict | list | tuple) and not len(cache))

    def ways(self, inputs: Inputs) -> Iterator[Way]:
        """Yield all usual ways to make a cached call, the likeliest first."""
        index = arrays.index_forms(self.roles["index"]) if "index" in self.roles else [""]
        columns = [BUFFER, GROWING, NO_MASK] if inputs.mask else [NO_MASK]
        for (made, make), form, each in itertools.product(self._makers(inputs), index, columns):
            yield Way(make, made, form, each)

    def _makers(self, inputs: Inputs) -> list[tuple[str, Callable[[int, int], Any]]]:
        """Return functions of (batch, capacity) that make an empty cache, with what they are called."""
        callee, found = self.callee, []
        for pattern in (words.SETUPS, words.STARTS):
            methods = words.methods(callee.original, pattern)
            found += [(f"{method}()", self._by_method(method, inputs)) for method in methods]
        if not {"cache", "key_cache"} & self.roles.keys():
            return [*found, ("its own", lambda batch, capacity: self._emptied())]
        if "key_cache" in self.roles:
            return [*found, ("None", lambda *_: (None, None))]
        heads, size = callee.number("heads"), callee.number("size")
        found.append(("None", lambda *_: None))
        if words.plain(self.roles["cache"]).startswith("pastkeyvalue"):
            found.insert(0, ("DynamicCache()", lambda *_: _dynamic_cache()))
        if heads and (size or inputs.width % heads == 0):
            shape = (heads, size or inputs.width // heads)
            found += [
                (
                    "zeros (B, 2, S, H, O)",
                    lambda batch, capacity: callee.tensor(np.zeros((batch, 2, capacity, *shape))),
                ),
                (
                    "zeros (2, B, S, H, O)",
                    lambda batch, capacity: callee.tensor(np.zeros((2, batch, capacity, *shape))),
                ),
            ]
        return [*found, ("{}", lambda *_: {}), ("[]", lambda *_: []), ("()", lambda *_: ())]

    def _emptied(self) -> None:
        for method in words.methods(self.callee.thing, words.RESETS):
            self._call_method(method, 1, 1, 0)

    def _by_method(self, method: str, inputs: Inputs) -> Callable[[int, int], Any]:
        def make(batch: int, capacity: int) -> Any:
            self._emptied()
            return self._call_method(method, batch, capacity, inputs.width)

        return make

    def _call_method(self, method: str, batch: int, capacity: int, width: int) -> Any:
        """Call a method that makes or empties a cache, with what its arguments' names ask for."""
        function = getattr(self.callee.thing, method)
        arguments: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if words.is_one_of(name, words.BATCH):
                arguments[name] = batch
            elif words.is_one_of(name, words.LENGTH):
                arguments[name] = capacity
            elif words.is_one_of(name, words.SHAPE):
                arguments[name] = (batch, capacity, width)
            elif name == "dtype":
                arguments[name] = self._dtype()
            elif parameter.default is EMPTY and parameter.kind not in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD,
            ):
                raise TypeError(f"{method}() has an argument {name!r} that kmha does not know")
        return function(**arguments)

    def _dtype(self) -> Any:
        dtype = self.callee.dtype
        return getattr(__import__("torch"), dtype) if self.callee.framework == "torch" else dtype

    def _decoding(self, inputs: Inputs, way: Way, causal: bool) -> Decoding:
        room = {"capacity": 0}  # of the request that is being decoded
        count = 2 if "key_cache" in self.roles else 1

        def start(batch: int, capacity: int) -> Any:
            room["capacity"] = capacity
            return way.make(batch, capacity)

        def step(tokens: np.ndarray, cache: Any, position: int) -> tuple[Any, Any]:
            result = self.callee.call(self._cached(inputs, way, tokens, cache, position, room["capacity"]))
            return self._output(inputs, result), arrays.cache_of(result, cache, count)

        given = f", positions as {way.index}" if way.index else ""
        mask = f", and a mask {inputs.mask_form}" if inputs.mask else ""
        return Decoding(
            lambda tokens: self.full(inputs, tokens),
            start,
            step,
            inputs.width,
            inputs.vocabulary,
            causal,
            weights=self._weights(inputs) if causal else None,
            dtype=self.dtype,
            guessed=self._is_guessed(inputs),
            capacity=0 if way.made.endswith("()") else self._capacity(),
            says=f"its cache made as {way.made}{given}{mask}",
            fresh=self.callee.reset,
        )

    def _is_guessed(self, inputs: Inputs) -> bool:
        """Return whether the call has arguments that may matter for a cache and that kmha does not understand."""
        known = {*inputs.names, *self.roles.values(), *self.arguments.values(), *self.callee.call_given}
        return bool(self.callee.found.keys() - known)

    def _capacity(self) -> int:
        """Return the number of positions of a cache that the candidate keeps as an attribute, or 0."""
        named = (
            {**vars(self.callee.original), **vars(self.callee.original).get("_buffers", {})} if self._keeps() else {}
        )
        shapes = [np.shape(value) for name, value in named.items() if words.role(name.strip("_")) == "key_cache"]
        return max((number for shape in shapes for number in shape[1:3]), default=0)

    def _keeps(self) -> bool:
        return hasattr(self.callee.original, "__dict__") and not {"cache", "key_cache"} & self.roles.keys()

    def _cached(
        self, inputs: Inputs, way: Way, tokens: np.ndarray, cache: Any, position: int, capacity: int
    ) -> dict[str, Any]:
        """Return the arguments of a cached call."""
        arguments = self._tokens(inputs, tokens)
        stop = position + tokens.shape[1]
        if "cache" in self.roles:
            arguments[self.roles["cache"]] = cache
        if "key_cache" in self.roles:
            arguments[self.roles["key_cache"]], arguments[self.roles["value_cache"]] = cache
        if "flag" in self.roles:
            arguments[self.roles["flag"]] = True
        if way.index:
            arguments[self.roles["index"]] = self._index(way.index, position, tokens)
        if inputs.mask and way.columns != NO_MASK:
            columns = capacity if way.columns == BUFFER else stop
            arguments[inputs.mask] = MASKS[inputs.mask_form](arrays.causal_rows(position, stop, columns), len(tokens))
        if inputs.causal and position == 0:
            arguments[inputs.causal] = True
        return arguments

    def _weights(self, inputs: Inputs) -> Mapping[str, np.ndarray] | None:
        """Return the canonical weights with which a single attention gives the uncached output, if there are any."""
        tokens = self._probe(inputs, 2, 5)
        right = self.full(inputs, tokens)
        for weights in self._readings(inputs):
            try:
                if is_close(WeightsAttend(weights).whole(tokens), right, "float32"):
                    return weights
            except ValueError:
                continue
        return None

    def _readings(self, inputs: Inputs) -> Iterator[dict[str, np.ndarray]]:
        if not inputs.width:
            return
        if not self.callee.shapes():
            for heads in (1, arrays.HEADS) if inputs.width % arrays.HEADS == 0 else (1,):
                yield with_identity_kernels({}, heads, inputs.width // heads)
            return
        layer, convention, count = self.callee.original, 0, 1
        while convention < count:
            try:
                variables = adapter_of(type(layer)).variables(layer)
                weights, count = weights_of_layer("", layer, variables, self.callee.given, convention)
            except ValueError:
                return
            yield weights
            convention += 1


def _dynamic_cache() -> Any:
    import transformers

    return transformers.DynamicCache()


def find_decoding(thing: Any, given: Mapping[str, Any]) -> Decoding | None:
    """Return how a candidate decodes with and without its cache, or `None` if it has no cache that kmha can use."""
    if isinstance(thing, Decoding):
        return thing
    if linen.has_cache(thing):
        return linen.decoding_of(thing)
    if not has_cache(thing):
        return None
    for dtype in ("float64", "float32"):
        try:
            with quietly():
                found = Protocol(Callee(thing, given, dtype)).find()
        except (Exception, SystemExit):  # untrusted code may raise anything
            continue
        if found is not None:
            return found
    return None
