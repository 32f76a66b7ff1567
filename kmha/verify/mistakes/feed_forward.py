"""Mistakes in a block's feed-forward network, max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, section 3.3)."""

from typing import Any

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.blocks import ACTIVATIONS, dense
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.residuals import as_if, before_last, only

PAPER = "Vaswani et al. 2017, section 3.3"
DENSE = "the two dense layers of the feed-forward network"
ACTIVATION = "the activation of the feed-forward network's first dense layer"


def _activation(name: str) -> Change:
    def change(state: State, right: Step) -> Any:
        if state["trial"].more.get("activation", "relu") == name:
            raise ImpossibleError("that is the right one")
        return ACTIVATIONS[name]

    return change


for _name, _id, _says, _source in (
    (
        "linear",
        "missing",
        "The feed-forward network has no activation: its two layers are one linear map.",
        "d2l-ai/d2l-en#1564, spring-media/TransformerTTS#102",
    ),
    ("relu", "relu", "The feed-forward network's activation is relu, not {}.", PAPER),
    ("gelu", "gelu", "The feed-forward network's activation is gelu, not {}.", PAPER),
    (
        "gelu_tanh",
        "gelu-tanh",
        "The feed-forward network's activation is gelu by its tanh formula, not {}.",
        "Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2, against " + PAPER,
    ),
    ("silu", "silu", "The feed-forward network's activation is silu (swish), not {}.", PAPER),
    ("tanh", "tanh", "The feed-forward network's activation is tanh, not {}.", PAPER),
    ("sigmoid", "sigmoid", "The feed-forward network's activation is a sigmoid, not {}.", PAPER),
):
    _says = _says.format("the one that was asked for")
    register(f"feed-forward-activation-{_id}", _says, ACTIVATION, _source, activation=_activation(_name))


def _then_activation(state: State, right: Step) -> Any:
    return state["activation"](right(state))


for _id, _says, _source, _changes in (
    (
        "after-second",
        "The feed-forward network's activation follows its second layer in place of its first.",
        "goruck/nilm#1",
        {"activated": lambda state, right: state["inner"], "feed_forward": _then_activation},
    ),
    (
        "after-both",
        "The feed-forward network's activation follows its second layer too.",
        "namedtensor/notation#72",
        {"feed_forward": _then_activation},
    ),
    (
        "on-residual",
        "The activation is applied once more to the sum of the feed-forward network and its residual connection.",
        PAPER,
        {"last_residual": _then_activation},
    ),
    (
        "at-end",
        "The activation is applied once more to what the block gives.",
        "spring-media/TransformerTTS#102",
        {"after_last": only(False, _then_activation)},
    ),
    (
        "before-first",
        "The activation is applied to the feed-forward network's input too.",
        PAPER,
        {"last_input": _then_activation},
    ),
):
    register(f"feed-forward-activation-{_id}", _says, ACTIVATION, _source, **_changes)


def _without_bias(layer: str) -> Change:
    def change(state: State, right: Step) -> Any:
        weights = dict(right(state))
        if weights.pop(f"ffn/{layer}/bias", None) is None:
            raise ImpossibleError("there is no bias")
        return weights

    return change


def _bias_after(state: State, right: Step) -> Any:
    bias = state["block_weights"].get("ffn/dense1/bias", 0.0)
    return right({**state, "inner": state["inner"] - bias}) + bias


def _again(state: State, right: Step) -> Any:
    """The whole network once more, of its own output."""
    inner = dense(state, right(state), "dense1")
    return right({**state, "activated": state["activation"](inner)})


def _tied(state: State, right: Step) -> Any:
    kernel = state["block_weights"]["ffn/dense1/kernel"].T
    return right({**state, "block_weights": {**state["block_weights"], "ffn/dense2/kernel": kernel}})


def _from(**steps: str) -> Change:
    """What the feed-forward network gets is made of another step, by chain."""

    def change(state: State, right: Step) -> Any:
        return as_if(**{before_last(state): steps[state["trial"].chain]})(state, right)

    return change


for _id, _says, _look, _source, _changes in (
    (
        "bias1-missing",
        "The feed-forward network's first layer has no bias.",
        DENSE,
        PAPER,
        {"block_weights": _without_bias("dense1")},
    ),
    (
        "bias2-missing",
        "The feed-forward network's second layer has no bias.",
        DENSE,
        PAPER,
        {"block_weights": _without_bias("dense2")},
    ),
    (
        "bias1-after-activation",
        "The feed-forward network's first bias is added after the activation.",
        DENSE,
        PAPER,
        {"activated": _bias_after},
    ),
    (
        "twice",
        "The feed-forward network runs twice, the second time on its own output.",
        DENSE,
        PAPER,
        {"feed_forward": _again},
    ),
    (
        "second-tied",
        "The feed-forward network's second layer uses the first one's kernel, transposed.",
        DENSE,
        PAPER,
        {"feed_forward": _tied},
    ),
    (
        "input-unnormed",
        "The feed-forward network gets the sum before its normalization.",
        "what the feed-forward network is called with",
        PAPER,
        {"last_input": only(False, _from(encoder="residual1", decoder="residual2"))},
    ),
    (
        "input-of-block",
        "The feed-forward network gets the block's input, not what the attention's part gave.",
        "what the feed-forward network is called with",
        PAPER,
        {"last_input": _from(encoder="start", decoder="start")},
    ),
    (
        "input-of-attention",
        "The feed-forward network gets the attention's bare output, without residual connection and normalization.",
        "what the feed-forward network is called with",
        PAPER,
        {"last_input": _from(encoder="attention1", decoder="attention2")},
    ),
    (
        "input-of-block1",
        "The feed-forward network gets block 1's output, not the second attention's part.",
        "what the feed-forward network is called with",
        PAPER,
        {"last_input": as_if(after2="after1"), "after2": lambda state, right: right(state)},
    ),
):
    register(f"feed-forward-{_id}", _says, _look, _source, **_changes)
