"""Encoder and decoder layers as chains of named steps, around the attention of `kmha.verify.chains.attention`.

Steps with a 2 in their name exist in decoders only. E is the number of the block's features.

| step | result |
| --- | --- |
| `block_weights` | the weights, keyed by their canonical names |
| `norm_place` | "after" (post-norm: norm(x + sublayer(x))) or "before" (pre-norm: x + sublayer(norm(x))) |
| `norm_axes`, `epsilon` | the axes and the epsilon of the normalizations |
| `centre`, `variance`, `deviation`, `affine` | the functions that make up `normalize` |
| `normalize` | a function: (x - mean) / √(variance + epsilon) · gamma + beta |
| `norm1`, `norm2`, `last_norm` | functions of x: the normalizations of the attentions and the feed-forward network |
| `add` | a function: the residual connection x + sublayer(x) |
| `activation` | a function: the activation of the feed-forward network |
| `start` | the block's input x, (B, T, E) |
| `input1` | the first attention's input: x, or norm1(x) in pre-norm |
| `memory1` | the first attention's key and value: `input1`, or the memory in a layer with cross-attention alone |
| `call1` | the first attention's call: a `Trial` with `input1` as query and `memory1` as key and value |
| `inside1` | the results of that attention's own chain |
| `attention1`, `scores1` | the first attention's output (B, T, E) and the scores that it returns |
| `residual1` | x + `attention1` |
| `after1` | block 1's output: norm1(`residual1`), or `residual1` in pre-norm |
| `query2`, `memory2` | the second attention's query, and its key and value |
| `call2`, `inside2`, `attention2`, `scores2`, `residual2`, `after2` | as for the first attention |
| `last_input` | the feed-forward network's input |
| `inner`, `activated`, `feed_forward` | the network's first layer, its activation (times the gate, if there are weights for one), and its second layer |
| `last_residual`, `after_last` | as for the attentions |
| `finished` | the block's output, which is also stored under "output" |
| `untouched` | whether the inputs are still as they were |

Both attentions run with the same changes as the block, as in code where both call the same function. A change of
`inside1` or `inside2` affects one attention alone. Block and attention share no step name except `untouched`.

A trial passes x as `query`, and passes the encoder's output (B, S, D) to a decoder as `key` and `value`. In an encoder,
`key_mask` is the padding of x. In a decoder, `key_mask` is the padding of the encoder's output, which the second
attention hides, and `query_mask` is the padding of x, which the first attention hides. `causal` is for self-attention.
`more` may contain "norm_first", "epsilon" and "activation". With "crossing", an encoder layer's only attention gets
`key` as key and value, and `key_mask` is the padding of `key`.

The weights, where F is the width of the feed-forward network and D is the width of the encoder's output:

| name | shape |
| --- | --- |
| mha/… of an encoder, mha1/…, mha2/… of a decoder | as in an attention layer: …/query/kernel (H, E, O), … |
| mha2/key/kernel, mha2/value/kernel | (H, D, O) |
| ffn/dense1/kernel, ffn/dense1/bias | (E, F), (F,) |
| ffn/dense2/kernel, ffn/dense2/bias | (F, E), (E,) |
| ffn/gate/kernel, ffn/gate/bias | (E, F), (F,), of a gated network alone |
| layernorm1/gamma, layernorm1/beta, layernorm2/…, layernorm3/… | (E,), the last for the feed-forward network |
| extra1/gamma, extra1/beta, extra2/… | (E,), of further normalizations, which only design choices use |
"""  # noqa: E501 - tables

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import CHAINS, State, Step, Trial, matmul, run

EPSILON = 1e-6  # the default epsilon of the normalizations
NORMS = {"encoder": ("layernorm1", "", "layernorm2"), "decoder": ("layernorm1", "layernorm2", "layernorm3")}


def _erf(x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.erf, x.ravel()), float, x.size).reshape(x.shape)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "relu_squared": lambda x: np.maximum(x, 0.0) ** 2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def weights_of(weights: Mapping[str, np.ndarray], layer: str) -> dict[str, np.ndarray]:
    """Return the weights of one sublayer, keyed by their names without the sublayer's prefix.

    >>> sorted(weights_of({"mha/query/kernel": 1, "layernorm1/beta": 2}, "mha"))
    ['query/kernel']
    """
    return {name.removeprefix(f"{layer}/"): array for name, array in weights.items() if name.startswith(f"{layer}/")}


def _normalize(state: State) -> Callable:
    def normalize(x: np.ndarray, gamma: Any = 1.0, beta: Any = 0.0) -> np.ndarray:
        normal = state["centre"](x) / state["deviation"](state["variance"](x))
        return state["affine"](normal, gamma, beta)

    return normalize


