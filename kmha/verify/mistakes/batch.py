"""Mistakes that make an item's result depend on the batch's other items, and changes of the inputs themselves."""

import math
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.1: an item's queries meet its own keys"


def _transposed(state: State, right: Step) -> Any:
    """(B, P, …) read as (P, B, …): positions of one number attend to each other over the batch."""
    return {role: np.swapaxes(array, 0, 1) for role, array in right(state).items()}


def _back(state: State, right: Step) -> Any:
    return np.swapaxes(right(state), 0, 1)


def _no_mask(state: State, right: Step) -> Any:
    if state["trial"].masked:
        raise ImpossibleError("the mask does not fit products over the batch")
    return np.ones((1, 1, 1, 1), bool)


def _only_layer(state: State) -> None:
    if state["trial"].core:
        raise ImpossibleError("the core has heads in the place of positions")


def _positions_first(state: State, right: Step) -> Any:
    _only_layer(state)
    return _transposed(state, right)


register(
    "batch-for-positions",
    "Batch and positions are exchanged: the items of the batch attend to each other.",
    "which axis is the batch (batch_first)",
    "IBM/TabFormer#14, aipixel/AEMatter#3, songyangco/GETNext#2",
    inputs=_positions_first,
    allowed=_no_mask,
    dropped=lambda state, right: state["scores"],
    output=_back,
)


def _flattened(state: State, right: Step) -> Any:
    """All items' positions in one sequence: (1, H, B·P, O)."""
    return {
        role: array.swapaxes(0, 1).reshape(1, array.shape[1], -1, array.shape[3])
        for role, array in right(state).items()
    }


def _unflattened(state: State, right: Step) -> Any:
    mixed, batch = right(state), state["trial"].query.shape[0]
    _, heads, rows, size = mixed.shape
    return mixed.reshape(heads, batch, rows // batch, size).swapaxes(0, 1)


register(
    "batch-as-one-sequence",
    "All items are laid into one sequence: everybody attends to the whole batch.",
    "the reshape before the product of query and key",
    PAPER,
    heads=_flattened,
    allowed=_no_mask,
    dropped=lambda state, right: state["scores"],
    mixed=_unflattened,
)


def _first(*roles: str) -> Any:
    def change(state: State, right: Step) -> Any:
        result = right(state)
        return {**result, **{role: np.broadcast_to(result[role][:1], result[role].shape) for role in roles}}

    return change


register(
    "batch-first-key-value",
    "The first item's key and value are used for the whole batch.",
    "an index or a broadcast over the batch",
    PAPER,
    inputs=_first("key", "value"),
)
register(
    "batch-first-value",
    "The first item's value is used for the whole batch.",
    "an index or a broadcast over the batch",
    PAPER,
    inputs=_first("value"),
)
register(
    "batch-reversed-key-value",
    "Key and value come from another item: the batch runs the other way.",
    "the order of the batch in query and key, as in beam search",
    PAPER,
    inputs=lambda state, right: {**right(state), **{role: right(state)[role][::-1] for role in ("key", "value")}},
)
register(
    "batch-averaged-scores",
    "The scores are averaged over the batch: every item gets the same.",
    "an axis of a mean or a sum over the scores",
    PAPER,
    scores=lambda state, right: np.broadcast_to(right(state).mean(0, keepdims=True), right(state).shape),
)
register(
    "batch-centred",
    "The batch's average is taken off the inputs.",
    "a normalization over the batch in the place of over the features",
    "google-research/bert#1088, Kyubyong/transformer#40",
    inputs=lambda state, right: {role: array - array.mean(0, keepdims=True) for role, array in right(state).items()},
)

register(
    "input-changed",
    "An input is changed in place: its owner finds other numbers in it after the call.",
    "assignments such as `x *= …` and `x[…] = …` to arguments",
    "pytorch/pytorch#73249",
    untouched=lambda state, right: False,
)


def _scaled_in_place(state: State, right: Step) -> Any:
    """`query /= √O`: where key and value are the same array, they are scaled too."""
    trial = state["trial"]
    if not trial.core:
        raise ImpossibleError("a layer projects before it scales")
    scale = 1 / math.sqrt(trial.query.shape[-1])
    arrays = {"query": trial.query, "key": trial.key, "value": trial.value}
    return {role: arrays[role] * scale if arrays[role] is trial.query else arrays[role] for role in ROLES}


register(
    "input-scaled",
    "The query is scaled in place: where key and value are the same array, they are scaled too.",
    "assignments such as `query /= …`",
    "pytorch/pytorch#73249",
    inputs=_scaled_in_place,
    scaled=lambda state, right: state["logits"],
    untouched=lambda state, right: False,
)
