"""Design choices of attention layers.

Some choices need further weights of the candidate, which a trial has in `more["extras"]` as `Extra`s, such as the scale
of a normalization of queries and keys.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kmha.verify.chains.attention import (
    ROLES,
    Change,
    State,
    Step,
    Trial,
    allowed_with,
    allowed_without,
    share_with_one_more,
)
from kmha.verify.chains.embedding import turned
from kmha.verify.choices.entry import register

BASE = 10_000.0  # of the angles of rotary positions
BASES = (100.0, 1e3, 1e5, 5e5, 1e6, 5e6, 1e7)  # other ones, where code states them
LINEAR = "linear attention"  # group of choices
NULL = re.compile(r"null|bias_[kv]$|mem_[kv]$|sink|extra_[kv]$")
_NAMES = {
    "query": re.compile(r"(^|[._])(q|query|queries)([._]|$|norm|ln)|norm_?q|ln_?q"),
    "key": re.compile(r"(^|[._])(k|key|keys)([._]|$|norm|ln)|norm_?k(?!v)|ln_?k(?!v)"),
    "context": re.compile(r"context|kv|memory|cond|source|media"),
    "output": re.compile(r"out|post|final"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Extra:
    """A weight of the candidate that is none of attention's kernels and biases.

    Attributes:
        path: Attributes that lead to it.
        array: Its numbers.
        start: Number that all its elements had in a new layer, or `None` if they differed.
    """

    path: str
    array: np.ndarray
    start: float | None

    def shifts(self, one_of_two: bool) -> bool:
        """Return whether a normalization adds the weight, as far as its name and its first numbers tell."""
        named = re.search(r"bias|beta|shift|(^|[._])b_", self.path.lower()) is not None
        return (named or one_of_two) if self.start == 0 else named and self.start is None


def place_of(path: str) -> str:
    """Return the place of a normalization by its path: "query", "key", "context", "output", or "" for the input.

    >>> [place_of(path) for path in ("q_norm", "norm", "to_k.norm", "norm_context", "to_out.1")]
    ['query', '', 'key', 'context', 'output']
    """
    return next((place for place, pattern in _NAMES.items() if pattern.search(path.lower())), "")


def norms_by_place(extras: Iterable[Extra]) -> dict[str, list[Extra]]:
    """Return the weights of normalizations by place."""
    found: dict[str, list[Extra]] = {}
    for extra in extras:
        if not NULL.search(extra.path.lower()):
            found.setdefault(place_of(extra.path), []).append(extra)
    return found


def _norms(state: State) -> dict[str, list[Extra]]:
    return norms_by_place(state["trial"].more.get("extras", ()))


def normalized(state: State, array: np.ndarray, weights: list[Extra], rms: bool) -> np.ndarray:
    """Return LayerNorm or RMSNorm of the last axis, with the scale and shift among `weights`."""
    centred = array if rms else array - array.mean(-1, keepdims=True)
    epsilon = state["trial"].more.get("norm_epsilon", 1e-5)
    result = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    for extra in weights:
        size = np.squeeze(extra.array)
        if size.shape not in ((), array.shape[-1:]):
            continue
        result = result + size if extra.shifts(len(weights) > 1) else result * (size + (extra.start == 0))
    return result


def _of_inputs(rms: bool, shared: bool) -> Any:
    """Return a change that normalizes the inputs: all (`shared`), or the query, and the context by its own norm."""

    def change(state: State, right: Step) -> Any:
        inputs, norms = right(state), _norms(state)
        context = norms.get("context") or norms.get("key")
        own = norms.get("") or norms.get("query") or norms.get("output") or []
        query = normalized(state, inputs["query"], own, rms)
        done = {"query": query}
        for role in ("key", "value"):
            if inputs[role] is inputs["query"] and not context and not state["trial"].more.get("crosses"):
                done[role] = query
            elif context or shared:
                done[role] = normalized(state, inputs[role], context or own, rms)
            else:
                done[role] = inputs[role]
        return done

    return change


def _of_heads(rms: bool) -> Any:
    """Return a change that normalizes queries and keys, in each head or, if a scale has H·O numbers, in all heads."""

    def change(state: State, right: Step) -> Any:
        heads, norms = dict(right(state)), _norms(state)
        for role in ("query", "key"):
            weights = norms.get(role) or norms.get("") or []
            array = heads[role]
            batch, count, rows, size = array.shape
            if any(extra.array.size == count * size and count > 1 for extra in weights):
                flat = np.swapaxes(array, 1, 2).reshape(batch, rows, count * size)
                if any(extra.array.ndim > 1 for extra in weights):  # a scale for each head
                    each = [dataclasses.replace(extra, array=np.ones(())) for extra in weights]
                    scale = np.prod([extra.array.reshape(count, 1, size) for extra in weights], axis=0)
                    heads[role] = normalized(state, array, each, rms) * scale
                    continue
                weights = [dataclasses.replace(extra, array=extra.array.reshape(-1)) for extra in weights]
                flat = normalized(state, flat, weights, rms)
                heads[role] = np.swapaxes(flat.reshape(batch, rows, count, size), 1, 2)
            else:
                heads[role] = normalized(state, array, weights, rms)
        return heads

    return change


def _temperatures(trial: Trial) -> list[np.ndarray]:
    """Return the weights that may scale the logits of each head, (H, 1, 1) or (1, 1, 1)."""
    named = [each for each in trial.more.get("extras", ()) if not NULL.search(each.path.lower())]
    rest = [each.array for each in named if each.array.size in (1, trial.heads) and not each.shifts(False)]
    return [array.reshape(-1, 1, 1) for array in rest]


def _has_temperature(trial: Trial) -> bool:
    return len(_temperatures(trial)) == 1


def _unit(array: np.ndarray) -> np.ndarray:
    """Return vectors of length 1, or zeros where a vector is zero, as torch's `normalize` does."""
    return np.asarray(array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12))


