"""Mistakes in the embedding: a token's vector times √d, plus its position (Vaswani et al. 2017, section 3.4)."""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.4"
SAM = "SamLynnEvans/Transformer#10"
IDS = "the line that looks up the ids"

# The last column computes the factor from B, T, the vocabulary's size and d.
for _id, _did, _source, _factor in (
    ("unscaled", "did not scale the embedding", f"{SAM}, d2l-ai/d2l-en#2661", lambda B, T, V, d: 1.0),
    ("divided", "divided the embedding by √d", "pytorch/tutorials#2849", lambda B, T, V, d: d**-0.5),
    ("scaled-by-width", "multiplied the embedding by d", SAM, lambda B, T, V, d: d),
    ("divided-by-width", "divided the embedding by d", PAPER, lambda B, T, V, d: 1 / d),
    ("scaled-by-length", "multiplied the embedding by √T, from the length", PAPER, lambda B, T, V, d: T**0.5),
    ("scaled-by-batch", "multiplied the embedding by √B, from the batch axis", PAPER, lambda B, T, V, d: B**0.5),
    (
        "scaled-by-vocabulary",
        "multiplied the embedding by √V, from the vocabulary's size",
        PAPER,
        lambda B, T, V, d: V**0.5,
    ),
):
    register(
        f"embedding-{_id}",
        f"You {_did}. Multiply the embedding by √d, the root of its width.",
        "the line that scales the embedding",
        _source,
        factor=lambda state, right, of=_factor: of(*state["ids"].shape, *state["table"].shape),
    )

for _id, _says, _source, _sum in (
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
        added=lambda state, right, of=_sum: of(state["looked_up"], state["encoded"], state["factor"]),
    )


def at_padding(state: State) -> np.ndarray:
    """Return a mask (B, T, 1), True at padding."""
    return (state["ids"] == state["trial"].more.get("pad_id", 0))[..., None]


def _without_padding(state: State, right: Step) -> Any:
    return np.where(at_padding(state), 0.0, right(state))


def _unit(state: State, right: Step) -> Any:
    length = np.linalg.norm(right(state), axis=-1, keepdims=True)
    return right(state) / np.where(length == 0, 1.0, length)


def _first(state: State, right: Step) -> Any:
    return np.broadcast_to(right(state)[:1], right(state).shape)


register(
    "embedding-padding-all-zero",
    "You set everything to zeros at padding, the positions too. It makes no difference if a mask hides padding later.",
    IDS,
    PAPER,
    added=_without_padding,
)
for _id, _says, _source, _change in (
    (
        "padding-zero",
        "You set the vector of padding to zeros. Use the vector in the table, as for any token.",
        "torch.nn.Embedding, `padding_idx`",
        _without_padding,
    ),
    ("unit-length", "You divided the vectors by their length. Use them as they are in the table.", PAPER, _unit),
    ("reversed", "You reversed the sequence. Keep its order.", PAPER, lambda state, right: right(state)[:, ::-1]),
    ("first-for-all", "You looked up the first item's tokens for all. Look up each item's own tokens.", PAPER, _first),
):
    register(f"embedding-{_id}", _says, IDS, _source, looked_up=_change)
