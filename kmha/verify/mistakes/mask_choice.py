"""Mistakes in which mask is used, and for whom. Masks are boolean, and True where t may attend to s."""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, Trial, causal
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.3"


def allowed_without(state: State, *names: str) -> np.ndarray:
    """Return the right mask of a trial without some of its masks: `mask`, `causal` or `key_mask`."""
    changes = {name: False if name == "causal" else None for name in names}
    return dataclasses.replace(state["trial"], **changes).allowed()[:, None]


def parts_of(trial: Trial) -> list[np.ndarray]:
    """Return each mask that the trial has: (B or 1, T, S)."""
    rows, columns = trial.query.shape[-2], trial.key.shape[-2]
    parts = []
    if trial.mask is not None:
        parts.append(trial.mask)
    if trial.causal:
        parts.append(causal(rows, columns)[None])
    if trial.key_mask is not None:
        parts.append(np.broadcast_to(trial.key_mask[:, None], (trial.key.shape[0], rows, columns)))
    return parts


def _either(state: State, right: Step) -> Any:
    parts = parts_of(state["trial"])
    return np.any(np.stack(np.broadcast_arrays(*parts)), axis=0)[:, None] if parts else right(state)


def _inverted(state: State, right: Step) -> Any:
    return ~right(state) if state["trial"].masked else right(state)


for _id, _says, _source, _change in (
    (
        "mask-missing",
        "You applied no mask, or one without effect (for instance by adding 1e-9 instead of -1e9). Set the "
        "hidden logits to -∞.",
        "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        lambda state, right: np.ones_like(right(state)),
    ),
    (
        "mask-inverted",
        "You inverted the mask, so hidden positions are attended to. True means that t may attend to s.",
        "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        _inverted,
    ),
    (
        "masks-either",
        "You combined two masks with OR, so one that allows is enough. Combine them with AND.",
        "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        _either,
    ),
):
    register(_id, _says, "the lines that make and combine the masks", _source, allowed=_change)


def _without_first(trial: Trial, name: str, others: tuple[str, ...]) -> bool:
    """Return whether the trial has the mask `name` and one of `others`."""
    has = {"mask": trial.mask is not None, "causal": trial.causal, "key_mask": trial.key_mask is not None}
    return has[name] and any(has[other] for other in others)


def _ignored(*names: str) -> Change:
    return lambda state, right: allowed_without(state, *names)


def _replaced(by: str, *names: str) -> Change:
    def change(state: State, right: Step) -> Any:
        return allowed_without(state, *names) if _without_first(state["trial"], by, names) else right(state)

    return change


for _id, _says, _source, _change in (
    (
        "mask-argument-ignored",
        "You ignored the mask argument. Hide what it hides.",
        "hao-ai-lab/FastVideo#1383, lucidrains/flamingo-pytorch#10",
        _ignored("mask"),
    ),
    (
        "padding-ignored",
        "You ignored the keys' padding mask, so padding is attended to. Hide the keys that are padding.",
        "speechbrain/speechbrain#1107, huggingface/transformers#47946, rosinality/mac-network-pytorch#7",
        _ignored("key_mask"),
    ),
    (
        "causal-replaces-others",
        "You used only the causal mask and dropped the others. Combine them with AND.",
        "keras-team/keras-io#482, huggingface/transformers#37807",
        _replaced("causal", "mask", "key_mask"),
    ),
    (
        "mask-replaces-padding",
        "You used the mask argument and dropped the padding mask. Combine the two with AND.",
        PAPER,
        _replaced("mask", "key_mask"),
    ),
    (
        "mask-replaces-causal",
        "You used the mask argument and dropped the causal mask. Combine the two with AND.",
        "FGA-DIKU/BONSAI#344",
        _replaced("mask", "causal"),
    ),
    (
        "padding-replaces-mask",
        "You used the padding mask and dropped the mask argument. Combine the two with AND.",
        PAPER,
        _replaced("key_mask", "mask"),
    ),
    (
        "padding-replaces-causal",
        "You used the padding mask and dropped the causal mask. Combine the two with AND.",
        PAPER,
        _replaced("key_mask", "causal"),
    ),
):
    register(_id, _says, "the line that combines the masks", _source, allowed=_change)


def _query_mask(trial: Trial, fit: bool = False) -> np.ndarray:
    """Return the query's padding mask: (B, T)."""
    if trial.query_mask is None:
        return np.ones((trial.query.shape[0], trial.query.shape[-2]), bool)
    if fit and trial.query_mask.shape[1] != trial.key.shape[-2]:
        raise ImpossibleError("the query's padding mask does not fit the keys")
    return trial.query_mask


def _of_query(state: State, right: Step) -> Any:
    if state["trial"].query_mask is None:
        return right(state)
    return allowed_without(state, "key_mask") & _query_mask(state["trial"], fit=True)[:, None, None]


def _on_rows(state: State, right: Step) -> Any:
    trial = state["trial"]
    if trial.key_mask is None:
        return right(state)
    return allowed_without(state, "key_mask") & trial.key_mask[:, None, :, None]


def _padding_inverted(state: State, right: Step) -> Any:
    trial = state["trial"]
    if trial.key_mask is None:
        return right(state)
    return dataclasses.replace(trial, key_mask=~trial.key_mask).allowed()[:, None]


for _id, _says, _source, _change in (
    (
        "padding-inverted",
        "You inverted the padding mask, so only padding is attended to. Hide padding, and allow the rest.",
        "nyu-mll/jiant#465",
        _padding_inverted,
    ),
    (
        "padding-of-query-for-keys",
        "You used the query's padding mask for the keys. In cross-attention these are different sequences: "
        "use the keys' mask.",
        "keras-team/keras-io#1046, fchollet/deep-learning-with-python-notebooks#209, Kamichanw/SeekDeeper#3",
        _of_query,
    ),
    (
        "padding-on-queries",
        "You applied the keys' padding mask to the queries, which hides rows. Hide columns: give the mask the "
        "axes (B, 1, 1, S).",
        "lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40",
        _on_rows,
    ),
):
    register(_id, _says, "the line that gives the padding mask its axes", _source, allowed=_change)
