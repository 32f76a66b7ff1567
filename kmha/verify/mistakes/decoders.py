"""Mistakes in how a decoder layer combines its two attentions (Vaswani et al. 2017, sections 3.1 and 3.2.3).

Inputs that come from the wrong side in the second attention are in `projections` ("inputs-…"), because attention alone
has these mistakes too. For the same reason, masks missing in both are in `mask_choice` and `causal`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, Trial
from kmha.verify.chains.blocks import weights_of
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.residuals import as_if, only

PAPER = "Vaswani et al. 2017, section 3.2.3"
ORDER = "Vaswani et al. 2017, section 3.1 and figure 1"
NLP = "keitakurita/Practical_NLP_in_PyTorch#1"
INFORMER = "zhouhaoyi/Informer2020#38"

for _id, _says, _source, _change in (
    ("from-input", "the block's input as its query. Pass it block 1's output.", "seed 000", as_if(after1="start")),
    (
        "unnormed",
        "block 1's sum before normalizing it. Normalize the sum first.",
        ORDER,
        only(False, as_if(after1="residual1")),
    ),
    (
        "from-attention",
        "the first attention's output alone as its query. Add the residual connection first.",
        NLP,
        as_if(after1="attention1"),
    ),
):
    _says = f"You passed the second attention {_says}"
    register(f"decoder-query-{_id}", _says, "the call of the second attention", _source, query2=_change)

for _id, _passed, _source, _change in (
    ("from-input", "the block's input", NLP, lambda state, right: state["start"]),
    ("from-block1", "block 1's output", NLP, only(True, lambda state, right: state["after1"])),
    ("from-attention", "the first attention's output", PAPER, lambda state, right: state["attention1"]),
    ("normed", "a normalized enc_output", ORDER, lambda state, right: state["norm2"](right(state))),
):
    register(
        f"decoder-memory-{_id}",
        f"You passed the second attention {_passed} as its key and value. Pass it enc_output as it is.",
        "the call of the second attention",
        _source,
        memory2=_change,
    )


def _called(**fields: Any) -> Change:
    """Return a change of a call. For each field, give a function of the original call and the block's trial."""

    def change(state: State, right: Step) -> Any:
        call, trial = right(state), state["trial"]
        return dataclasses.replace(call, **{name: of(call, trial) for name, of in fields.items()})

    return change


def _fitting(mask: np.ndarray | None, call: Trial) -> np.ndarray | None:
    if mask is not None and mask.shape[1] != call.key.shape[1]:
        raise ImpossibleError("the mask does not fit the keys")
    return mask


