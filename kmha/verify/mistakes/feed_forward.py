"""Mistakes in a block's feed-forward network, max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, section 3.3)."""

from typing import Any

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.blocks import ACTIVATIONS, dense
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.residuals import as_if, last_from, only

PAPER = "Vaswani et al. 2017, section 3.3"
ACTIVATION = "the activation of the feed-forward network's first dense layer"


def _activation(name: str) -> Change:
    def change(state: State, right: Step) -> Any:
        if state["trial"].more.get("activation", "relu") == name:
            raise ImpossibleError("the activation is already this")
        return ACTIVATIONS[name]

    return change


for _name, _used, _source in (
    ("relu", "relu", PAPER),
    ("gelu", "gelu", PAPER),
    (
        "gelu_tanh",
        "the tanh approximation of gelu",
        f"Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2, against {PAPER}",
    ),
    ("silu", "silu (swish)", PAPER),
    ("tanh", "tanh", PAPER),
    ("sigmoid", "a sigmoid", PAPER),
):
    register(
        f"feed-forward-activation-{_name.replace('_', '-')}",
        f"You used {_used} as the feed-forward network's activation. Use the one that was asked for.",
        ACTIVATION,
        _source,
        activation=_activation(_name),
    )


def _then_activation(state: State, right: Step) -> Any:
    return state["activation"](right(state))


for _id, _says, _source, _changes in (
    (
        "missing",
        "left out the feed-forward network's activation",
        "d2l-ai/d2l-en#1564, spring-media/TransformerTTS#102",
        {"activation": _activation("linear")},
    ),
    (
        "after-second",
        "applied the feed-forward network's activation after the second layer",
        "goruck/nilm#1",
        {"activated": lambda state, right: state["inner"], "feed_forward": _then_activation},
    ),
    (
        "after-both",
        "applied the feed-forward network's activation after both layers",
        "namedtensor/notation#72",
        {"feed_forward": _then_activation},
    ),
    (
        "on-residual",
        "applied the activation again after the residual connection",
        PAPER,
        {"last_residual": _then_activation},
    ),
    (
        "at-end",
        "applied the activation again to the block's output",
        "spring-media/TransformerTTS#102",
        {"after_last": only(False, _then_activation)},
    ),
    ("before-first", "applied the activation to the network's input too", PAPER, {"last_input": _then_activation}),
):
    _says = f"You {_says}. Apply it once, after the network's first layer."
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
    """Run the whole network a second time, on its own output."""
    inner = dense(state, right(state), "dense1")
    return right({**state, "activated": state["activation"](inner)})


def _tied(state: State, right: Step) -> Any:
    kernel = state["block_weights"]["ffn/dense1/kernel"].T
    return right({**state, "block_weights": {**state["block_weights"], "ffn/dense2/kernel": kernel}})


for _id, _says, _changes in (
    (
        "bias1-missing",
        "You left out the bias of the feed-forward network's first layer. Add it before the activation.",
        {"block_weights": _without_bias("dense1")},
    ),
    (
        "bias2-missing",
        "You left out the bias of the feed-forward network's second layer. Add it after the product.",
        {"block_weights": _without_bias("dense2")},
    ),
    (
        "bias1-after-activation",
        "You added the feed-forward network's first bias after the activation. Add it before.",
        {"activated": _bias_after},
    ),
    (
        "twice",
        "You ran the feed-forward network twice, the second time on its own output. Run it once.",
        {"feed_forward": _again},
    ),
    (
        "second-tied",
        "You used the first layer's kernel, transposed, in the second layer. The second layer has its own kernel.",
        {"feed_forward": _tied},
    ),
):
    register(f"feed-forward-{_id}", _says, "the two dense layers of the feed-forward network", PAPER, **_changes)

for _id, _passed, _do, _changes in (
    (
        "unnormed",
        "the attention's sum before normalizing it",
        "Normalize the sum first",
        {"last_input": only(False, last_from("residual1", "residual2"))},
    ),
    (
        "of-block",
        "the block's input",
        "Pass it the output of the attention's part",
        {"last_input": last_from("start", "start")},
    ),
    (
        "of-attention",
        "the attention's output alone",
        "Add the residual connection and normalize first",
        {"last_input": last_from("attention1", "attention2")},
    ),
    (
        "of-block1",
        "block 1's output",
        "Pass it block 2's output",
        {"last_input": as_if(after2="after1"), "after2": lambda state, right: right(state)},
    ),
):
    _says = f"You passed the feed-forward network {_passed}. {_do}."
    register(f"feed-forward-input-{_id}", _says, "the call of the feed-forward network", PAPER, **_changes)
