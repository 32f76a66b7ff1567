"""Attention of recurrent models as a candidate, with the keys as values: additive and multiplicative attention.

The logits of additive attention (Bahdanau et al. 2015, A.1.2) are v · tanh(W q + U k). Those of multiplicative
attention (Luong et al. 2015, equation 8, "general") are q · W k. Both have one head and no scale. Without a query, as
in pooling over a sequence, the logits are v · tanh(U k). The output may be tanh(C [context; query]), as in Luong's
equation 5. So the mistakes of masks, softmax and mixture are those of attention.
"""

import contextlib
import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, Trial
from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.caches.calls import WIDTH, Callee
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.conventions import BATCH
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.layer_adapters import adapter_of, is_layer
from kmha.verify.diagnosing.trials import Sizes
from kmha.verify.diagnosing.weights import Variable

TOLD = re.compile(r"tanh|luong|bilinear|multiplicative|\bgeneral\b")  # in code that may be such attention
MASKS = ("mask", "padding", "lengths")
# Forms of a query (B, T, I) in a call: as it is, or one of its rows.
FORMS: dict[str, Callable[[Any, int], Any]] = {
    "(B, T, I)": lambda query, row: query,
    "(B, I)": lambda query, row: query[:, row],
    "(B, 1, I)": lambda query, row: query[:, row : row + 1],
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of additive attention: W and U (I, A), b (A,) and v (A,). Pooling has no W."""

    query: np.ndarray | None
    key: np.ndarray
    bias: np.ndarray
    vector: np.ndarray
    design = "additive attention, with the logits v · tanh(W q + U k)"

    def choice(self) -> dict[str, Change]:
        """Return the changes of attention's steps."""
        return {"logits": lambda state, right: self.logits(state["heads"]), "scaled": lambda state, _: state["logits"]}

    def logits(self, heads: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the logits (B, H, T, S) of queries (B, H, T, I) and keys (B, H, S, I)."""
        queries = np.zeros((*heads["query"].shape[:-1], 1)) if self.query is None else heads["query"] @ self.query
        sums = queries[..., :, None, :] + (heads["key"] @ self.key)[..., None, :, :]
        return np.asarray(np.tanh(sums + self.bias) @ self.vector)


@dataclasses.dataclass(frozen=True)
class Product:
    """The weights of multiplicative attention: W (I, I), and perhaps C (2 · I, E) with a bias (E,)."""

    matrix: np.ndarray
    joined: np.ndarray | None = None
    bias: np.ndarray | float = 0.0
    query_first: bool = False
    design = "multiplicative attention, with the logits q · W k"

    def choice(self) -> dict[str, Change]:
        """Return the changes of attention's steps."""
        changes: dict[str, Change] = {
            "logits": lambda state, _: state["heads"]["query"] @ self.matrix @ np.swapaxes(state["heads"]["key"], 2, 3),
            "scaled": lambda state, _: state["logits"],
        }
        if self.joined is not None:
            changes["mixed"] = lambda state, right: self._joined(right(state), state["heads"]["query"])
        return changes

    def _joined(self, context: np.ndarray, query: np.ndarray) -> np.ndarray:
        both = (query, context) if self.query_first else (context, query)
        return np.asarray(np.tanh(np.concatenate(both, axis=-1) @ self.joined + self.bias))


class AdditiveCandidate(FunctionCandidate):
    """A layer of such attention as a candidate, which is the only design choice that it makes.

    Args:
        callee: Layer, whose weights are read and kept.
        readings: Possible weights, the likeliest first.
        call: Function of the query, or of the only input, of the key, and of masks.
    """

    chooses = False

    def __init__(self, callee: Callee, readings: list[Weights | Product], call: Any, name: str, *said: Any) -> None:
        self.readings, self.kind = readings, type(callee.original)
        super().__init__(call, name, *said)
        self.frameworks, self.framework = (callee.framework,), callee.framework

    @property
    def _definition(self) -> Any:
        return self.kind

    def input_layouts(self) -> list[dict[str, Any]]:
        return [{"entry": BATCH, "framework": self.framework, "guessed": ()}]

    def sizes(self, rng: np.random.Generator) -> Sizes:
        return dataclasses.replace(super().sizes(rng), heads=1, size=WIDTH)

    def smaller_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        return iter(())  # the script of a case could not make the weights

    def weight_conventions(self) -> list[Any]:
        return list(range(len(self.readings)))

    @property
    def design(self) -> str:
        """The design that the candidate was taken for, as a sentence."""
        design = self.readings[self.convention.weights].design
        return f"{design[0].upper()}{design[1:]} and the keys as values: taken as intended."

    @property
    def otherwise(self) -> str:
        """The advice if it may be another design."""
        design = self.readings[self.convention.weights].design
        return (
            f"kmha took it for {design}, a softmax over the keys, and the keys as values. If it is meant to be another "
            "design, kmha does not know it."
        )

    def adapted(self, trial: Trial) -> Trial:
        trial = super().adapted(trial)
        return dataclasses.replace(trial, choices=(*trial.choices, self.readings[self.convention.weights].choice()))


def additive_candidate(thing: Any, name: str, given: Mapping[str, Any], *said: Any) -> AdditiveCandidate | None:
    """Return a layer or its class as a candidate, or `None` if its weights and its code are not those."""
    kind = thing if isinstance(thing, type) else type(thing)
    with contextlib.suppress(Exception, SystemExit), quietly():  # untrusted code may raise anything
        if not TOLD.search(frameworks.source_of(kind).lower()) or not (isinstance(thing, type) or is_layer(thing)):
            return None
        adapter = adapter_of(kind)
        if adapter.framework not in ("keras", "torch"):
            return None
        callee = Callee(thing, given, "float64")
        call = _call_of(callee)
        readings = [*_readings(adapter.variables(callee.original), len(_inputs(callee)) > 1)] if call else []
        return AdditiveCandidate(callee, readings, call, name, callee.call_given, *said) if readings else None
    return None


def _inputs(callee: Callee) -> list[str]:
    """Return the arguments that take a query and a memory, or one input."""
    names = [name for name, each in callee.found.items() if each.default is EMPTY and name not in callee.call_given]
    return [name for name in names if naming.argument(name) not in MASKS]


def _readings(variables: list[Variable], crosses: bool) -> Iterator[Weights | Product]:
    """Yield the weights that the variables of a layer may be, or nothing if their number or their shapes differ."""
    if crosses:
        yield from _products(variables)
    matrices = [each for each in variables if len(each.shape) == 2 and 1 not in each.shape]
    flat = [each for each in variables if each not in matrices and np.prod(each.shape) > 1]
    vectors = [each for each in flat if not naming.weight(each.path)[1]]
    if len(vectors) != 1 or len(matrices) not in ((1, 2) if crosses else (1,)):
        return
    vector = np.asarray(vectors[0].read(), "float64").ravel()
    bias = sum((np.asarray(each.read(), "float64").ravel() for each in flat if each not in vectors), np.zeros(1))
    for turned in dict.fromkeys((bool(matrices[0].transposed), matrices[0].transposed is None)):
        arrays = [np.asarray(each.read(), "float64") for each in matrices]
        arrays = [array.T for array in arrays] if turned else arrays
        if crosses and len(arrays) == 1:  # of query and key side by side
            arrays = [*np.split(arrays[0], [WIDTH])]
        if any(array.shape != (WIDTH, len(vector)) for array in arrays) or len(bias) not in (1, len(vector)):
            continue
        for query, key in itertools.permutations(arrays) if crosses else [(None, arrays[0])]:
            yield Weights(query, key, bias, vector)


def _products(variables: list[Variable]) -> Iterator[Product]:
    """Yield the weights of multiplicative attention that the variables of a layer may be."""
    matrices = [np.asarray(each.read(), "float64") for each in variables if len(each.shape) == 2]
    vectors = [np.asarray(each.read(), "float64") for each in variables if len(each.shape) == 1]
    square = [each for each in matrices if each.shape == (WIDTH, WIDTH)]
    joined = [each if len(each) == 2 * WIDTH else each.T for each in matrices if 2 * WIDTH in each.shape]
    if len(square) != 1 or len(joined) > 1 or len(square) + len(joined) != len(matrices) or len(vectors) > len(joined):
        return
    for matrix in (square[0], square[0].T):
        if not joined:
            yield Product(matrix)
        for query_first in (False, True) if joined else ():
            yield Product(matrix, joined[0], vectors[0] if vectors else 0.0, query_first)


def _call_of(callee: Callee) -> Any:
    """Return a function of a query, a key and masks that calls a layer in the first form that runs, or `None`."""
    inputs = _inputs(callee)
    masks = {n: each for n, each in callee.found.items() if naming.argument(n) in MASKS and n not in callee.call_given}
    query, key = np.random.default_rng(0).normal(size=(2, 2, 5, WIDTH))
    tensors = [callee.tensor(array) for array in (query[:, :3], key, key)]
    needed = [name for name, each in masks.items() if each.default is EMPTY]
    real = {"lengths": callee.tensor(np.full(2, 5)), "padding": callee.tensor(np.ones((2, 5), bool))}
    empty = [dict.fromkeys(needed), {name: real.get(naming.argument(name) or "", real["padding"]) for name in needed}]
    pooling = [((name,), "") for name in inputs[:1]] if len(inputs) == 1 else []
    crossing = itertools.product(_orders(inputs), FORMS)
    for (names, form), given in itertools.product((*pooling, *crossing), empty if needed else empty[:1]):
        with contextlib.suppress(Exception, SystemExit):  # untrusted code may raise anything
            output, _ = _attend(callee, names, form, tensors[: len(names)] if form else tensors[1:2], given)
            if output.shape == (2, 3 if form else 5, WIDTH) and np.isfinite(output).all():
                return _function(callee, names, form, masks)
    return None


def _orders(inputs: list[str]) -> list[tuple[str, ...]]:
    """Return the inputs as query and key in both orders, or as query, key and value if their names say so."""
    if len(inputs) == 2:
        return [*itertools.permutations(inputs)]
    found = naming.roles_of(inputs)
    return [tuple(found[role] for role in ROLES)] if len(inputs) == len(ROLES) and {*ROLES} <= found.keys() else []


def _function(callee: Callee, names: tuple[str, ...], form: str, masks: Mapping[str, inspect.Parameter]) -> Any:
    """Return a function of `query`, `key` and perhaps `value`, or of `x`, and of masks, which is diagnosed."""
    own = ROLES[: len(names)] if form else ("x",)

    def attend(**arguments: Any) -> Any:
        tensors = [arguments.pop(name) for name in own]
        return _attend(callee, names, form, tensors, arguments)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind) for name in own]
    parameters += [each.replace(kind=kind) for each in masks.values()]
    attend.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return attend


