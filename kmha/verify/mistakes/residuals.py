"""Mistakes in the residual connections of a block (Vaswani et al. 2017, section 3.1)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.1"
LOOK = "the line that adds the residual connection"
# A sublayer's name, the step of its residual connection, and its name in a sentence.
SUBLAYERS = (
    ("attention", "residual1", "the self-attention"),
    ("cross", "residual2", "the second attention"),
    ("feed-forward", "last_residual", "the feed-forward network"),
)

Sum = Callable[[np.ndarray, np.ndarray], np.ndarray]


def before_last(state: State) -> str:
    """Return the step before the feed-forward network."""
    return "after2" if "after2" in state else "after1"


def as_if(**steps: str) -> Change:
    """Return a change of a step that reads the step `steps[a]` instead of the step `a`."""
    return lambda state, right: right({**state, **{name: state[other] for name, other in steps.items()}})


def only(norm_first: bool, change: Change) -> Change:
    """Return a change that exists only in pre-norm, or only in post-norm."""

    def checked(state: State, right: Step) -> Any:
        if (state["norm_place"] == "before") != norm_first:
            raise ImpossibleError("the normalization stands elsewhere")
        return change(state, right)

    return checked


def _here(of: Sum) -> Change:
    """Return a change of one residual connection."""
    return lambda state, right: right({**state, "add": of})


def _everywhere(of: Sum) -> Change:
    return lambda state, right: of


for _name, _everywhere_says, _says, _source, _one_source, _of in (
    (
        "missing",
        "You left out all residual connections. Add each sublayer's input to its output.",
        "You left out the residual connection around {}. Add its input to its output.",
        f"{PAPER}; asked in tensorflow/models#7533",
        PAPER,
        lambda x, output: output,
    ),
    (
        "doubled",
        "You added the input twice in all residual connections. Add it once.",
        "You added the input of {} twice in its residual connection. Add it once.",
        PAPER,
        PAPER,
        lambda x, output: 2 * x + output,
    ),
    (
        "sublayer-doubled",
        "You added the sublayer's output twice in all residual connections. Add it once.",
        "You added the output of {} twice in its residual connection. Add it once.",
        PAPER,
        PAPER,
        lambda x, output: x + 2 * output,
    ),
    (
        "of-itself",
        "You added the input to itself in every residual connection, so the sublayers' outputs are lost. Add "
        "input and output.",
        "You added the input of {} to itself, so its output is lost. Add input and output.",
        PAPER,
        PAPER,
        lambda x, output: x + x,
    ),
    (
        "output-doubled",
        "You added the sublayer's output to itself in every residual connection, so the input is lost. Add "
        "input and output.",
        "You added the output of {} to itself, so its input is lost. Add input and output.",
        "LeeSureman/Flat-Lattice-Transformer#34, kyegomez/BitNet#32",
        "LeeSureman/Flat-Lattice-Transformer#34, kyegomez/BitNet#32",
        lambda x, output: output + output,
    ),
    (
        "unused",
        "You did not use the sublayers' outputs: x stays as it was. Add each sublayer's output to x.",
        "You did not use the output of {}: x stays as it was. Add its output to x.",
        "lucidrains/audiolm-pytorch#265",
        "lucidrains/audiolm-pytorch#265",
        lambda x, output: x,
    ),
):
    register(f"residual-{_name}", _everywhere_says, LOOK, _source, add=_everywhere(_of))
    for _sublayer, _step, _which in SUBLAYERS:
        register(f"residual-{_name}-{_sublayer}", _says.format(_which), LOOK, _one_source, **{_step: _here(_of)})

for _name, _says, _of in (
    (
        "averaged",
        "You averaged input and output in the residual connections. Add them.",
        lambda x, output: (x + output) / 2,
    ),
    (
        "multiplied",
        "You multiplied input and output in the residual connections. Add them.",
        lambda x, output: x * output,
    ),
    (
        "subtracted",
        "You subtracted the sublayers' outputs in the residual connections. Add them.",
        lambda x, output: x - output,
    ),
    (
        "rectified",
        "You applied a relu after every residual connection. Leave it out.",
        lambda x, output: np.maximum(x + output, 0.0),
    ),
):
    register(f"residual-{_name}", _says, LOOK, PAPER, add=_everywhere(_of))


def _last_from(**steps: str) -> Change:
    """Return a change that makes the feed-forward network's residual connection add another step, given by chain."""

    def change(state: State, right: Step) -> Any:
        return as_if(**{before_last(state): steps[state["trial"].chain]})(state, right)

    return change


