"""Design choices of encoder and decoder layers."""

import dataclasses
import functools
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, Trial, run
from kmha.verify.chains.blocks import ACTIVATIONS, norm_of
from kmha.verify.choices.attention import kinds_of_rotary, rotary, states
from kmha.verify.choices.entry import register


def _is_post_norm(trial: Trial) -> bool:
    return not trial.more.get("norm_first")


register("pre-norm", "norm place", "pre-norm", _is_post_norm, norm_place=lambda state, right: "before")
register(
    "post-norm",
    "norm place",
    "post-norm",
    lambda trial: not _is_post_norm(trial),
    norm_place=lambda state, right: "after",
)
register(  # Swin V2 (arXiv 2111.09883, section 3.2), OLMo 2 (arXiv 2501.00656, section 2.1)
    "res-post-norm",
    "norm place",
    "res-post-norm: x + norm(sublayer(x))",
    norm_place=lambda state, right: "inside",
)


def _activation(name: str) -> Any:
    return lambda state, right: ACTIVATIONS[name]


def _other_than(name: str) -> Any:
    return lambda trial: trial.more.get("activation", "relu") != name


for _name, _says in (
    ("relu", "ReLU"),
    ("gelu", "GELU"),
    ("gelu_tanh", "GELU in its tanh approximation"),
    ("silu", "SiLU"),
    ("quick_gelu", "GELU in its sigmoid approximation"),
    ("relu_squared", "squared ReLU"),
):
    register(f"activation-{_name}", "activation", _says, _other_than(_name), activation=_activation(_name))


def _around_zero(state: State, right: Step) -> Any:
    return lambda x: np.mean(x**2, axis=state["norm_axes"], keepdims=True)


def _unbiased(state: State, right: Step) -> Any:
    def variance(x: np.ndarray) -> np.ndarray:
        count = int(np.prod(np.take(x.shape, state["norm_axes"])))
        return right(state)(x) * count / max(count - 1, 1)

    return variance


def _without_bias(trial: Trial) -> bool:
    return not any(name.endswith("/beta") for name in trial.weights)


register(
    "root-mean-square",
    "normalization",
    "RMSNorm",
    suits=_without_bias,
    centre=lambda state, right: lambda x: x,
    variance=_around_zero,
)
register(
    "unbiased-deviation",
    "normalization",
    "a normalization by the unbiased deviation plus epsilon",
    variance=_unbiased,
    deviation=lambda state, right: lambda variance: np.sqrt(variance) + state["epsilon"],
)


for _epsilon in (1e-5, 1e-8, 1e-12):
    register(
        f"epsilon-{_epsilon:.0e}".replace("e-0", "e-"),
        "epsilon",
        f"an epsilon of {_epsilon:g}",
        lambda trial: bool(trial.more.get("unknown_epsilon")),
        epsilon=lambda state, right, epsilon=_epsilon: epsilon,
    )


def _in_parallel(state: State, right: Step) -> Any:
    """Give the feed-forward network the block's input, as the attention gets it."""
    start = {"after1": state["start"], "after2": state["start"]}
    return right({**state, **start})


def _is_encoder(trial: Trial) -> bool:
    return trial.chain == "encoder"


register("parallel", "order", "attention and feed-forward network in parallel", _is_encoder, last_input=_in_parallel)
register(
    "parallel-one-norm",
    "order",
    "attention and feed-forward network in parallel, with one normalization",
    _is_encoder,
    last_input=lambda state, right: state["input1"],
)


def _normalized(layer: str) -> Change:
    """Return a change that normalizes a step's result with the weights of `layer`."""
    return lambda state, right: norm_of(state, layer)(right(state))


def _has(layer: str) -> Any:
    def suits(trial: Trial) -> bool:
        return any(name.startswith(f"{layer}/") for name in trial.weights)

    return suits


def _crosses(trial: Trial) -> bool:
    return bool(trial.more.get("crossing"))


register(
    "norm-of-memory",
    "memory",
    "a normalization of the memory",
    lambda trial: _crosses(trial) and _has("extra1")(trial),
    memory1=_normalized("extra1"),
)
register(
    "shared-norm-of-memory",
    "memory",
    "the normalization of x for the memory too",
    _crosses,
    memory1=_normalized("layernorm1"),
)
register("final-norm", "further norms", "a final normalization", _has("extra1"), after_last=_normalized("extra1"))
register(
    "sandwich-norm",
    "further norms",
    "normalizations before and after each sublayer",
    lambda trial: _has("extra2")(trial) and _is_encoder(trial),
    attention1=_normalized("extra1"),
    feed_forward=_normalized("extra2"),
)


def _causal(state: State, right: Step) -> Any:
    return dataclasses.replace(right(state), causal=True)


def _rotates(base: float, trial: Trial) -> bool:
    sizes = (array.shape[-1] for name, array in trial.weights.items() if name.endswith("query/kernel"))
    return bool(trial.more.get("rotates")) and all(size % 2 == 0 for size in sizes) and states(base, trial)


def _rotary(interleaved: bool, base: float) -> Any:
    change = {"heads": rotary(interleaved, base)}
    return lambda state, right: run(state["call1"], (*state["changes"], change))


for _id, _says, _interleaved, _base in kinds_of_rotary():
    register(
        f"rotary-{_id}-in-block",
        "rotary positions in a block",
        f"rotary positions ({_says}) in its self-attention",
        functools.partial(_rotates, _base),
        inside1=_rotary(_interleaved, _base),
    )


def _causal_alone(state: State, right: Step) -> Any:
    trial = state["trial"]
    masked = trial.mask is not None or trial.key_mask is not None
    return right(state) if masked else _causal(state, right)


def _may_be_causal(trial: Trial) -> bool:
    """Return whether an encoder layer may be causal: unless the user said that it is not."""
    return _is_encoder(trial) and bool(trial.more.get("may_be_causal", True))


register("always-causal", "causal", "causal without being asked", _may_be_causal, call1=_causal)
register("causal-unless-masked", "causal", "causal only if there is no mask", _may_be_causal, call1=_causal_alone)
