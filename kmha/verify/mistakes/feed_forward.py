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
            raise ImpossibleError("the activation is already this")
        return ACTIVATIONS[name]

    return change


for _name, _id, _says, _source in (
    (
        "linear",
        "missing",
        "You left out the activation of the feed-forward network, which makes its two layers one linear map. "
        "Apply it after the first layer.",
        "d2l-ai/d2l-en#1564, spring-media/TransformerTTS#102",
    ),
    ("relu", "relu", "You used relu as the feed-forward network's activation. Use {}.", PAPER),
    ("gelu", "gelu", "You used gelu as the feed-forward network's activation. Use {}.", PAPER),
    (
        "gelu_tanh",
        "gelu-tanh",
        "You used the tanh approximation of gelu as the feed-forward network's activation. Use {}.",
        "Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2, against " + PAPER,
    ),
    ("silu", "silu", "You used silu (swish) as the feed-forward network's activation. Use {}.", PAPER),
    ("tanh", "tanh", "You used tanh as the feed-forward network's activation. Use {}.", PAPER),
    ("sigmoid", "sigmoid", "You used a sigmoid as the feed-forward network's activation. Use {}.", PAPER),
):
    _says = _says.format("the one that was asked for")
    register(f"feed-forward-activation-{_id}", _says, ACTIVATION, _source, activation=_activation(_name))


def _then_activation(state: State, right: Step) -> Any:
    return state["activation"](right(state))


for _id, _says, _source, _changes in (
    (
        "after-second",
        "You applied the feed-forward network's activation after the second layer. Apply it after the first layer.",
        "goruck/nilm#1",
        {"activated": lambda state, right: state["inner"], "feed_forward": _then_activation},
    ),
    (
        "after-both",
        "You applied the feed-forward network's activation after both layers. Apply it only after the first layer.",
        "namedtensor/notation#72",
        {"feed_forward": _then_activation},
    ),
    (
        "on-residual",
        "You applied the activation again to the last residual connection's sum. Apply it only inside the "
        "feed-forward network.",
        PAPER,
        {"last_residual": _then_activation},
    ),
    (
        "at-end",
        "You applied the activation again to the block's output. Apply it only inside the feed-forward network.",
        "spring-media/TransformerTTS#102",
        {"after_last": only(False, _then_activation)},
    ),
    (
        "before-first",
        "You applied the activation to the feed-forward network's input too. Apply it only after the first layer.",
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
    """Run the whole network again on its own output."""
    inner = dense(state, right(state), "dense1")
    return right({**state, "activated": state["activation"](inner)})


def _tied(state: State, right: Step) -> Any:
    kernel = state["block_weights"]["ffn/dense1/kernel"].T
    return right({**state, "block_weights": {**state["block_weights"], "ffn/dense2/kernel": kernel}})


def _from(**steps: str) -> Change:
    """Return a change that makes the feed-forward network's input from another step, given by chain."""

    def change(state: State, right: Step) -> Any:
        return as_if(**{before_last(state): steps[state["trial"].chain]})(state, right)

    return change


for _id, _says, _look, _source, _changes in (
    (
        "bias1-missing",
        "You left out the bias of the feed-forward network's first layer. Add it before the activation.",
        DENSE,
        PAPER,
        {"block_weights": _without_bias("dense1")},
    ),
    (
        "bias2-missing",
        "You left out the bias of the feed-forward network's second layer. Add it after the product.",
        DENSE,
        PAPER,
        {"block_weights": _without_bias("dense2")},
    ),
    (
        "bias1-after-activation",
        "You added the feed-forward network's first bias after the activation. Add it before.",
        DENSE,
        PAPER,
        {"activated": _bias_after},
    ),
    (
        "twice",
        "You ran the feed-forward network twice, the second time on its own output. Run it once.",
        DENSE,
        PAPER,
        {"feed_forward": _again},
    ),
    (
        "second-tied",
        "You used the first layer's kernel, transposed, in the feed-forward network's second layer. The "
        "second layer has its own kernel.",
        DENSE,
        PAPER,
        {"feed_forward": _tied},
    ),
    (
        "input-unnormed",
        "You passed the feed-forward network the attention's sum before normalizing it. Normalize the sum first.",
        "the call of the feed-forward network",
        PAPER,
        {"last_input": only(False, _from(encoder="residual1", decoder="residual2"))},
    ),
    (
        "input-of-block",
        "You passed the block's input to the feed-forward network. Pass it the output of the attention's part.",
        "the call of the feed-forward network",
        PAPER,
        {"last_input": _from(encoder="start", decoder="start")},
    ),
    (
        "input-of-attention",
        "You passed the attention's output alone to the feed-forward network. Add the residual connection and "
        "normalize first.",
        "the call of the feed-forward network",
        PAPER,
        {"last_input": _from(encoder="attention1", decoder="attention2")},
    ),
    (
        "input-of-block1",
        "You passed block 1's output to the feed-forward network. Pass it block 2's output.",
        "the call of the feed-forward network",
        PAPER,
        {"last_input": as_if(after2="after1"), "after2": lambda state, right: right(state)},
    ),
):
    register(f"feed-forward-{_id}", _says, _look, _source, **_changes)
