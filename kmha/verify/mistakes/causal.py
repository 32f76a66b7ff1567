"""Mistakes in the causal mask, which lets t attend to s ≤ t (Vaswani et al. 2017, section 3.2.3)."""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, allowed_with, allowed_without, causal, softmax
from kmha.verify.mistakes.entry import register

LOOK = "the line that makes the causal mask"
PAPER = "Vaswani et al. 2017, section 3.2.3"


def _mask(of: Any) -> Change:
    """Return a change that uses `of(T, S)` as the causal mask, or its lower right part if it is aligned there."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        if not trial.causal:
            return right(state)
        rows, columns = trial.query.shape[-2], trial.key.shape[-2]
        if trial.more.get("corner") != "bottom right":
            return allowed_without(state, "causal") & of(rows, columns)
        longer = max(rows, columns)
        return allowed_without(state, "causal") & of(longer, longer)[-rows:, -columns:]

    return change


def _lower(diagonal: int) -> Any:
    return lambda rows, columns: np.tril(np.ones((rows, columns), bool), diagonal)


for _name, _says, _source, _of in (
    (
        "missing",
        "You applied no causal mask, so positions attend to the future. Let t attend only to s ≤ t.",
        "LiamMaclean216/Pytorch-Transfomer#1",
        lambda rows, columns: np.ones((rows, columns), bool),
    ),
    (
        "strict",
        "You hid each position from itself: your causal mask allows s < t. Allow s ≤ t.",
        "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        _lower(-1),
    ),
    (
        "one-ahead",
        "You let each position see the next one: your causal mask allows s ≤ t + 1. Allow s ≤ t.",
        "asked in pytorch/tutorials#2250",
        _lower(1),
    ),
    (
        "reversed",
        "You reversed the causal mask: it hides the past and shows the future and the position itself. Allow s ≤ t.",
        "pytorch/examples#649",
        lambda rows, columns: np.triu(np.ones((rows, columns), bool)),
    ),
    (
        "inverted",
        "You inverted the causal mask: it allows only the future, s > t. Allow s ≤ t.",
        "harvard-edge/cs249r_book#1785",
        lambda rows, columns: ~causal(rows, columns),
    ),
    (
        "wrong-corner",
        "You aligned the causal mask to the lower right corner, seen where T ≠ S. Align it to the upper left: s ≤ t.",
        "pytorch/pytorch#103082, ml-explore/mlx#2835, Dao-AILab/flash-attention#517, NVIDIA/cutlass#2336",
        lambda rows, columns: np.tril(np.ones((rows, columns), bool), columns - rows),
    ),
    (
        "itself-only",
        "You made the causal mask a diagonal, so each position attends only to itself. Allow s ≤ t.",
        PAPER,
        lambda rows, columns: np.eye(rows, columns, dtype=bool),
    ),
):
    register(f"causal-{_name}", _says, LOOK, _source, allowed=_mask(_of))

register(
    "causal-always",
    "You applied a causal mask where the caller asked for none. Apply it only when asked.",
    "the condition for the causal mask (cross-attention must not have one)",
    "zhouhaoyi/Informer2020#38",
    allowed=lambda state, right: allowed_with(state, causal=True),
)


def _past(state: State, array: np.ndarray) -> np.ndarray:
    """Return `array` (B, H, T, S), with zeros at s > t if the trial is causal."""
    return np.tril(array) if state["trial"].causal else array


def _others(state: State, right: Step) -> Any:
    return allowed_without(state, "causal")


register(
    "causal-zeroes-logits",
    "You set the future's logits to 0 (tril of the logits), so each hidden position still gets the weight exp(0) = 1 "
    "before normalization. Set them to -∞.",
    LOOK,
    "georg-wolflein/good-features#1",
    scaled=lambda state, right: _past(state, right(state)),
    allowed=_others,
)
register(
    "causal-after-softmax",
    "You set the future's scores to 0 after the softmax (tril of the scores). Mask the logits instead.",
    LOOK,
    "lucidrains/memory-compressed-attention#2",
    allowed=_others,
    scores=lambda state, right: _past(state, softmax(state["masked"])),
)
