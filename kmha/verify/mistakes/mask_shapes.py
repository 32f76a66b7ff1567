"""Mistakes in the axes of a mask: repeated, tiled, broadcast or transposed wrongly."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, Trial, allowed_with, allowed_without
from kmha.verify.mistakes.entry import register

LOOK = "the line that gives the mask its axis of heads"
PAPER = "Vaswani et al. 2017, section 3.2.3"


def _given(trial: Trial) -> bool:
    """Return whether the call has a mask that differs between items."""
    return trial.mask is not None or trial.key_mask is not None


def _reordered(order: Callable[[int, int], np.ndarray]) -> Change:
    """Return a change of masks. `order(B, H)` returns, for each of the B·H heads, the item whose mask it gets."""

    def change(state: State, right: Step) -> Any:
        if not _given(state["trial"]):
            return right(state)
        allowed, heads = right(state)[:, 0], state["heads"]["query"].shape[1]
        return allowed[order(len(allowed), heads) % len(allowed)].reshape(len(allowed), heads, *allowed.shape[1:])

    return change


def _stacked_heads_first(batch: int, heads: int) -> np.ndarray:
    """Return the order of a mask that is repeated as if the logits (H·B, T, S) were (B·H, T, S)."""
    return (np.arange(heads * batch) // heads).reshape(heads, batch).T.reshape(-1)


for _id, _says, _source, _order in (
    (
        "mask-tiled",
        "You tiled the mask over (B·H), so heads get another item's mask. Repeat each item's mask for its heads.",
        "line/lighthouse#77, ArrowLuo/CLIP4Clip#22",
        lambda batch, heads: np.arange(batch * heads),
    ),
    (
        "mask-repeated",
        "You repeated the mask where the heads come first, (H·B), so heads get another item's mask. Tile it.",
        "lsdefine/attention-is-all-you-need-keras#36, lsdefine/attention-is-all-you-need-keras#28",
        _stacked_heads_first,
    ),
    (
        "mask-of-first-item",
        "You used the first item's mask for the whole batch. Each item has its own mask.",
        PAPER,
        lambda batch, heads: np.zeros(batch * heads, int),
    ),
    (
        "mask-of-next-item",
        "You used the next item's mask for each item. Use the item's own mask.",
        PAPER,
        lambda batch, heads: np.repeat(np.arange(batch) + 1, heads),
    ),
):
    register(_id, _says, LOOK, _source, allowed=_reordered(_order))


register(
    "mask-first-head-only",
    "You masked only the first head. Apply the mask to every head.",
    LOOK,
    "Vaswani et al. 2017, section 3.2.2: every head has the same mask",
    allowed=lambda state, right: right(state) | (np.arange(state["heads"]["query"].shape[1]) > 0)[:, None, None],
)


def _of(name: str, of: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Return a change that applies `of` to the mask `name`, and broadcasts the result."""

    def change(state: State, right: Step) -> Any:
        mask = getattr(state["trial"], name)
        if mask is None:
            return right(state)
        try:
            return allowed_with(state, **{name: np.broadcast_to(of(mask), mask.shape)})
        except ValueError as error:
            raise ImpossibleError("the mask does not fit") from error

    return change


for _id, _says, _source, _of_mask in (
    (
        "transposed",
        "You transposed the mask. Its rows are queries and its columns are keys: (T, S).",
        "lsdefine/attention-is-all-you-need-keras#6",
        lambda mask: np.swapaxes(mask, 1, 2),
    ),
    (
        "all-items",
        "You hid a position in the whole batch if it is hidden in any item. Each item has its own mask.",
        PAPER,
        lambda mask: mask.all(0),
    ),
):
    register(f"mask-{_id}", _says, LOOK, _source, allowed=_of("mask", _of_mask))
for _id, _did, _source, _of_mask in (
    ("first", "used the mask's first row for all queries", "autosome-ru/vigg_ribonanza#1", lambda mask: mask[:, :1]),
    ("last", "used the mask's last row for all queries", PAPER, lambda mask: mask[:, -1:]),
    ("any", "allowed a key to all queries if one may attend to it", PAPER, lambda mask: mask.any(1, keepdims=True)),
    ("all", "hid a key from all queries if it is hidden from one", PAPER, lambda mask: mask.all(1, keepdims=True)),
):
    _name = f"mask-{_id}-rows-for-all" if _id == "all" else f"mask-{_id}-row-for-all"
    _says = f"You {_did}. Each query has a row of its own."
    register(_name, _says, LOOK, _source, allowed=_of("mask", _of_mask))


def _items_as_heads(state: State, right: Step) -> Any:
    """Broadcast (B, T, S) or (B, 1, S) against (B, H, T, S), so that the mask's batch meets the heads."""
    return _laid(np.swapaxes(right(state), 0, 1), state) if _given(state["trial"]) else right(state)


def _items_as_queries(state: State, right: Step) -> Any:
    """Broadcast the keys' padding (B, S) against (B, H, T, S), so that the mask's batch meets the queries."""
    mask = state["trial"].key_mask
    return right(state) if mask is None else allowed_without(state, "key_mask") & _laid(mask[None, None], state)


def _laid(mask: np.ndarray, state: State) -> np.ndarray:
    return np.broadcast_to(mask, (*state["heads"]["query"].shape[:3], state["heads"]["key"].shape[2]))


register(
    "mask-items-as-heads",
    "You left the mask without an axis of heads, so head b gets item b's mask where B = H. Insert an axis of heads.",
    LOOK,
    "lucidrains/graph-transformer-pytorch#2",
    allowed=_items_as_heads,
)
register(
    "padding-items-as-queries",
    "You broadcast the padding mask (B, S), so query b gets item b's where B = T. Insert axes of heads and queries.",
    "the line that gives the padding mask its axes",
    "keras-team/keras-io#1046",
    allowed=_items_as_queries,
)

for _id, _says, _source, _of_mask in (
    (
        "shortest-for-all",
        "You hid in the whole batch what is padding in any item. Each item has its own padding.",
        PAPER,
        lambda mask: mask.all(0),
    ),
    (
        "one-more",
        "You made the padding mask one position too long: it allows the first padded position. Shorten it by one.",
        PAPER,
        lambda mask: np.concatenate([np.ones_like(mask[:, :1]), mask[:, :-1]], axis=1),
    ),
    (
        "one-less",
        "You made the padding mask one position too short: it hides the last real position. Lengthen it by one.",
        PAPER,
        lambda mask: np.concatenate([mask[:, 1:], np.zeros_like(mask[:, :1])], axis=1),
    ),
    (
        "at-other-end",
        "You placed the padding mask at the other end of the sequence. Hide the end where the padding is.",
        "facebookresearch/fairseq#537",
        lambda mask: mask[:, ::-1],
    ),
):
    register(
        f"padding-{_id}", _says, "the line that computes the padding mask", _source, allowed=_of("key_mask", _of_mask)
    )