def _cosines(in_logarithms: bool) -> Any:
    """Return a change to queries and keys of length 1, whose products are scaled by a weight, or its exponential."""

    def change(state: State, right: Step) -> Any:
        heads, (scale,) = right(state), _temperatures(state["trial"])
        units = {role: _unit(heads[role]) for role in ("query", "key")}
        scale = np.exp(scale) if in_logarithms else scale
        return {**heads, **units, "query": units["query"] * scale * heads["query"].shape[-1] ** 0.5}

    return change


def _of_output(rms: bool) -> Any:
    def change(state: State, right: Step) -> Any:
        norms = _norms(state)
        return normalized(state, right(state), norms.get("output") or norms.get("") or [], rms)

    return change


def rotated(array: np.ndarray, interleaved: bool, base: float = BASE) -> np.ndarray:
    """Return (B, H, P, O) with each pair of features turned by an angle that grows with the position."""
    rows, size = array.shape[-2:]
    half = size // 2
    angles = np.arange(rows)[:, None] / base ** (np.arange(half) / half)
    return turned(array, np.cos(angles), np.sin(angles), interleaved)


def rotary(interleaved: bool, base: float = BASE) -> Any:
    """Return a change that turns queries and keys by their positions, unless their head size is odd."""

    def change(state: State, right: Step) -> Any:
        heads = right(state)
        if heads["query"].shape[-1] % 2:
            return heads
        return {**heads, **{role: rotated(heads[role], interleaved, base) for role in ("query", "key")}}

    return change


def kinds_of_rotary() -> Iterator[tuple[str, str, bool, float]]:
    """Yield the end of the id, the words, and the arguments of `rotary` for each kind of rotary positions."""
    for base in (BASE, *BASES):
        id, says = ("", "") if base == BASE else (f"-base-{base:.0f}", f", with a base of {base:,.0f}")
        yield f"half{id}", f"in halves{says}", False, base
        yield f"interleaved{id}", f"in pairs{says}", True, base


def states(base: float, trial: Trial) -> bool:
    """Return whether the candidate's code states the base of rotary positions, unless it is the usual one."""
    return base == BASE or base in trial.more.get("bases", ())


