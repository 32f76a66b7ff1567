"""Mistakes that show in float16 alone, whose largest number is 65,504 and whose step at 1 is 1/1024.

What is right to rounding is no mistake here: these give infinities and NaN. So the chain, which computes in float64,
makes them by rounding to float16 what would have overflowed.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step
from kmha.verify.mistakes.entry import add

LOOK = "the dtype in which logits and mask are computed"


def _half(array: Any) -> np.ndarray:
    """Rounded to float16, what is too large becoming infinite."""
    return np.asarray(array).astype("float16").astype("float64")


def _in_half(change: Change) -> Change:
    return lambda state, right: change(state, right) if state["trial"].dtype == "float16" else right(state)


def _plain(state: State, right: Step) -> Any:
    """The softmax of what is not all finite: ∞ - ∞ is NaN."""
    masked = state["masked"]
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _overflowing(state: State, right: Step) -> Any:
    logits = right(state)
    return np.where(np.abs(logits) > 65519, np.sign(logits) * np.inf, logits)


add(
    "half-logits-overflow",
    "In float16 query · key overflows before it is scaled: rows are NaN.",
    "whether the query is scaled before the product, or the product computed in float32",
    "ultralytics/ultralytics#24990, pytorch/pytorch#119131, stanford-crfm/mistral#66",
    logits=_in_half(_overflowing),
    scores=_in_half(_plain),
)


def _times_infinity(state: State, right: Step) -> Any:
    """(1 - mask) · -1e9, where -1e9 is -∞: 0 · -∞ is NaN."""
    return state["scaled"] + np.where(state["allowed"], np.nan, -np.inf) if state["trial"].masked else right(state)


add(
    "half-mask-times-infinity",
    "In float16 -1e9 is -∞, and (1 - mask) · -∞ is NaN wherever nothing is hidden.",
    LOOK,
    "google/flax#982, openai/gpt-2#122",
    masked=_in_half(_times_infinity),
    scores=_in_half(_plain),
)
add(
    "half-mask-infinite",
    "In float16 -1e9 is -∞: a row with nothing to attend to is NaN.",
    LOOK,
    "facebookresearch/fairseq#3575, tatp22/linformer-pytorch#19",
    scores=_in_half(_plain),
)


def _least_twice(state: State, right: Step) -> Any:
    """-65,504 for each of two masks, one added to the other: -∞ where both hide."""
    from kmha.verify.mistakes.masks import parts_of

    hidden = sum((np.where(part, 0.0, 1.0) for part in parts_of(state["trial"])), np.zeros(()))
    hidden = np.broadcast_to(hidden, state["trial"].allowed().shape)[:, None]
    return np.where(hidden > 1, -np.inf, np.where(hidden == 1, -65504.0, state["scaled"]))


add(
    "half-mask-twice",
    "In float16 two masks of -65,504 each are added: -∞ where both hide, and a row of these is NaN.",
    LOOK,
    "NVIDIA-NeMo/Automodel#2658",
    masked=_in_half(_least_twice),
    scores=_in_half(_plain),
)