def _from_encoder(state: State, right: Step) -> Any:
    if state["memory2"].shape != state["after1"].shape:
        raise ImpossibleError("enc_output has another shape")
    return right({**state, "after1": state["memory2"]})


def _normed(norm: str, x: Callable[[State], str]) -> Change:
    return lambda state, right: right({**state, x(state): state[norm](state[x(state)])})


for _id, _says, _source, _step, _change in (
    (
        "residual-feed-forward-from-input",
        "You added the block's input in the feed-forward network's residual connection. Add the output of the "
        "attention's part.",
        "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8",
        "last_residual",
        _last_from(encoder="start", decoder="start"),
    ),
    (
        "residual-feed-forward-from-attention",
        "You added the attention's output alone in the feed-forward network's residual connection. Add the "
        "output of the attention's part.",
        PAPER,
        "last_residual",
        _last_from(encoder="attention1", decoder="attention2"),
    ),
    (
        "residual-feed-forward-from-unnormed",
        "You added the sum before its normalization in the feed-forward network's residual connection. Add "
        "the normalized sum.",
        "OpenNMT/OpenNMT-py#1375",
        "last_residual",
        only(False, _last_from(encoder="residual1", decoder="residual2")),
    ),
    (
        "residual-feed-forward-from-normed",
        "You added the normalized input in the feed-forward network's residual connection. Add the input "
        "before its normalization.",
        "OpenNMT/OpenNMT-py#1375",
        "last_residual",
        only(True, _normed("last_norm", before_last)),
    ),
    (
        "residual-attention-from-normed",
        "You added the normalized input in the self-attention's residual connection. Add the input before its "
        "normalization.",
        "OpenNMT/OpenNMT-py#1375",
        "residual1",
        only(True, _normed("norm1", lambda state: "start")),
    ),
    (
        "residual-cross-from-normed",
        "You added the normalized input in the second attention's residual connection. Add the input before "
        "its normalization.",
        "OpenNMT/OpenNMT-py#1375",
        "residual2",
        only(True, _normed("norm2", lambda state: "after1")),
    ),
    (
        "residual-cross-from-input",
        "You added the block's input in the second attention's residual connection. Add block 1's output.",
        PAPER,
        "residual2",
        as_if(after1="start"),
    ),
    (
        "residual-cross-from-attention",
        "You added the first attention's output alone in the second attention's residual connection. Add "
        "block 1's output.",
        PAPER,
        "residual2",
        as_if(after1="attention1"),
    ),
    (
        "residual-cross-from-encoder",
        "You added enc_output in the second attention's residual connection. Add block 1's output.",
        PAPER,
        "residual2",
        _from_encoder,
    ),
    (
        "residual-cross-from-unnormed",
        "You added the sum before its normalization in the second attention's residual connection. Add block "
        "1's output, which is normalized.",
        "OpenNMT/OpenNMT-py#1375",
        "residual2",
        only(False, as_if(after1="residual1")),
    ),
):
    register(_id, _says, LOOK, _source, **{_step: _change})

register(
    "residual-feed-forward-from-block1",
    "You added block 1's output in the feed-forward network's residual connection. Add block 2's output.",
    LOOK,
    PAPER,
    last_residual=as_if(after2="after1"),
    after2=lambda state, right: right(state),  # only decoders have this step
)
