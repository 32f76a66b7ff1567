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
    """Return the name of the step before the feed-forward network."""
    return "after2" if "after2" in state else "after1"


def as_if(**steps: str) -> Change:
    """Return a change that makes a step read the result of `steps[a]` instead of the result of `a`."""
    return lambda state, right: right({**state, **{name: state[other] for name, other in steps.items()}})


def only(norm_first: bool, change: Change) -> Change:
    """Return `change` restricted to pre-norm if `norm_first`, or else to post-norm."""

    def checked(state: State, right: Step) -> Any:
        if (state["norm_place"] == "before") != norm_first:
            raise ImpossibleError("the normalization stands elsewhere")
        return change(state, right)

    return checked


def _everywhere(of: Sum) -> Change:
    return lambda state, right: of


FLAT = "LeeSureman/Flat-Lattice-Transformer#34, kyegomez/BitNet#32"
AUDIO = "lucidrains/audiolm-pytorch#265"
for _name, _did, _do, _source, _sum in (
    ("missing", "left out the residual connection of {}", "its input to its output", PAPER, lambda x, output: output),
    ("doubled", "added the input of {} twice", "it once", PAPER, lambda x, output: 2 * x + output),
    ("sublayer-doubled", "added the output of {} twice", "it once", PAPER, lambda x, output: x + 2 * output),
    ("of-itself", "added the input of {} to itself", "input and output", PAPER, lambda x, output: x + x),
    ("output-doubled", "added the output of {} to itself", "input and output", FLAT, lambda x, output: output + output),
    ("unused", "did not use the output of {}: x stays as it was", "the output to x", AUDIO, lambda x, output: x),
):
    _says = f"You {_did}. Add {_do}."
    _asked = "; asked in tensorflow/models#7533" if _name == "missing" else ""
    register(f"residual-{_name}", _says.format("every sublayer"), LOOK, _source + _asked, add=_everywhere(_sum))
    for _sublayer, _step, _which in SUBLAYERS:
        _here = {_step: lambda state, right, of=_sum: right({**state, "add": of})}
        register(f"residual-{_name}-{_sublayer}", _says.format(_which), LOOK, _source, **_here)

for _name, _says, _sum in (
    ("averaged", "You averaged each sublayer's input and output. Add them.", lambda x, output: (x + output) / 2),
    ("multiplied", "You multiplied each sublayer's input and output. Add them.", lambda x, output: x * output),
    ("subtracted", "You subtracted each sublayer's output from its input. Add them.", lambda x, output: x - output),
    (
        "rectified",
        "You applied a relu after every residual connection. Leave it out.",
        lambda x, output: np.maximum(x + output, 0.0),
    ),
):
    register(f"residual-{_name}", _says, LOOK, PAPER, add=_everywhere(_sum))


def last_from(encoder: str, decoder: str) -> Change:
    """Return a change that makes the feed-forward network, or its residual connection, read another step."""

    def change(state: State, right: Step) -> Any:
        step = {"encoder": encoder, "decoder": decoder}[state["trial"].chain]
        return as_if(**{before_last(state): step})(state, right)

    return change


def _from_encoder(state: State, right: Step) -> Any:
    if state["memory2"].shape != state["after1"].shape:
        raise ImpossibleError("enc_output has another shape")
    return right({**state, "after1": state["memory2"]})


def _normed(norm: str, x: Callable[[State], str]) -> Change:
    return only(True, lambda state, right: right({**state, x(state): state[norm](state[x(state)])}))


BLOCK, ALONE, UNNORMED = "the block's input", "the attention's output alone", "the sum before its normalization"
PART, ONE, NORMED = "the output of the attention's part", "block 1's output", "the normalized input"
NEITHER = "the input before its normalization"
OPENNMT = "OpenNMT/OpenNMT-py#1375"
INPUT = "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8"
for _id, _added, _do, _source, _change in (
    ("feed-forward-from-input", BLOCK, PART, INPUT, last_from("start", "start")),
    ("feed-forward-from-attention", ALONE, PART, PAPER, last_from("attention1", "attention2")),
    (
        "feed-forward-from-unnormed",
        UNNORMED,
        "the normalized sum",
        OPENNMT,
        only(False, last_from("residual1", "residual2")),
    ),
    ("feed-forward-from-normed", NORMED, NEITHER, OPENNMT, _normed("last_norm", before_last)),
    ("feed-forward-from-block1", ONE, "block 2's output", PAPER, as_if(after2="after1")),
    ("attention-from-normed", NORMED, NEITHER, OPENNMT, _normed("norm1", lambda state: "start")),
    ("cross-from-normed", NORMED, NEITHER, OPENNMT, _normed("norm2", lambda state: "after1")),
    ("cross-from-input", BLOCK, ONE, PAPER, as_if(after1="start")),
    ("cross-from-attention", "the first attention's output alone", ONE, PAPER, as_if(after1="attention1")),
    ("cross-from-encoder", "enc_output", ONE, PAPER, _from_encoder),
    ("cross-from-unnormed", UNNORMED, f"{ONE}, which is normalized", OPENNMT, only(False, as_if(after1="residual1"))),
):
    _sublayer, _step, _which = next(one for one in SUBLAYERS if _id.startswith(one[0]))
    # Only decoders have the step `after2`.
    _decoders = {"after2": lambda state, right: right(state)} if _id.endswith("block1") else {}
    register(
        f"residual-{_id}",
        f"You added {_added} in the residual connection of {_which}. Add {_do}.",
        LOOK,
        _source,
        **{_step: _change, **_decoders},
    )
