"""Mistakes that make an item's result depend on the batch's other items, and changes of the inputs themselves."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.1: an item's queries meet its own keys"


def _inputs(of: Callable[[np.ndarray], np.ndarray], *roles: str) -> Change:
    """Return a change of `inputs` that applies `of` to the inputs of these roles (all roles by default)."""
    return lambda state, right: {
        role: of(array) if role in (roles or ROLES) else array for role, array in right(state).items()
    }


def _positions_first(state: State, right: Step) -> Any:
    """Read (B, P, …) as (P, B, …), so that items attend to each other at each position."""
    if state["trial"].core:
        raise ImpossibleError("the core has heads where the layer has positions")
    if state["trial"].query.shape[0] == 1:
        raise ImpossibleError("there may be no axis of items to swap")
    return {role: np.swapaxes(array, 0, 1) for role, array in right(state).items()}


def _no_mask(state: State, right: Step) -> Any:
    if state["trial"].masked:
        raise ImpossibleError("the mask does not fit products over the batch")
    return np.ones((1, 1, 1, 1), bool)


register(
    "batch-for-positions",
    "You swapped batch and positions, so the items of the batch attend to each other. The batch is the first axis.",
    "the axis of the batch (batch_first)",
    "IBM/TabFormer#14, aipixel/AEMatter#3, songyangco/GETNext#2",
    inputs=_positions_first,
    allowed=_no_mask,
    dropped=lambda state, right: state["scores"],
    output=lambda state, right: np.swapaxes(right(state), 0, 1),
)


def _flattened(state: State, right: Step) -> Any:
    """Put the positions of all items into one sequence: (1, H, B·P, O)."""
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
    "You flattened all items into one sequence, so positions attend to the whole batch. Keep the batch as an axis.",
    "the reshape before the product of query and key",
    PAPER,
    heads=_flattened,
    allowed=_no_mask,
    dropped=lambda state, right: state["scores"],
    mixed=_unflattened,
)


def _first(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array[:1], array.shape)


for _id, _says, _look, _roles, _of in (
    (
        "first-key-value",
        "You used the first item's key and value for the whole batch. Each item attends to its own key and value.",
        "an index or a broadcast over the batch",
        ("key", "value"),
        _first,
    ),
    (
        "first-value",
        "You used the first item's value for the whole batch. Each item mixes its own value.",
        "an index or a broadcast over the batch",
        ("value",),
        _first,
    ),
    (
        "reversed-key-value",
        "You reversed the batch of key and value, so items meet another's. Use the query's order for all three.",
        "the order of the batch in query and key, for instance in beam search",
        ("key", "value"),
        lambda array: array[::-1],
    ),
):
    register(f"batch-{_id}", _says, _look, PAPER, inputs=_inputs(_of, *_roles))
register(
    "batch-averaged-scores",
    "You averaged the scores over the batch, so every item gets the same. Keep each item's own scores.",
    "the axis of a mean or a sum over the scores",
    PAPER,
    scores=lambda state, right: np.broadcast_to(right(state).mean(0, keepdims=True), right(state).shape),
)
register(
    "batch-centred",
    "You subtracted the mean over the batch from the inputs. An item's result must not depend on the other items.",
    "a normalization that runs over the batch instead of the features",
    "google-research/bert#1088, Kyubyong/transformer#40",
    inputs=_inputs(lambda array: array - array.mean(0, keepdims=True)),
)

register(
    "input-changed",
    "You changed an input in place, so the caller finds other numbers in it after the call. Compute a new array.",
    "assignments to arguments, such as `x *= …` and `x[…] = …`",
    "pytorch/pytorch#73249",
    untouched=lambda state, right: False,
)


def _scaled_in_place(state: State, right: Step) -> Any:
    """Compute `query /= √O`, which also scales key and value if they are the same array."""
    trial = state["trial"]
    if not trial.core:
        raise ImpossibleError("a layer projects before it scales")
    scale = 1 / math.sqrt(trial.query.shape[-1])
    arrays = {"query": trial.query, "key": trial.key, "value": trial.value}
    return {role: arrays[role] * scale if arrays[role] is trial.query else arrays[role] for role in ROLES}


register(
    "input-scaled",
    "You scaled the query in place, and with it key and value where they are the same array. Compute a new array.",
    "assignments to arguments, such as `query /= …`",
    "pytorch/pytorch#73249",
    inputs=_scaled_in_place,
    scaled=lambda state, right: state["logits"],
    untouched=lambda state, right: False,
)
