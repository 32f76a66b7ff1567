"""Mistakes in the choice of a mask. Masks are boolean, and True where t may attend to s."""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import (
    Change,
    ImpossibleError,
    State,
    Step,
    Trial,
    allowed_with,
    allowed_without,
    causal,
)
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.3"
LOOK = "the line that combines the masks"


def parts_of(trial: Trial) -> list[np.ndarray]:
    """Return all masks of the trial, each (B or 1, T, S)."""
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


for _id, _says, _source, _change in (
    (
        "mask-missing",
        "You applied no mask, or one without effect (such as 1e-9 instead of -1e9). Set the hidden logits to -∞.",
        "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        lambda state, right: np.ones_like(right(state)),
    ),
    (
        "mask-inverted",
        "You inverted the mask, so hidden positions are attended to. True means that t may attend to s.",
        "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        lambda state, right: ~right(state) if state["trial"].masked else right(state),
    ),
    (
        "masks-either",
        "You combined two masks with OR, so one that allows is enough. Combine them with AND.",
        "proposed in jadore801120/attention-is-all-you-need-pytorch#217",
        _either,
    ),
):
    register(_id, _says, "the lines that make and combine the masks", _source, allowed=_change)


def _ignored(name: str) -> Change:
    return lambda state, right: allowed_without(state, name)


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
):
    register(_id, _says, LOOK, _source, allowed=_change)


def _replaced(by: str, *names: str) -> Change:
    """Return a change that uses the mask `by` and leaves out the masks `names`."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        given = {"mask": trial.mask is not None, "causal": trial.causal, "key_mask": trial.key_mask is not None}
        dropped = given[by] and any(given[name] for name in names)
        return allowed_without(state, *names) if dropped else right(state)

    return change


WORDS = {"mask": "the mask argument", "causal": "the causal mask", "key_mask": "the padding mask"}
IDS = {"mask": "mask", "causal": "causal", "key_mask": "padding"}
for _by, _dropped, _source in (
    ("mask", "key_mask", PAPER),
    ("mask", "causal", "FGA-DIKU/BONSAI#344"),
    ("key_mask", "mask", PAPER),
    ("key_mask", "causal", PAPER),
):
    register(
        f"{IDS[_by]}-replaces-{IDS[_dropped]}",
        f"You used {WORDS[_by]} and dropped {WORDS[_dropped]}. Combine the two with AND.",
        LOOK,
        _source,
        allowed=_replaced(_by, _dropped),
    )
register(
    "causal-replaces-others",
    "You used only the causal mask and dropped the others. Combine them with AND.",
    LOOK,
    "keras-team/keras-io#482, huggingface/transformers#37807",
    allowed=_replaced("causal", "mask", "key_mask"),
)


def _of_query(state: State, right: Step) -> Any:
    mask = state["trial"].query_mask
    if mask is None:
        return right(state)
    if mask.shape[1] != state["trial"].key.shape[-2]:
        raise ImpossibleError("the query's padding mask does not fit the keys")
    return allowed_without(state, "key_mask") & mask[:, None, None]


def _on_rows(state: State, right: Step) -> Any:
    mask, rows = state["trial"].key_mask, state["trial"].query.shape[-2]
    if mask is None:
        return right(state)
    if mask.shape[1] != rows:  # a mask that is made of lengths fits any number of rows
        lengths = mask.sum(axis=1, keepdims=True)
        if not np.array_equal(mask, np.arange(mask.shape[1]) < lengths):
            raise ImpossibleError("the keys' padding mask does not fit the queries")
        mask = np.arange(rows) < lengths
    return allowed_without(state, "key_mask") & mask[:, None, :, None]


def _padding_inverted(state: State, right: Step) -> Any:
    mask = state["trial"].key_mask
    return right(state) if mask is None else allowed_with(state, key_mask=~mask)


for _id, _says, _source, _change in (
    (
        "padding-inverted",
        "You inverted the padding mask, so only padding is attended to. Hide padding, and allow the rest.",
        "nyu-mll/jiant#465",
        _padding_inverted,
    ),
    (
        "padding-of-query-for-keys",
        "You used the query's padding mask for the keys. In cross-attention they differ: use the keys' mask.",
        "keras-team/keras-io#1046, fchollet/deep-learning-with-python-notebooks#209, Kamichanw/SeekDeeper#3",
        _of_query,
    ),
    (
        "padding-on-queries",
        "You applied the keys' padding mask to the queries (rows). Hide columns: give the mask the axes (B, 1, 1, S).",
        "lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40",
        _on_rows,
    ),
):
    register(_id, _says, "the line that gives the padding mask its axes", _source, allowed=_change)