def slopes_of(heads: int, interpolated: bool) -> np.ndarray:
    """Return the slopes of linear biases for each head, as Press et al. 2022 (arXiv 2108.12409) have them.

    Their code interpolates for numbers of heads that are no power of two. Other code has a geometric series for all.

    >>> slopes_of(4, True).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** int(math.log2(heads)) if interpolated else heads
    first = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
    return np.concatenate([first, 2.0 ** (-4.0 / power * np.arange(1, 2 * power + 1, 2))[: heads - power]])


def _linear_biases(interpolated: bool, symmetric: bool) -> Change:
    def change(state: State, right: Step) -> Any:
        scaled = right(state)
        rows, columns = scaled.shape[-2:]
        ahead = np.arange(columns) - np.arange(columns - rows, columns)[:, None]  # how far the key is after the query
        slopes = slopes_of(scaled.shape[1], interpolated)[:, None, None]
        return scaled + slopes * (-np.abs(ahead) if symmetric else ahead)

    return change


def _of_features(state: State, right: Step) -> np.ndarray:
    """Return the logits whose softmax is linear attention: log φ(q) · φ(k), where φ is ELU + 1."""
    heads = state["heads"]
    query, key = (np.where(heads[role] > 0, heads[role] + 1, np.exp(np.minimum(heads[role], 0))) for role in ROLES[:2])
    return np.asarray(np.log(query @ np.swapaxes(key, -1, -2)))


def _null_arrays(state: State) -> list[np.ndarray]:
    """Return the learned key and value, each (H, O)."""
    _, heads, _, size = state["biased"]["query"].swapaxes(1, 2).shape
    found = [extra for extra in state["trial"].more.get("extras", ()) if NULL.search(extra.path.lower())]
    arrays = [part for extra in found for part in _parts(extra.array, heads, size)]
    return arrays[:2]


def _parts(array: np.ndarray, heads: int, size: int) -> list[np.ndarray]:
    if array.size in (2 * size, 2 * heads * size):
        return [np.broadcast_to(part.reshape(-1, size), (heads, size)) for part in array.reshape(2, -1)]
    if array.size in (size, heads * size):
        return [np.broadcast_to(array.reshape(-1, size), (heads, size))]
    return []


def _with_null(state: State, right: Step) -> Any:
    heads, arrays = right(state), _null_arrays(state)
    if len(arrays) < 2:
        return heads
    batch = len(heads["key"])
    joined = {
        role: np.concatenate(
            [np.broadcast_to(array[None, :, None], (batch, *array[:, None].shape)), heads[role]], axis=2
        )
        for role, array in zip(("key", "value"), arrays, strict=True)
    }
    return {**heads, **joined}


def _allowed_with_null(state: State, right: Step) -> Any:
    allowed = right(state)
    if allowed.shape[-1] == 1 or len(_null_arrays(state)) < 2:
        return allowed
    return np.concatenate([np.ones((*allowed.shape[:-1], 1), bool), allowed], axis=-1)


def _bottom_right(state: State, right: Step) -> Any:
    if not state["trial"].causal:
        return right(state)
    return allowed_with(state, more={**state["trial"].more, "corner": "bottom right"})


for _rms, _kind, _says in ((False, "layer", "LayerNorm"), (True, "rms", "RMSNorm")):
    register(
        f"{_kind}-norm-of-input", "norm of the input", f"{_says} of the query's input", inputs=_of_inputs(_rms, False)
    )
    register(f"{_kind}-norm-of-inputs", "norm of the input", f"{_says} of all inputs", inputs=_of_inputs(_rms, True))
for _rms, _kind, _says in ((False, "layer", "LayerNorm"), (True, "rms", "RMSNorm")):
    register(
        f"{_kind}-norm-of-queries-and-keys",
        "norm of queries and keys",
        f"{_says} of queries and keys",
        heads=_of_heads(_rms),
    )
for _kind, _in_logarithms, _says in (("", False, "a trained number"), ("-exp", True, "e to a trained power")):
    register(
        f"cosines{_kind}",
        "norm of queries and keys",
        f"cosines of queries and keys, times {_says}, as logits",
        _has_temperature,
        heads=_cosines(_in_logarithms),
    )
for _id, _says, _interleaved, _base in kinds_of_rotary():
    register(
        f"rotary-{_id}",
        "rotary positions",
        f"rotary positions ({_says})",
        functools.partial(states, _base),
        heads=rotary(_interleaved, _base),
    )
for _interpolated, _of in ((True, "interpolated"), (False, "geometric")):
    for _symmetric, _which in ((False, "of earlier keys"), (True, "on both sides")):
        register(
            f"linear-biases-{_of}{'-symmetric' if _symmetric else ''}",
            "linear biases",
            f"linear biases {_which} (ALiBi, with {_of} slopes)",
            scaled=_linear_biases(_interpolated, _symmetric),
        )
register(
    "linear-attention",
    LINEAR,
    "linear attention, with ELU + 1 of queries and keys",
    logits=_of_features,
    scaled=lambda state, right: state["logits"],
)
register("null-key", "null key", "a learned key and value", heads=_with_null, allowed=_allowed_with_null)
register(
    "adds-its-input",
    "own residual connection",
    "a residual connection of its own",
    output=lambda state, right: right(state) + state["trial"].query,
)
for _rms, _kind, _says in ((False, "layer", "LayerNorm"), (True, "rms", "RMSNorm")):
    register(f"{_kind}-norm-of-heads", "norm of the heads", f"{_says} of the joined heads", joined=_of_output(_rms))
for _rms, _kind, _says in ((False, "layer", "LayerNorm"), (True, "rms", "RMSNorm")):
    register(f"{_kind}-norm-of-output", "norm of the output", f"{_says} of the output", output=_of_output(_rms))
register(
    "unscaled-logits", "scale of the logits", "logits without a scale", scaled=lambda state, right: state["logits"]
)
register(
    "softmax-with-one-more",
    "softmax",
    "a softmax with one added to the sum of the exponentials",
    scores=lambda state, right: right(state) * share_with_one_more(state["masked"]),
)
register("causal-bottom-right", "causal corner", "a causal mask aligned at the bottom right", allowed=_bottom_right)
register(
    "causal-without-mask",
    "mask of a causal layer",
    "causal only if there is no mask",
    allowed=lambda state, right: right(state) if state["trial"].mask is None else allowed_without(state, "causal"),
)
register(
    "scores-dropped",
    "dropout of the returned scores",
    "scores returned after dropout",
    returned=lambda state, right: state["dropped"],
)
register(
    "scores-averaged",
    "returned scores",
    "scores averaged over the heads",
    returned=lambda state, right: np.mean(right(state), axis=1),
)
register(
    "scores-heads-first",
    "returned scores",
    "scores with the heads before the batch",
    returned=lambda state, right: np.swapaxes(right(state), 0, 1),
)
NORMS = ("norm of the input", "norm of queries and keys", "norm of the heads", "norm of the output")
