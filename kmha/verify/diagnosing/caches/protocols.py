"""Recognise how a candidate takes and returns its key/value cache, by trying the usual ways.

A *way* says how to make an empty cache, which argument takes the cache, which the position, and which mask a call gets.
The search takes the first way in which decoding with and without the cache agrees, or else the first that runs.
"""

import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.caches import WeightsAttend
from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.caches import arrays, linen, stepwise, words
from kmha.verify.diagnosing.caches.arrays import MASKS
from kmha.verify.diagnosing.caches.calls import Callee
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.caches.uncached import EMPTY, Inputs, UncachedCalls
from kmha.verify.diagnosing.calling import METHODS
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.tolerance import is_close

BUFFER, GROWING, NO_MASK = "buffer", "growing", "none"
SINGLE = [1, 1, 1]
BUFFERS = ("B, 2, S, H, O", "2, B, S, H, O")  # forms of one array for keys and values
PAIRS = ("B, S, HO", "B, H, S, O", "B, S, H, O")  # forms of two arrays, one for keys and one for values


def has_cache(thing: Any) -> bool:
    """Return whether a candidate seems to have a key/value cache, from the names of its arguments and methods."""
    if isinstance(thing, Decoding):
        return True
    if inspect.isroutine(thing):
        return "cache" in words.roles(_names(thing)) or "key_cache" in words.roles(_names(thing))
    kind = thing if isinstance(thing, type) else type(thing)
    method = next((name for name in METHODS if name in dir(kind)), None)
    found = words.roles(_names(getattr(kind, method))) if method else {}
    prepared = words.methods(kind, words.SETUPS) or words.methods(kind, words.RESETS) or _holds_cache(thing)
    asked = {"index", "flag"} & found.keys() or (words.methods(kind, words.RESETS) and _holds_cache(thing))
    return bool({"cache", "key_cache"} & found.keys() or (prepared and asked))


def _holds_cache(thing: Any) -> bool:
    """Return whether an attribute of an object is named like a cache, or of a class that has a method to empty it."""
    if isinstance(thing, type):
        resets = [frameworks.source_of(getattr(thing, method)) for method in words.methods(thing, words.RESETS)]
        named = re.findall(r"\bself\.(\w+)\s*=", "\n".join(resets))
    else:
        named = [*vars(thing), *vars(thing).get("_buffers", ())] if hasattr(thing, "__dict__") else []
    return any(words.role(name.strip("_")) in ("cache", "key_cache") for name in named)


