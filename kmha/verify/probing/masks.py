"""Masks among a call's arguments: whose positions they hide, and what they become when a sequence grows.

True, or 1, means attend; a mask of floats that has negative numbers is one that is added to the logits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

HIDES = -1e3  # what is added to the logit of a position that is hidden is below this
BETWEEN = ("attention_mask", "look_ahead_mask")  # with two axes (T, S), where other masks are (B, S)


def is_batched(name: str, mask: np.ndarray, batch: int | None) -> bool:
    """Whether the first axis is B.

    >>> is_batched("attention_mask", np.ones((3, 3)), 3), is_batched("mask", np.ones((3, 5)), 3)
    (False, True)
    """
    if mask.ndim == 2 and name in BETWEEN and mask.shape[0] == mask.shape[1]:
        return False
    return mask.ndim >= 2 and mask.shape[0] == batch


def visible(mask: np.ndarray) -> np.ndarray:
    """`mask` as booleans, True where it hides nothing.

    >>> visible(np.array([0.0, -1e9])), visible(np.array([0, 1]))
    (array([ True, False]), array([False,  True]))
    """
    return mask > HIDES if is_added(mask) else mask != 0


def is_added(mask: np.ndarray) -> bool:
    """Whether it is added to the logits."""
    return mask.dtype.kind in "fV" and bool((mask.astype("float64") < 0).any())


def columns(mask: np.ndarray, batched: bool, batch: int) -> np.ndarray | None:
    """(B, S), False at keys to which no query may attend; `None` if the last axis is of size 1.

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
    """Which sequences' positions a mask's columns are.

    A mask `value_mask` is that of `value`; any other is that of the one sequence of its length, and where there are
    several, an `attention_mask` is that of the keys.

    Args:
        names: of the mask.
        mask: (..., S).
        slots: the call's, by number.
        lengths: of the sequences, by slot.
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
    """`mask` with `more` hidden columns, and as many rows like the last, where its axes have one of `lengths`.

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