def _attend(callee: Callee, names: Any, form: str, tensors: Any, masks: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the output (B, T, I) and the scores (B, T, S), or `None` for these, in as many calls as the form needs."""
    batch, keys = tensors[-1].shape[0], int(tensors[-1].shape[1])
    rows = int(tensors[0].shape[1])
    outputs, scores = [], []
    for row in range(rows if form in ("(B, I)", "(B, 1, I)") else 1):
        arrays = (FORMS[form](tensors[0], row), *tensors[1:]) if form else tensors
        result = callee.run(callee.thing, {**dict(zip(names, arrays, strict=True)), **masks})
        output, score = frameworks.output_and_scores(result)
        output = frameworks.numeric_array(output)
        if score is None and output.size == batch * keys:
            raise ValueError("the scores alone")
        outputs.append(output.reshape(batch, rows if form == "(B, T, I)" else 1, -1))
        scores.append(None if score is None else frameworks.numeric_array(score))
    joined = np.concatenate(outputs, axis=1)
    found = [each.reshape(batch, -1, keys) for each in scores if each is not None and each.size % (batch * keys) == 0]
    weights = np.concatenate(found, axis=1) if len(found) == len(outputs) else None
    if not form:  # all rows have what the sequence has
        joined = np.repeat(joined, keys, axis=1)
        weights = None if weights is None else np.repeat(weights, keys, axis=1)
    return joined, weights
