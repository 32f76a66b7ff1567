"""Mistakes in how the heads are merged (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError, State, Step, matmul
from kmha.verify.mistakes.entry import register

KERNEL = "the output projection"
PAPER = "Vaswani et al. 2017, section 3.2.2"
STAGE = "ttsugriy.github.io/llm-first-principles stage 5, mistake 5"


def _size_first(mixed: np.ndarray) -> np.ndarray:
    batch, heads, rows, size = mixed.shape
    return mixed.transpose(0, 2, 3, 1).reshape(batch, rows, heads * size)


def _batch_exchanged(mixed: np.ndarray) -> np.ndarray:
    """Read (B·H, T, O) as (H, B, T, O)."""
    batch, heads, rows, size = mixed.shape
    return mixed.reshape(heads, batch, rows, size).transpose(1, 2, 0, 3).reshape(batch, rows, heads * size)


def _side_by_side(mixed: np.ndarray) -> np.ndarray:
    return np.swapaxes(mixed, 1, 2).reshape(mixed.shape[0], mixed.shape[2], -1)


def _everywhere(of: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that replaces every head by the same array (B, T, O), which `of` makes from all heads."""
    return lambda mixed: _side_by_side(np.broadcast_to(of(mixed, axis=1, keepdims=True), mixed.shape))


def _only(index: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda mixed: _side_by_side(np.broadcast_to(mixed[:, [index]], mixed.shape))


def _layer_only(state: State, right: Step) -> Any:
    if state["trial"].core:
        raise ImpossibleError("the core does not merge its heads")
    return right(state)


for _name, _says, _source, _of in (
    (
        "not-transposed",
        "You merged the heads without transposing back. Transpose to (B, T, H, O), then reshape.",
        "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, hackiey/QAnet-pytorch#2",
        lambda mixed: mixed.reshape(mixed.shape[0], mixed.shape[2], -1),
    ),
    (
        "size-first",
        "You interleaved the heads by merging as (O, H). This learns as well, but trained weights of other code do not "
        "fit. Merge as (H, O).",
        PAPER,
        _size_first,
    ),
    (
        "batch-exchanged",
        "You swapped batch and heads when merging: you read (B·H) as (H·B). Reshape to (B, H, T, O).",
        "gazelle93/Transformer-Various-Positional-Encoding#1, 649453932/Chinese-Text-Classification-Pytorch#10",
        _batch_exchanged,
    ),
    ("averaged", "You averaged the heads. Concatenate them.", STAGE, _everywhere(np.mean)),
    ("summed", "You summed the heads. Concatenate them.", "awf/functional-transformer#8", _everywhere(np.sum)),
    ("largest", "You took the heads' maximum. Concatenate them.", "broadinstitute/CellCap#40", _everywhere(np.max)),
    ("first-head-only", "You used the first head's result for every head. Concatenate all results.", PAPER, _only(0)),
    (
        "last-head-only",
        "You used only the last head's result (perhaps each head overwrites the one before). Concatenate all results.",
        PAPER,
        _only(-1),
    ),
    (
        "heads-reversed",
        "You concatenated the heads in reverse order. Start with the first head.",
        PAPER,
        lambda mixed: _side_by_side(mixed[:, ::-1]),
    ),
):
    register(
        f"merge-{_name}",
        _says,
        "the line that concatenates the heads",
        _source,
        joined=lambda state, right, of=_of: of(state["mixed"]),
        merged=_layer_only,
    )


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
        "You used the output's kernel as (out, in). Its axes are (in, out): transpose it.",
        "rasbt/LLMs-from-scratch#857",
        _transposed,
    ),
    (
        "merge-kernel-size-first",
        "You flattened the output's kernel as (O, H). Flatten it as (H, O).",
        PAPER,
        _kernel_size_first,
    ),
    (
        "merge-divided-by-heads",
        "You averaged the heads' projections, but not the bias. Sum them.",
        STAGE,
        lambda state, right: right(state) / _kernel(state).shape[0],
    ),
):
    register(_id, _says, KERNEL, _source, merged=_change)

register(
    "merge-projection-missing",
    "You returned the concatenated heads. Multiply them by the output kernel, and add the bias.",
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
    "You applied a relu to the output. The output projection is linear: leave the activation out.",
    "the activation of the output projection",
    "Kyubyong/transformer#17",
    output=_activated,
)


def _bias_first(state: State, right: Step) -> Any:
    """Compute (joined + b) W. This is possible if E is H·O."""
    bias = state["weights"].get("attention_output/bias")
    if bias is None or bias.shape[-1] != state["joined"].shape[-1]:
        raise ImpossibleError("the bias does not fit")
    return right({**state, "joined": state["joined"] + bias})


register(
    "merge-bias-first",
    "You added the output's bias before the product with the output kernel. Add it after the product.",
    KERNEL,
    PAPER,
    merged=_bias_first,
    output=lambda state, right: state["merged"],
)
