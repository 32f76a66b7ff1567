"""Mistakes in the causal mask, which lets t attend to s ≤ t (Vaswani et al. 2017, section 3.2.3)."""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, causal, softmax
from kmha.verify.mistakes.entry import register

LOOK = "where the causal mask is made"
PAPER = "Vaswani et al. 2017, section 3.2.3"


def _mask(of: Any) -> Change:
    """`of(T, S)` in the place of the causal mask."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        if not trial.causal:
            return right(state)
        rows, columns = trial.query.shape[-2], trial.key.shape[-2]
        return dataclasses.replace(trial, causal=False).allowed()[:, None] & of(rows, columns)

    return change


def _lower(diagonal: int) -> Any:
    return lambda rows, columns: np.tril(np.ones((rows, columns), bool), diagonal)


for _name, _says, _source, _of in (
    (
        "missing",
        "There is no causal mask: the future is attended.",
        "LiamMaclean216/Pytorch-Transfomer#1",
        lambda rows, columns: np.ones((rows, columns), bool),
    ),
    (
        "strict",
        "The causal mask hides the position itself: s < t in place of s ≤ t.",
        "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        _lower(-1),
    ),
    (
        "one-ahead",
        "The causal mask lets each position see the next one: s ≤ t + 1 in place of s ≤ t.",
        "asked in pytorch/tutorials#2250",
        _lower(1),
    ),
    (
        "reversed",
        "The causal mask is reversed: the past is hidden, the future and the position itself are attended.",
        "pytorch/examples#649",
        lambda rows, columns: np.triu(np.ones((rows, columns), bool)),
    ),
    (
        "inverted",
        "The causal mask is inverted: only the future is attended.",
        "harvard-edge/cs249r_book#1785",
        lambda rows, columns: ~causal(rows, columns),
    ),
    (
        "wrong-corner",
        "With T ≠ S the causal mask is aligned to the lower right corner in place of the upper left.",
        "pytorch/pytorch#103082, ml-explore/mlx#2835, Dao-AILab/flash-attention#517, NVIDIA/cutlass#2336",
        lambda rows, columns: np.tril(np.ones((rows, columns), bool), columns - rows),
    ),
    (
        "itself-only",
        "The causal mask is a diagonal: each position attends to itself alone.",
        PAPER,
        lambda rows, columns: np.eye(rows, columns, dtype=bool),
    ),
):
    register(f"causal-{_name}", _says, LOOK, _source, allowed=_mask(_of))


def _always(state: State, right: Step) -> Any:
    return dataclasses.replace(state["trial"], causal=True).allowed()[:, None]


register(
    "causal-always",
    "A causal mask is used where none was asked for.",
    "where it is decided whether the mask is causal (in cross-attention it must not be)",
    "zhouhaoyi/Informer2020#38",
    allowed=_always,
)


def _past(state: State) -> np.ndarray:
    """Ones where s ≤ t if the trial is causal, else everywhere."""
    trial = state["trial"]
    rows, columns = trial.query.shape[-2], trial.key.shape[-2]
    return causal(rows, columns) if trial.causal else np.ones((rows, columns), bool)


def _others(state: State, right: Step) -> Any:
    return dataclasses.replace(state["trial"], causal=False).allowed()[:, None]


register(
    "causal-zeroes-logits",
    "The future's logits become 0 in place of -∞ (tril of the logits): they keep a share of exp(0).",
    LOOK,
    "georg-wolflein/good-features#1",
    scaled=lambda state, right: right(state) * _past(state),
    allowed=_others,
)
register(
    "causal-after-softmax",
    "The future's scores become 0 after the softmax (tril of the scores): rows sum to less than one.",
    LOOK,
    "lucidrains/memory-compressed-attention#2",
    allowed=_others,
    scores=lambda state, right: softmax(state["masked"]) * _past(state),
)
