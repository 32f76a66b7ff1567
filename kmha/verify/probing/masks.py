"""The masks among a call's arguments: the positions that they hide, and their growth with a sequence.

True, or 1, means *attend*. A mask of floats with negative numbers is added to the logits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

HIDDEN_BELOW = -1e3  # a number below this one, added to a logit, hides the logit's position
QUERY_KEY_MASKS = ("attention_mask", "look_ahead_mask")  # two axes are (T, S) in these masks, and (B, S) in others


def is_batched(name: str, mask: np.ndarray, batch: int | None) -> bool:
    """Return whether the first axis of a mask is B.

    >>> is_batched("attention_mask", np.ones((3, 3)), 3), is_batched("mask", np.ones((3, 5)), 3)
    (False, True)
    """
    if mask.ndim == 2 and name in QUERY_KEY_MASKS and mask.shape[0] == mask.shape[1]:
        return False
    return mask.ndim >= 2 and mask.shape[0] == batch


def visible(mask: np.ndarray) -> np.ndarray:
    """Return a boolean mask, True where `mask` hides nothing.

    >>> visible(np.array([0.0, -1e9])), visible(np.array([0, 1]))
    (array([ True, False]), array([False,  True]))
    """
    return mask > HIDDEN_BELOW if is_added(mask) else mask != 0


def is_added(mask: np.ndarray) -> bool:
    """Return whether the mask is added to the logits."""
    return mask.dtype.kind in "fV" and bool((mask.astype("float64") < 0).any())


def columns(mask: np.ndarray, batched: bool, batch: int) -> np.ndarray | None:
    """Return a mask (B, S), False at keys that no query may attend to, or `None` if the last axis has size 1.

    >>> columns(np.array([[[1, 0], [1, 0]], [[0, 1], [1, 1]]]), True, 2)
    array([[ True, False],
           [ True,  True]])
    """
    if mask.shape[-1] == 1:
        return None
    seen = visible(mask)
    if batched:
        return np.asarray(seen.any(axis=tuple(range(1, mask.ndim - 1))))
    return np.broadcast_to(seen.any(axis=tuple(range(mask.ndim - 1))), (batch, mask.shape[-1]))


def hides(names: Sequence[str], mask: np.ndarray, slots: Sequence[Any], lengths: Mapping[int, int]) -> list[int]:
    """Return the slots of the sequences whose positions are the mask's columns.

    The mask `value_mask` belongs to `value`. Any other mask belongs to the only sequence of the mask's length. If
    several sequences have this length, an `attention_mask` belongs to the keys.

    Args:
        names: Names of the arguments that receive the mask.
        mask: Mask (..., S).
        slots: Slots of the call.
        lengths: Lengths of the sequences, keyed by slot.
    """
    named = [index for index in lengths for name in slots[index].names if f"{name}_mask" in names]
    fitting = [index for index, length in lengths.items() if mask.shape[-1] == length]
    if named:
        return [index for index in named if index in fitting]
    if len(fitting) > 1 and "attention_mask" in names:
        fitting = [index for index in fitting if {"value", "key"} & set(slots[index].names)]
        return fitting
    return fitting if len(fitting) == 1 else []


def lengthened(mask: np.ndarray, batched: bool, lengths: set[int], more: int) -> np.ndarray:
    """Return `mask` with `more` hidden columns, and as many copies of its last row, on axes with a size in `lengths`.

    >>> lengthened(np.array([[1, 0], [1, 1]]), False, {2}, 1)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 0]])
    """
    hidden = mask.min() if is_added(mask) else 0
    if mask.ndim - batched >= 2 and mask.shape[-2] in lengths:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 2) + [(0, more), (0, 0)], mode="edge")
    if mask.shape[-1] in lengths:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, more)], constant_values=hidden)
    return mask
