"""Mistakes in the embedding: a token's vector times √d, plus its position (Vaswani et al. 2017, section 3.4)."""

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
        "You did not scale the embedding. Multiply it by √d.",
        "SamLynnEvans/Transformer#10, d2l-ai/d2l-en#2661",
        _factor(lambda width: 1.0),
    ),
    (
        "divided",
        "You divided the embedding by √d. Multiply it by √d.",
        "pytorch/tutorials#2849",
        _factor(lambda width: 1 / math.sqrt(width)),
    ),
    (
        "scaled-by-width",
        "You multiplied the embedding by d. Multiply it once by √d.",
        "SamLynnEvans/Transformer#10",
        _factor(float),
    ),
    (
        "divided-by-width",
        "You divided the embedding by d. Multiply it by √d.",
        PAPER,
        _factor(lambda width: 1 / width),
    ),
    (
        "scaled-by-length",
        "You multiplied the embedding by √T, the root of the length. Multiply it by √d, the root of the width.",
        PAPER,
        lambda state, right: math.sqrt(state["ids"].shape[-1]),
    ),
    (
        "scaled-by-batch",
        "You multiplied the embedding by √B: you read the width from the batch axis. Multiply it by √d.",
        PAPER,
        lambda state, right: math.sqrt(state["ids"].shape[0]),
    ),
    (
        "scaled-by-vocabulary",
        "You multiplied the embedding by the root of the vocabulary's size. Multiply it by √d, the root of the width.",
        PAPER,
        lambda state, right: math.sqrt(state["table"].shape[0]),
    ),
):
    register(f"embedding-{_id}", _says, LOOK, _source, factor=_change)

for _id, _says, _source, _of in (
    (
        "scaled-after-positions",
        "You multiplied the positions by √d too. Scale the embedding first, then add the positions.",
        "khirotaka/SAnD#3",
        lambda x, encoded, factor: (x + encoded) * factor,
    ),
    (
        "positions-scaled",
        "You multiplied the positions by √d. Multiply the embedding by it.",
        PAPER,
        lambda x, encoded, factor: x + encoded * factor,
    ),
    (
        "sum-divided",
        "You divided the sum of embedding and positions by √d. Multiply the embedding by √d, then add the positions.",
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
        "You set the vector of padding to zeros. Use the vector in the table, as for any token.",
        "torch.nn.Embedding, `padding_idx`",
        {"looked_up": lambda state, right: np.where(_padding(state), 0.0, right(state))},
    ),
    (
        "padding-all-zero",
        "You set everything to zeros at padding, the positions too. Treat padding like any token here.",
        PAPER,
        {"added": lambda state, right: np.where(_padding(state), 0.0, right(state))},
    ),
    (
        "unit-length",
        "You divided the vectors by their length. Use them as they are in the table.",
        PAPER,
        {"looked_up": _unit},
    ),
    (
        "reversed",
        "You reversed the sequence. Keep its order.",
        PAPER,
        {"looked_up": lambda state, right: right(state)[:, ::-1]},
    ),
    (
        "first-for-all",
        "You used the first item's tokens for the whole batch. Look up each item's own tokens.",
        PAPER,
        {"looked_up": lambda state, right: np.broadcast_to(right(state)[:1], right(state).shape)},
    ),
):
    register(f"embedding-{_id}", _says, "the line that looks up the ids", _source, **_changes)
