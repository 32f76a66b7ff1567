"""Mistakes in the residual connections of a block (Vaswani et al. 2017, section 3.1)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.1"
LOOK = "the line that adds the residual connection"
# A sublayer's name, the step of its residual connection, how a sentence calls it.
SUBLAYERS = (
    ("attention", "residual1", "the self-attention"),
    ("cross", "residual2", "the second attention"),
    ("feed-forward", "last_residual", "the feed-forward network"),
)

Sum = Callable[[np.ndarray, np.ndarray], np.ndarray]


def before_last(state: State) -> str:
    """The step before the feed-forward network."""
    return "after2" if "after2" in state else "after1"


def as_if(**steps: str) -> Change:
    """A change of a step that reads the step `steps[a]` where it should read the step `a`."""
    return lambda state, right: right({**state, **{name: state[other] for name, other in steps.items()}})


def only(norm_first: bool, change: Change) -> Change:
    """A change that there is in pre-norm alone, or in post-norm alone."""

    def checked(state: State, right: Step) -> Any:
        if (state["norm_place"] == "before") != norm_first:
            raise ImpossibleError("there the normalization stands elsewhere")
        return change(state, right)

    return checked


def _here(of: Sum) -> Change:
    """A change of one residual connection."""
    return lambda state, right: right({**state, "add": of})


def _everywhere(of: Sum) -> Change:
    return lambda state, right: of


for _name, _everywhere_says, _says, _source, _one_source, _of in (
    (
        "missing",
        "All residual connections are missing.",
        "The residual connection around {} is missing.",
        f"{PAPER}; asked in tensorflow/models#7533",
        PAPER,
        lambda x, output: output,
    ),
    (
        "doubled",
        "All residual connections add their input twice.",
        "The residual connection around {} adds its input twice.",
        PAPER,
        PAPER,
        lambda x, output: 2 * x + output,
    ),
    (
        "sublayer-doubled",
        "All residual connections add what the sublayer gives twice.",
        "What {} gives is added twice.",
        PAPER,
        PAPER,
        lambda x, output: x + 2 * output,
    ),
    (
        "of-itself",
        "Every residual connection adds its input to itself, and what the sublayers give is not used.",
        "The residual connection around {} adds its input to itself, and what that gives is not used.",
        PAPER,
        PAPER,
        lambda x, output: x + x,
    ),
    (
        "output-doubled",
        "Every residual connection adds what the sublayer gives to itself: the input is lost.",
        "What {} gives is added to itself: the input is lost.",
        "LeeSureman/Flat-Lattice-Transformer#34, kyegomez/BitNet#32",
        "LeeSureman/Flat-Lattice-Transformer#34, kyegomez/BitNet#32",
        lambda x, output: output + output,
    ),
    (
        "unused",
        "What the sublayers give is not used: x goes on as it was.",
        "What {} gives is not used: x goes on as it was.",
        "lucidrains/audiolm-pytorch#265",
        "lucidrains/audiolm-pytorch#265",
        lambda x, output: x,
    ),
):
    register(f"residual-{_name}", _everywhere_says, LOOK, _source, add=_everywhere(_of))
    for _sublayer, _step, _which in SUBLAYERS:
        register(f"residual-{_name}-{_sublayer}", _says.format(_which), LOOK, _one_source, **{_step: _here(_of)})

for _name, _says, _of in (
    ("averaged", "The residual connections average in place of adding.", lambda x, output: (x + output) / 2),
    ("multiplied", "The residual connections multiply in place of adding.", lambda x, output: x * output),
    ("subtracted", "The residual connections subtract what the sublayers give.", lambda x, output: x - output),
    ("rectified", "A relu follows every residual connection.", lambda x, output: np.maximum(x + output, 0.0)),
):
    register(f"residual-{_name}", _says, LOOK, PAPER, add=_everywhere(_of))


def _last_from(**steps: str) -> Change:
    """The feed-forward network's residual connection adds another step, by chain: of `encoder`, of `decoder`."""

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
        "The feed-forward network's residual connection adds the block's input, not what the attention's part gave.",
        "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8",
        "last_residual",
        _last_from(encoder="start", decoder="start"),
    ),
    (
        "residual-feed-forward-from-attention",
        "The feed-forward network's residual connection adds the attention's bare output.",
        PAPER,
        "last_residual",
        _last_from(encoder="attention1", decoder="attention2"),
    ),
    (
        "residual-feed-forward-from-unnormed",
        "The feed-forward network's residual connection adds the sum before its normalization.",
        "OpenNMT/OpenNMT-py#1375",
        "last_residual",
        only(False, _last_from(encoder="residual1", decoder="residual2")),
    ),
    (
        "residual-feed-forward-from-normed",
        "The feed-forward network's residual connection adds the normalized input.",
        "OpenNMT/OpenNMT-py#1375",
        "last_residual",
        only(True, _normed("last_norm", before_last)),
    ),
    (
        "residual-attention-from-normed",
        "The self-attention's residual connection adds the normalized input.",
        "OpenNMT/OpenNMT-py#1375",
        "residual1",
        only(True, _normed("norm1", lambda state: "start")),
    ),
    (
        "residual-cross-from-normed",
        "The second attention's residual connection adds the normalized input.",
        "OpenNMT/OpenNMT-py#1375",
        "residual2",
        only(True, _normed("norm2", lambda state: "after1")),
    ),
    (
        "residual-cross-from-input",
        "The second attention's residual connection adds the block's input, not block 1's output.",
        PAPER,
        "residual2",
        as_if(after1="start"),
    ),
    (
        "residual-cross-from-attention",
        "The second attention's residual connection adds the first attention's bare output.",
        PAPER,
        "residual2",
        as_if(after1="attention1"),
    ),
    (
        "residual-cross-from-encoder",
        "The second attention's residual connection adds enc_output.",
        PAPER,
        "residual2",
        _from_encoder,
    ),
    (
        "residual-cross-from-unnormed",
        "The second attention's residual connection adds the sum before its normalization.",
        "OpenNMT/OpenNMT-py#1375",
        "residual2",
        only(False, as_if(after1="residual1")),
    ),
):
    register(_id, _says, LOOK, _source, **{_step: _change})

register(
    "residual-feed-forward-from-block1",
    "The feed-forward network's residual connection adds block 1's output, not the second attention's part.",
    LOOK,
    PAPER,
    last_residual=as_if(after2="after1"),
    after2=lambda state, right: right(state),  # a decoder's
)