def _names(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to make a cached call.

    Attributes:
        make: Function of the batch size and the capacity that returns the empty cache.
        made: How the empty cache is made, as text.
        index: Form of the positions, a key of `INDICES`, or "".
        columns: `BUFFER` for a mask over the capacity, `GROWING` for a mask over the positions so far, or `NO_MASK`.
        appends: Whether a call returns the keys and values of its own positions alone, which the caller appends.
    """

    make: Callable[[int, int], Any]
    made: str
    index: str
    columns: str
    appends: bool = False


class Protocol(UncachedCalls):
    """The search for the way in which one candidate is called with a cache."""

    def find(self) -> Decoding | None:
        """Return the candidate's decoding, or `None` if no way runs."""
        bidirectional = []
        for inputs in self.inputs():
            causal = self.is_causal(inputs)
            found = self._with_cache(inputs, True) if causal else None
            if found is not None:
                return found
            if causal is False and not inputs.mask and not inputs.causal:
                bidirectional.append(inputs)
        for each in bidirectional:
            if (found := self._with_cache(each, False)) is not None:
                return found
        return None if self.ran or not {"cache", "key_cache"} & self.roles.keys() else self._one_by_one()

    def _one_by_one(self) -> Decoding | None:
        """Return the decoding of a layer that has no call without a cache, because each call takes one position."""
        for inputs in self.inputs():
            if not inputs.width or inputs.mask or inputs.causal or inputs.layout != "(B, P, I)":
                continue
            for way in self.ways(inputs):
                steps = self._decoding(inputs, way, True, None)
                try:
                    with quietly():
                        tokens = self.probe(inputs, 2, 4)
                        output, other = (
                            steps.decode([each], [[1] * 4], 6)
                            for each in (tokens, self._with_another_first(inputs, tokens))
                        )
                except (Exception, SystemExit):  # untrusted code may raise anything
                    continue
                if is_close(other[0, -1], output[0, -1], "float32") or not np.isfinite(output).all():
                    continue  # nothing comes from the cache
                weights = self.likeliest_weights(inputs, tokens[:, :1], output[:, :1])
                full = None if weights is None else WeightsAttend(weights).whole
                whole = functools.partial(self._whole, inputs, way)
                alone = stepwise.as_function(self.callee.original, whole)
                return dataclasses.replace(steps, full=full or alone, weights=weights, several=False, alone=alone)
        return None

    def _whole(self, inputs: Inputs, way: Way, layer: Any, x: Any) -> Any:
        self.callee.thing = layer

        def step(tokens: Any, cache: Any, position: int, length: int) -> tuple[Any, Any]:
            result = self.callee.call(self._cached(inputs, way, tokens, cache, position, length))
            return result, arrays.cache_of(result, cache, 2 if "key_cache" in self.roles else 1)

        return stepwise.run_steps(x, way.make, step)

    def _with_cache(self, inputs: Inputs, causal: bool) -> Decoding | None:
        fallback: tuple[int, Decoding] | None = None
        weights = self.weights(inputs) if causal else None
        for way in self.ways(inputs):
            decoding = self._decoding(inputs, way, causal, weights)
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
        """Return whether a call gave scores or nothing back for a cache, and did nothing with the cache that it got."""
        if not {"cache", "key_cache"} & self.roles.keys():
            return False
        with quietly():
            decoding.fresh()
            empty = decoding.start(len(tokens), 4)
            before = arrays.contents(empty)
            output, cache = decoding.step(tokens[:, :1], empty, 0)
            if cache is empty and before:
                unchanged = all(map(np.array_equal, arrays.contents(empty), before))
                other, _ = decoding.step(tokens[:, :1], arrays.filled(empty), 0)
                return unchanged and is_close(other, output, "float32")
        if isinstance(cache, dict | list | tuple):
            return not len(cache)
        return cache is None or np.shape(cache)[-2:] == (1, 1)  # the scores of one position

    def ways(self, inputs: Inputs) -> Iterator[Way]:
        """Yield all usual ways to make a cached call, the likeliest first."""
        index = arrays.index_forms(self.roles["index"]) if "index" in self.roles else [""]
        columns = [BUFFER, GROWING, NO_MASK] if inputs.mask else [NO_MASK]
        usual = itertools.product(self._makers(inputs), index, columns)
        found = [Way(make, made, form, each) for (made, make), form, each in usual]
        return itertools.chain(found, (dataclasses.replace(way, appends=True) for way in found if way.made == "None"))

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
            sizes = {"H": heads, "O": size or inputs.width // heads}
            sizes["HO"] = sizes["H"] * sizes["O"]
            found += [(f"zeros ({form})", functools.partial(self._zeros, form, sizes)) for form in BUFFERS]
            found += [(f"two zeros ({form})", functools.partial(self._pair, form, sizes)) for form in PAIRS]
        return [*found, ("{}", lambda *_: {}), ("[]", lambda *_: []), ("()", lambda *_: ())]

    def _zeros(self, form: str, sizes: Mapping[str, int], batch: int, capacity: int) -> Any:
        letters = {**sizes, "B": batch, "S": capacity, "2": 2}
        return self.callee.tensor(np.zeros([letters[axis] for axis in form.split(", ")]))

    def _pair(self, form: str, sizes: Mapping[str, int], batch: int, capacity: int) -> Any:
        return self._zeros(form, sizes, batch, capacity), self._zeros(form, sizes, batch, capacity)

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
            elif words.is_one_of(name, words.LENGTH + " size"):
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

    def _decoding(self, inputs: Inputs, way: Way, causal: bool, weights: Any) -> Decoding:
        room = {"capacity": 0}  # of the request that is being decoded
        count = 2 if "key_cache" in self.roles else 1

        def start(batch: int, capacity: int) -> Any:
            room["capacity"] = capacity
            return way.make(batch, capacity)

        def step(tokens: np.ndarray, cache: Any, position: int) -> tuple[Any, Any]:
            result = self.callee.call(self._cached(inputs, way, tokens, cache, position, room["capacity"]))
            new = arrays.cache_of(result, cache, count)
            if way.appends and position:
                new = arrays.appended(cache, new, position, tokens.shape[1], self.callee.tensor)
            return self.output(inputs, result), new

        given = f", positions as {way.index}" if way.index else ""
        mask = f", and a mask {inputs.mask_form}" if inputs.mask else ""
        return Decoding(
            lambda tokens: self.full(inputs, tokens),
            start,
            step,
            inputs.width,
            inputs.vocabulary,
            causal,
            weights=weights,
            dtype=self.dtype,
            guessed=self._is_guessed(inputs),
            capacity=0 if way.made.endswith("()") else self._capacity(),
            says=f"its cache made as {way.made}{given}{mask}",
            fresh=self.callee.reset,
            appends=way.appends,
            kept=not {"cache", "key_cache"} & self.roles.keys(),
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
        arguments = self.tokens(inputs, tokens)
        stop = position + tokens.shape[1]
        if "cache" in self.roles:
            arguments[self.roles["cache"]] = cache
        if "key_cache" in self.roles:
            arguments[self.roles["key_cache"]], arguments[self.roles["value_cache"]] = cache
        if "flag" in self.roles:
            arguments[self.roles["flag"]] = True
        if way.index:
            arguments[self.roles["index"]] = self.index(way.index, position, tokens)
        if inputs.mask and way.columns != NO_MASK:
            columns = capacity if way.columns == BUFFER else stop
            arguments[inputs.mask] = MASKS[inputs.mask_form](arrays.causal_rows(position, stop, columns), len(tokens))
        if inputs.causal and position == 0:
            arguments[inputs.causal] = True
        return arguments


def _dynamic_cache() -> Any:
    import transformers

    return transformers.DynamicCache()


def find_decoding(thing: Any, given: Mapping[str, Any]) -> Decoding | None:
    """Return how a candidate decodes with and without its cache, or `None` if it has no cache that kmha can use."""
    if isinstance(thing, Decoding):
        return thing
    if linen.has_cache(thing):
        return linen.decoding_of(thing)
    # The cache of a cross-attention keeps the projected memory, which does not grow.
    crosses = any(value is True and "cross" in name for name, value in getattr(thing, "__dict__", {}).items())
    if crosses or not has_cache(thing):
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
