"""Mistakes in the embedding: a token's vector times √d, and positions added (Vaswani et al. 2017, section 3.4)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.4"
LOOK = "the line that scales the embedding"


def _factor(of: Callable[[int], float]) -> Any:
    return lambda state, right: of(state["table"].shape[-1])


for _id, _says, _source, _change in (
    (
        "unscaled",
        "The embedding is not multiplied by √d.",
        "SamLynnEvans/Transformer#10, d2l-ai/d2l-en#2661",
        _factor(lambda width: 1.0),
    ),
    (
        "divided",
        "The embedding is divided by √d in place of multiplied.",
        "pytorch/tutorials#2849",
        _factor(lambda width: 1 / math.sqrt(width)),
    ),
    (
        "scaled-by-width",
        "The embedding is multiplied by d: the root is missing, or √d is there twice.",
        "SamLynnEvans/Transformer#10",
        _factor(float),
    ),
    (
        "divided-by-width",
        "The embedding is divided by d in place of multiplied by √d.",
        PAPER,
        _factor(lambda width: 1 / width),
    ),
    (
        "scaled-by-length",
        "The embedding is multiplied by √T, the root of the length, in place of √d.",
        PAPER,
        lambda state, right: math.sqrt(state["ids"].shape[-1]),
    ),
    (
        "scaled-by-batch",
        "The embedding is multiplied by √B: the width is read from the batch axis.",
        PAPER,
        lambda state, right: math.sqrt(state["ids"].shape[0]),
    ),
    (
        "scaled-by-vocabulary",
        "The embedding is multiplied by the root of the vocabulary's size in place of √d.",
        PAPER,
        lambda state, right: math.sqrt(state["table"].shape[0]),
    ),
):
    register(f"embedding-{_id}", _says, LOOK, _source, factor=_change)

for _id, _says, _source, _of in (
    (
        "scaled-after-positions",
        "√d multiplies the positions too: it is applied after they were added.",
        "khirotaka/SAnD#3",
        lambda x, encoded, factor: (x + encoded) * factor,
    ),
    (
        "positions-scaled",
        "√d multiplies the positions in place of the embedding.",
        PAPER,
        lambda x, encoded, factor: x + encoded * factor,
    ),
    (
        "sum-divided",
        "The sum of embedding and positions is divided by √d.",
        "pytorch/tutorials#2849",
        lambda x, encoded, factor: (x + encoded) / factor,
    ),
):
    register(
        f"embedding-{_id}",
        _says,
        "the order of scaling and adding the positions",
        _source,
        added=lambda state, right, of=_of: of(state["looked_up"], state["encoded"], state["factor"]),
    )


def _padding(state: State) -> np.ndarray:
    return (state["ids"] == state["trial"].more.get("pad_id", 0))[..., None]


def _unit(state: State, right: Step) -> Any:
    length = np.linalg.norm(right(state), axis=-1, keepdims=True)
    return right(state) / np.where(length == 0, 1.0, length)


for _id, _says, _source, _changes in (
    (
        "padding-zero",
        "The vector of padding is zeros in place of the table's.",
        "torch.nn.Embedding, `padding_idx`",
        {"looked_up": lambda state, right: np.where(_padding(state), 0.0, right(state))},
    ),
    (
        "padding-all-zero",
        "Where the token is padding everything is zeros, the positions too.",
        PAPER,
        {"added": lambda state, right: np.where(_padding(state), 0.0, right(state))},
    ),
    (
        "unit-length",
        "The vectors are divided by their length.",
        PAPER,
        {"looked_up": _unit},
    ),
    (
        "reversed",
        "The sequence is reversed.",
        PAPER,
        {"looked_up": lambda state, right: right(state)[:, ::-1]},
    ),
    (
        "first-for-all",
        "The first item's tokens are used for the whole batch.",
        PAPER,
        {"looked_up": lambda state, right: np.broadcast_to(right(state)[:1], right(state).shape)},
    ),
):
    register(f"embedding-{_id}", _says, "where the ids are looked up", _source, **_changes)
