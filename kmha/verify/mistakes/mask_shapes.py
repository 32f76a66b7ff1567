"""Mistakes in the axes along which a mask is laid: repeated, tiled, broadcast, transposed."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, Trial
from kmha.verify.mistakes.entry import register

LOOK = "where the mask gets the axis of heads"
PAPER = "Vaswani et al. 2017, section 3.2.3"


def _heads(state: State) -> int:
    return int(state["heads"]["query"].shape[1])


def _given(trial: Trial) -> bool:
    """Whether a mask comes with the call: one that differs from item to item."""
    return trial.mask is not None or trial.key_mask is not None


def _reordered(order: Callable[[int, int], np.ndarray]) -> Change:
    """`order(B, H)` says for each of (B, H), flattened, which item's mask it gets."""

    def change(state: State, right: Step) -> Any:
        if not _given(state["trial"]):
            return right(state)
        allowed, heads = right(state)[:, 0], _heads(state)
        return allowed[order(len(allowed), heads) % len(allowed)].reshape(len(allowed), heads, *allowed.shape[1:])

    return change


def _stacked_heads_first(batch: int, heads: int) -> np.ndarray:
    """Logits are (H·B, T, S), the mask is repeated as if they were (B·H, T, S)."""
    return (np.arange(heads * batch) // heads).reshape(heads, batch).T.reshape(-1)


for _id, _says, _source, _order in (
    (
        "mask-tiled",
        "The mask is tiled over (B·H) where each item's must be repeated for its heads: heads get another item's mask.",
        "line/lighthouse#77, ArrowLuo/CLIP4Clip#22",
        lambda batch, heads: np.arange(batch * heads),
    ),
    (
        "mask-repeated",
        "The heads come first in (H·B), and the mask is repeated in place of tiled: heads get another item's mask.",
        "lsdefine/attention-is-all-you-need-keras#36, lsdefine/attention-is-all-you-need-keras#28",
        _stacked_heads_first,
    ),
    (
        "mask-of-first-item",
        "The first item's mask is used for the whole batch.",
        PAPER,
        lambda batch, heads: np.zeros(batch * heads, int),
    ),
    (
        "mask-of-next-item",
        "Each item gets the mask of the item after it.",
        PAPER,
        lambda batch, heads: np.repeat(np.arange(batch) + 1, heads),
    ),
):
    register(_id, _says, LOOK, _source, allowed=_reordered(_order))


def _first_head(state: State, right: Step) -> Any:
    allowed = right(state)
    first = np.arange(_heads(state)) == 0
    return allowed | ~first[:, None, None]


def _of_mask(of: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of the mask argument alone."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        if trial.mask is None:
            return right(state)
        mask = of(trial.mask)
        if mask.shape != trial.mask.shape:
            raise ImpossibleError(f"a mask of {mask.shape} in place of {trial.mask.shape}")
        return dataclasses.replace(trial, mask=mask).allowed()[:, None]

    return change


def _everywhere(index: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda mask: np.broadcast_to(mask[:, [index]], mask.shape)


for _id, _says, _source, _change in (
    (
        "mask-first-head-only",
        "Only the first head is masked.",
        "Vaswani et al. 2017, section 3.2.2: every head has the same mask",
        _first_head,
    ),
    (
        "mask-transposed",
        "The mask is transposed: queries and keys are exchanged.",
        "lsdefine/attention-is-all-you-need-keras#6",
        _of_mask(lambda mask: np.swapaxes(mask, 1, 2)),
    ),
    (
        "mask-first-row-for-all",
        "The mask's first row is used for all queries.",
        "autosome-ru/vigg_ribonanza#1",
        _of_mask(_everywhere(0)),
    ),
    (
        "mask-last-row-for-all",
        "The mask's last row is used for all queries.",
        PAPER,
        _of_mask(_everywhere(-1)),
    ),
    (
        "mask-any-row-for-all",
        "A key that any query may attend to is open to all of them: the mask is reduced to one of the keys.",
        PAPER,
        _of_mask(lambda mask: np.broadcast_to(mask.any(1, keepdims=True), mask.shape)),
    ),
    (
        "mask-all-rows-for-all",
        "A key that is hidden from any query is hidden from all of them: the mask is reduced to one of the keys.",
        PAPER,
        _of_mask(lambda mask: np.broadcast_to(mask.all(1, keepdims=True), mask.shape)),
    ),
    (
        "mask-all-items",
        "A position that is hidden in any item is hidden in the whole batch.",
        PAPER,
        _of_mask(lambda mask: np.broadcast_to(mask.all(0), mask.shape)),
    ),
):
    register(_id, _says, LOOK, _source, allowed=_change)


def _items_as_heads(state: State, right: Step) -> Any:
    """(B, T, S) or (B, 1, S), broadcast against (B, H, T, S): its batch meets the heads."""
    if not _given(state["trial"]):
        return right(state)
    return _laid(np.swapaxes(right(state), 0, 1), state)


def _items_as_queries(state: State, right: Step) -> Any:
    """The keys' padding (B, S), broadcast against (B, H, T, S): its batch meets the queries."""
    trial = state["trial"]
    if trial.key_mask is None:
        return right(state)
    others = dataclasses.replace(trial, key_mask=None).allowed()[:, None]
    return others & _laid(trial.key_mask[None, None], state)


def _laid(mask: np.ndarray, state: State) -> np.ndarray:
    shape = (*state["heads"]["query"].shape[:3], state["heads"]["key"].shape[2])
    return np.broadcast_to(mask, shape)


register(
    "mask-items-as-heads",
    "The mask has no axis of heads: where there are as many items as heads, head number b gets item b's mask.",
    LOOK,
    "lucidrains/graph-transformer-pytorch#2",
    allowed=_items_as_heads,
)
register(
    "padding-items-as-queries",
    "The padding mask (B, S) has no axes of heads and queries: with as many queries as items, query b gets item b's.",
    "where the padding mask gets its axes",
    "keras-team/keras-io#1046",
    allowed=_items_as_queries,
)


def _lengths(of: Callable[..., np.ndarray]) -> Change:
    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        if trial.key_mask is None:
            return right(state)
        return dataclasses.replace(trial, key_mask=of(trial.key_mask)).allowed()[:, None]

    return change


for _id, _says, _source, _of in (
    (
        "padding-shortest-for-all",
        "What is padding in any item is hidden in the whole batch.",
        PAPER,
        lambda mask: np.broadcast_to(mask.all(0), mask.shape),
    ),
    (
        "padding-one-more",
        "The padding mask is one position too long: the first padded position is attended.",
        PAPER,
        lambda mask: np.concatenate([np.ones_like(mask[:, :1]), mask[:, :-1]], axis=1),
    ),
    (
        "padding-one-less",
        "The padding mask is one position too short: the last real position is hidden.",
        PAPER,
        lambda mask: np.concatenate([mask[:, 1:], np.zeros_like(mask[:, :1])], axis=1),
    ),
    (
        "padding-at-other-end",
        "The padding is taken to be at the other end of the sequence.",
        "facebookresearch/fairseq#537",
        lambda mask: mask[:, ::-1],
    ),
):
    register(_id, _says, "where the padding mask is computed", _source, allowed=_lengths(_of))