def norm_of(state: State, layer: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that normalizes with the weights of `layer`, such as "layernorm1"."""
    weights = weights_of(state["block_weights"], layer)
    return lambda x: state["normalize"](x, weights.get("gamma", 1.0), weights.get("beta", 0.0))


def _norm(which: int) -> Step:
    return lambda state: norm_of(state, NORMS[state["trial"].chain][which])


NORM: dict[str, Step] = {
    "norm_place": lambda state: "before" if state["trial"].more.get("norm_first") else "after",
    "norm_axes": lambda state: -1,
    "epsilon": lambda state: state["trial"].more.get("epsilon", EPSILON),
    "centre": lambda state: lambda x: x - x.mean(state["norm_axes"], keepdims=True),
    "variance": lambda state: lambda x: x.var(state["norm_axes"], keepdims=True),
    "deviation": lambda state: lambda variance: np.sqrt(variance + state["epsilon"]),
    "affine": lambda state: lambda normal, gamma, beta: normal * gamma + beta,
    "normalize": _normalize,
}


def _sublayer(residual: str, after: str, x: str, output: str, norm: str) -> dict[str, Step]:
    """Return the two steps after a sublayer: the residual connection, and the normalization in post-norm."""

    def add(state: State) -> np.ndarray:
        place = state["norm_place"]
        start = state[norm](state[x]) if place == "replaced" else state[x]
        return state["add"](start, state[norm](state[output]) if place == "inside" else state[output])

    def normalize(state: State) -> np.ndarray:
        result = state[residual]
        return state[norm](result) if state["norm_place"] in ("after", "both") else result

    return {residual: add, after: normalize}


def _before(x: str, norm: str) -> Step:
    """Return the step that makes a sublayer's input: x, or the normalized x in pre-norm."""
    return lambda state: state[norm](state[x]) if state["norm_place"] in ("before", "both", "replaced") else state[x]


def _call(layer: str, query: str, memory: str, masks: Callable[[Trial], dict[str, Any]]) -> Step:
    def step(state: State) -> Trial:
        trial, weights = state["trial"], weights_of(state["block_weights"], layer)
        options = {"dtype": trial.dtype, "fill": trial.fill, "added": trial.added, **masks(trial)}
        return Trial(layer, state[query], state[memory], state[memory], weights, **options)

    return step


def _attention(number: int, call: Step) -> dict[str, Step]:
    return {
        f"call{number}": call,
        f"inside{number}": lambda state: run(state[f"call{number}"], state["changes"]),
        f"attention{number}": lambda state: state[f"inside{number}"]["output"],
        f"scores{number}": lambda state: state[f"inside{number}"]["returned"],
    }


def _memory(state: State) -> np.ndarray:
    return state["trial"].key if state["trial"].more.get("crossing") else state["input1"]


def _encoder_masks(trial: Trial) -> dict[str, Any]:
    query_mask = trial.query_mask if trial.more.get("crossing") else trial.key_mask
    return {"mask": trial.mask, "causal": trial.causal, "key_mask": trial.key_mask, "query_mask": query_mask}


def _self_masks(trial: Trial) -> dict[str, Any]:
    return {"causal": trial.causal, "key_mask": trial.query_mask, "query_mask": trial.query_mask}


def _cross_masks(trial: Trial) -> dict[str, Any]:
    return {"key_mask": trial.key_mask, "query_mask": trial.query_mask}


def dense(state: State, x: np.ndarray, layer: str) -> np.ndarray:
    """Return x times the kernel of ffn/`layer`, plus its bias if it has one."""
    weights = weights_of(state["block_weights"], f"ffn/{layer}")
    return matmul(x, weights["kernel"]) + weights.get("bias", 0.0)


def _gate(state: State) -> Any:
    return dense(state, state["last_input"], "gate") if "ffn/gate/kernel" in state["block_weights"] else 1.0


def _finished(last: str) -> Step:
    """Return the last step. It stores "output" itself, because changes of the attention's "output" must not apply."""

    def step(state: State) -> np.ndarray:
        state["output"] = state[last]
        return state[last]

    return step


def _feed_forward(before: str) -> dict[str, Step]:
    return {
        "last_input": _before(before, "last_norm"),
        "inner": lambda state: dense(state, state["last_input"], "dense1"),
        "activated": lambda state: state["activation"](state["inner"]) * _gate(state),
        "feed_forward": lambda state: dense(state, state["activated"], "dense2"),
        **_sublayer("last_residual", "after_last", before, "feed_forward", "last_norm"),
        "finished": _finished("after_last"),
    }


_START: dict[str, Step] = {
    "block_weights": lambda state: dict(state["trial"].weights),
    **NORM,
    "norm1": _norm(0),
    "norm2": _norm(1),
    "last_norm": _norm(2),
    "add": lambda state: lambda x, output: x + output,
    "activation": lambda state: ACTIVATIONS[state["trial"].more.get("activation", "relu")],
    "start": lambda state: state["trial"].query,
    "input1": _before("start", "norm1"),
}

ENCODER: dict[str, Step] = {
    **{name: step for name, step in _START.items() if name != "norm2"},
    "memory1": _memory,
    **_attention(1, _call("mha", "input1", "memory1", _encoder_masks)),
    **_sublayer("residual1", "after1", "start", "attention1", "norm1"),
    **_feed_forward("after1"),
    "untouched": lambda state: bool(state["inside1"]["untouched"]),
}

DECODER: dict[str, Step] = {
    **_START,
    **_attention(1, _call("mha1", "input1", "input1", _self_masks)),
    **_sublayer("residual1", "after1", "start", "attention1", "norm1"),
    "query2": _before("after1", "norm2"),
    "memory2": lambda state: state["trial"].key,
    **_attention(2, _call("mha2", "query2", "memory2", _cross_masks)),
    **_sublayer("residual2", "after2", "after1", "attention2", "norm2"),
    **_feed_forward("after2"),
    "untouched": lambda state: bool(state["inside1"]["untouched"] and state["inside2"]["untouched"]),
}


CHAINS.update(encoder=ENCODER, decoder=DECODER)
