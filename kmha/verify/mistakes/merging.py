"""Mistakes in how the heads are put together again (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, matmul
from kmha.verify.mistakes.entry import register

LOOK = "where the heads are put side by side"
KERNEL = "the output projection"
PAPER = "Vaswani et al. 2017, section 3.2.2"


def _not_transposed(mixed: np.ndarray) -> np.ndarray:
    batch, heads, rows, size = mixed.shape
    return mixed.reshape(batch, rows, heads * size)


def _size_first(mixed: np.ndarray) -> np.ndarray:
    batch, heads, rows, size = mixed.shape
    return mixed.transpose(0, 2, 3, 1).reshape(batch, rows, heads * size)


def _batch_exchanged(mixed: np.ndarray) -> np.ndarray:
    """(B·H, T, O) is read as (H, B, T, O)."""
    batch, heads, rows, size = mixed.shape
    return mixed.reshape(heads, batch, rows, size).transpose(1, 2, 0, 3).reshape(batch, rows, heads * size)


def _side_by_side(mixed: np.ndarray) -> np.ndarray:
    return np.swapaxes(mixed, 1, 2).reshape(mixed.shape[0], mixed.shape[2], -1)


def _everywhere(of: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """One array (B, T, O) of all heads, in the place of each."""
    return lambda mixed: _side_by_side(np.broadcast_to(of(mixed, axis=1, keepdims=True), mixed.shape))


def _only(index: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda mixed: _side_by_side(np.broadcast_to(mixed[:, [index]], mixed.shape))


def _joined(of: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda state, right: of(state["mixed"])


def _core_too(of: Callable[[np.ndarray], np.ndarray]) -> Change:
    """The layer's merge; the core has none, and its output is as it was mixed."""

    def change(state: State, right: Step) -> Any:
        if state["trial"].core:
            raise ImpossibleError("the core does not merge its heads")
        return of(right(state))

    return change


for _name, _says, _source, _of in (
    (
        "not-transposed",
        "The heads are merged without transposing back: a query gets pieces of other queries.",
        "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, hackiey/QAnet-pytorch#2",
        _not_transposed,
    ),
    (
        "size-first",
        "The heads are interleaved: merged as (O, H) in place of (H, O).",
        PAPER,
        _size_first,
    ),
    (
        "batch-exchanged",
        "Batch and heads are exchanged when merging: (B·H) is read as (H·B).",
        "gazelle93/Transformer-Various-Positional-Encoding#1, 649453932/Chinese-Text-Classification-Pytorch#10",
        _batch_exchanged,
    ),
    (
        "averaged",
        "The heads are averaged in place of concatenated.",
        "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        _everywhere(np.mean),
    ),
    ("summed", "The heads are summed in place of concatenated.", "awf/functional-transformer#8", _everywhere(np.sum)),
    (
        "largest",
        "The largest over the heads is taken in place of concatenating them.",
        "broadinstitute/CellCap#40",
        _everywhere(np.max),
    ),
    (
        "first-head-only",
        "Only the first head's result is used, in the place of every head's.",
        PAPER,
        _only(0),
    ),
    (
        "last-head-only",
        "Only the last head's result is used: each head overwrites the one before.",
        PAPER,
        _only(-1),
    ),
    (
        "heads-reversed",
        "The heads are concatenated in the opposite order.",
        PAPER,
        lambda mixed: _side_by_side(mixed[:, ::-1]),
    ),
):
    register(f"merge-{_name}", _says, LOOK, _source, joined=_joined(_of), merged=_core_too(lambda merged: merged))


def _kernel(state: State) -> np.ndarray:
    if state["trial"].core:
        raise ImpossibleError("the core has no output projection")
    return state["weights"]["attention_output/kernel"]


def _transposed(state: State, right: Step) -> Any:
    kernel = _kernel(state)
    return matmul(state["joined"], kernel.reshape(-1, kernel.shape[-1]).T)


def _kernel_size_first(state: State, right: Step) -> Any:
    kernel = _kernel(state)
    return matmul(state["joined"], np.swapaxes(kernel, 0, 1).reshape(-1, kernel.shape[-1]))


def _missing(state: State, right: Step) -> Any:
    _kernel(state)
    return state["joined"]


for _id, _says, _source, _change in (
    (
        "merge-kernel-transposed",
        "The output's kernel is used as (out, in) in place of (in, out).",
        "rasbt/LLMs-from-scratch#857",
        _transposed,
    ),
    (
        "merge-kernel-size-first",
        "The output's kernel is flattened as (O, H) in place of (H, O).",
        PAPER,
        _kernel_size_first,
    ),
    (
        "merge-divided-by-heads",
        "The heads' projections are averaged in place of summed; the bias is not.",
        "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        lambda state, right: right(state) / _kernel(state).shape[0],
    ),
):
    register(_id, _says, KERNEL, _source, merged=_change)

register(
    "merge-projection-missing",
    "There is no output projection: the heads side by side are the output.",
    KERNEL,
    "Kyubyong/transformer#117, jwallbridge/translob#4, d2l-ai/d2l-en#439",
    merged=_missing,
    output=lambda state, right: state["merged"],
)


def _activated(state: State, right: Step) -> Any:
    _kernel(state)
    return np.maximum(right(state), 0.0)


register(
    "merge-rectified",
    "The output goes through a relu.",
    "the activation of the output projection",
    "Kyubyong/transformer#17",
    output=_activated,
)


def _bias_first(state: State, right: Step) -> Any:
    """(joined + b) W: it fits where E is H·O."""
    bias = state["weights"].get("attention_output/bias")
    if bias is None or bias.shape[-1] != state["joined"].shape[-1]:
        raise ImpossibleError("the bias does not fit")
    return right({**state, "joined": state["joined"] + bias})


register(
    "merge-bias-first",
    "The output's bias is added before the output's kernel in place of after it.",
    KERNEL,
    PAPER,
    merged=_bias_first,
    output=lambda state, right: state["merged"],
)