def _and(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _look_ahead(call: Trial, trial: Trial) -> bool:
    """Return whether there is a look-ahead mask (T, T). It matches the logits only if T = S."""
    if trial.causal and call.query.shape[1] != call.key.shape[1]:
        raise ImpossibleError("the look-ahead mask does not fit the keys")
    return trial.causal


def _look_ahead_if_padded(call: Trial, trial: Trial) -> bool:
    return trial.key_mask is not None and _look_ahead(call, trial)


_AS_SELF = _called(causal=_look_ahead, key_mask=lambda call, trial: _fitting(trial.query_mask, call))
_AS_CROSS = _called(causal=lambda call, trial: False, key_mask=lambda call, trial: _fitting(trial.key_mask, call))
_CAUSAL = _called(causal=lambda call, trial: trial.causal)
_UNPADDED = _called(key_mask=lambda call, trial: None)


def _also(name: str) -> Change:
    return _called(key_mask=lambda call, trial: _and(call.key_mask, _fitting(getattr(trial, name), call)))


def _same(state: State, right: Step) -> Any:
    return right(state)


_changes: Mapping[str, Change]
for _id, _says, _source, _changes in (
    (
        "exchanged",
        "You swapped the masks: the look-ahead mask is for self-attention, the padding mask for the second attention.",
        INFORMER,
        {"call1": _AS_CROSS, "call2": _AS_SELF},
    ),
    (
        "look-ahead-for-cross",
        "You passed the look-ahead mask to the second attention. Pass it the padding mask.",
        "keras-team/keras-io#1046",
        {"call2": _AS_SELF},
    ),
    (
        "padding-for-self",
        "You passed the padding mask of enc_output to the self-attention. Pass it the look-ahead mask.",
        PAPER,
        {"call1": _AS_CROSS},
    ),
    (
        "look-ahead-in-both",
        "You made the second attention causal as well. It needs no causal mask: a target may see the whole source.",
        INFORMER,
        {"call2": _CAUSAL},
    ),
    (
        "look-ahead-moved",
        "You made the second attention causal, not the self-attention. Move the look-ahead mask to the latter.",
        INFORMER,
        {"call1": _called(causal=lambda call, trial: False), "call2": _CAUSAL},
    ),
    (
        "look-ahead-with-padding",
        "You combined the second attention's padding mask with the look-ahead mask. Pass it the padding mask alone.",
        "keras-team/keras-io#1046",
        {"call2": _called(causal=_look_ahead_if_padded)},
    ),
    (
        "source-padding-in-both",
        "You applied the padding mask of enc_output to the self-attention too. Apply it to the second attention only.",
        PAPER,
        {"call1": _also("key_mask")},
    ),
    (
        "target-padding-in-both",
        "You applied the target's padding mask to the second attention too. Apply it to the self-attention only.",
        "keras-team/keras-io#1046",
        {"call2": _also("query_mask")},
    ),
    (
        "target-padding-missing",
        "You let the self-attention attend to the target's padding. Pass it the target's padding mask.",
        "facebookresearch/fairseq#537, keras-team/keras-io#482",
        {"call1": _UNPADDED},
    ),
    (
        "source-padding-missing",
        "You let the second attention attend to the padding of enc_output. Pass it the padding mask.",
        "speechbrain/speechbrain#1107, huggingface/transformers#47946",
        {"call2": _UNPADDED},
    ),
):
    _changes = {**_changes, "call2": _changes.get("call2", _same)}  # only decoders have the step `call2`
    register(f"decoder-masks-{_id}", _says, "the mask that you pass to each attention", _source, **_changes)


def _skipped(block: str) -> Change:
    return only(False, lambda state, right: state[block])


def _cross_first(state: State, right: Step) -> Any:
    trial, call = state["trial"], right(state)
    weights = weights_of(state["block_weights"], "mha2")
    masks = {"causal": False, "key_mask": trial.key_mask}
    return dataclasses.replace(call, key=trial.key, value=trial.value, weights=weights, **masks)


def _self_second(state: State, right: Step) -> Any:
    trial, call = state["trial"], right(state)
    weights = weights_of(state["block_weights"], "mha1")
    masks = {"causal": trial.causal, "key_mask": trial.query_mask}
    return dataclasses.replace(call, key=call.query, value=call.query, weights=weights, **masks)


def _attention_weights(**taken: str) -> Change:
    """Return a change of the weights. For each `a="b"`, the attention a gets the weights of the attention b."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        new = {f"{a}/{name}": array for a, b in taken.items() for name, array in weights_of(weights, b).items()}
        return {**weights, **new}

    return change


for _id, _says, _look, _changes in (
    (
        "self-attention-skipped",
        "You left out block 1, the self-attention. Its output is the second attention's query.",
        "the blocks of the decoder layer",
        {"after1": _skipped("start"), "call2": _same},
    ),
    (
        "cross-attention-skipped",
        "You left out block 2, the attention to enc_output. Its output is the feed-forward network's input.",
        "the blocks of the decoder layer",
        {"after2": _skipped("after1")},
    ),
    (
        "cross-first",
        "You put the attention to enc_output first. Self-attention comes first, then the attention to enc_output.",
        "the order of the decoder layer's blocks",
        {"call1": _cross_first, "call2": _self_second},
    ),
    (
        "attention-shared",
        "You called the first attention again as the second. Call the second attention, which has its own weights.",
        "the attention layer that block 2 calls",
        {"block_weights": _attention_weights(mha2="mha1"), "call2": _same},
    ),
    (
        "attention-shared-second",
        "You called the second attention as the first too. Call the first attention, which has its own weights.",
        "the attention layer that block 1 calls",
        {"block_weights": _attention_weights(mha1="mha2"), "call2": _same},
    ),
    (
        "attention-swapped",
        "You swapped the two attentions. Block 1 uses the first one's weights, and block 2 the second one's.",
        "the attention layer that each block calls",
        {"block_weights": _attention_weights(mha1="mha2", mha2="mha1"), "call2": _same},
    ),
):
    register(f"decoder-{_id}", _says, _look, ORDER, **_changes)
