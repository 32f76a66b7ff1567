"""Mistakes in how a decoder layer combines its two attentions (Vaswani et al. 2017, sections 3.1 and 3.2.3).

Inputs of the second attention from the wrong side are in `projections` ("inputs-…"), because the same happens in an
attention alone. So do masks that are missing in both attentions; they are in `masks`.
"""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, Trial
from kmha.verify.chains.blocks import weights_of
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.residuals import as_if, only

PAPER = "Vaswani et al. 2017, section 3.2.3"
ORDER = "Vaswani et al. 2017, section 3.1 and figure 1"
CALL = "the call of the second attention"


def _normed_memory(state: State, right: Step) -> Any:
    return state["norm2"](right(state))


for _id, _says, _source, _changes in (
    (
        "query-from-input",
        "You passed the block's input as the second attention's query. Pass it block 1's output.",
        "seed 000",
        {"query2": as_if(after1="start")},
    ),
    (
        "query-unnormed",
        "You passed block 1's sum to the second attention before normalizing it. Normalize the sum first.",
        ORDER,
        {"query2": only(False, as_if(after1="residual1"))},
    ),
    (
        "query-from-attention",
        "You passed the first attention's output alone as the second attention's query. Add the residual "
        "connection first.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"query2": as_if(after1="attention1")},
    ),
    (
        "memory-from-input",
        "You passed the block's input as the second attention's key and value. Pass it enc_output.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"memory2": lambda state, right: state["start"]},
    ),
    (
        "memory-from-block1",
        "You passed block 1's output as the second attention's key and value. Pass it enc_output.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"memory2": only(True, lambda state, right: state["after1"])},
    ),
    (
        "memory-from-attention",
        "You passed the first attention's output as the second attention's key and value. Pass it enc_output.",
        PAPER,
        {"memory2": lambda state, right: state["attention1"]},
    ),
    (
        "memory-normed",
        "You normalized enc_output in the decoder before the second attention. Pass it on as it is.",
        ORDER,
        {"memory2": _normed_memory},
    ),
):
    register(f"decoder-{_id}", _says, CALL, _source, **_changes)


def _called(**fields: Any) -> Change:
    """Return a change of a call, given for each field a function of the right call and the block's trial."""

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
    """Return whether there is a look-ahead mask (T, T); it fits only where T = S."""
    if trial.causal and call.query.shape[1] != call.key.shape[1]:
        raise ImpossibleError("the look-ahead mask does not fit the keys")
    return trial.causal


_AS_SELF = {"causal": _look_ahead, "key_mask": lambda call, trial: _fitting(trial.query_mask, call)}
_AS_CROSS = {"causal": lambda call, trial: False, "key_mask": lambda call, trial: _fitting(trial.key_mask, call)}
_ALSO_SOURCE = {"key_mask": lambda call, trial: _and(call.key_mask, _fitting(trial.key_mask, call))}
_ALSO_TARGET = {"key_mask": lambda call, trial: _and(call.key_mask, _fitting(trial.query_mask, call))}

for _id, _says, _source, _changes in (
    (
        "exchanged",
        "You swapped the masks of the two attentions. The look-ahead mask is for self-attention, the padding "
        "mask for the second attention.",
        "zhouhaoyi/Informer2020#38",
        {"call1": _called(**_AS_CROSS), "call2": _called(**_AS_SELF)},
    ),
    (
        "look-ahead-for-cross",
        "You passed the look-ahead mask to the second attention. Pass it the padding mask.",
        "keras-team/keras-io#1046",
        {"call2": _called(**_AS_SELF)},
    ),
    (
        "padding-for-self",
        "You passed the padding mask of enc_output to the self-attention. Pass it the look-ahead mask.",
        PAPER,
        {"call1": _called(**_AS_CROSS)},
    ),
    (
        "look-ahead-in-both",
        "You made the second attention causal as well, so a target position sees no later source position. "
        "Leave it without a causal mask.",
        "zhouhaoyi/Informer2020#38",
        {"call2": _called(causal=lambda call, trial: trial.causal)},
    ),
    (
        "look-ahead-moved",
        "You made the second attention causal instead of the self-attention. Move the look-ahead mask to the "
        "self-attention.",
        "zhouhaoyi/Informer2020#38",
        {
            "call1": _called(causal=lambda call, trial: False),
            "call2": _called(causal=lambda call, trial: trial.causal),
        },
    ),
    (
        "source-padding-in-both",
        "You applied the padding mask of enc_output to the self-attention too. Apply it to the second attention only.",
        PAPER,
        {"call1": _called(**_ALSO_SOURCE)},
    ),
    (
        "target-padding-in-both",
        "You applied the target's padding mask to the second attention too. Apply it to the self-attention only.",
        "keras-team/keras-io#1046",
        {"call2": _called(**_ALSO_TARGET)},
    ),
    (
        "target-padding-missing",
        "You let the self-attention attend to the target's padding. Pass it the target's padding mask.",
        "facebookresearch/fairseq#537, keras-team/keras-io#482",
        {"call1": _called(key_mask=lambda call, trial: None), "call2": lambda state, right: right(state)},
    ),
    (
        "source-padding-missing",
        "You let the second attention attend to the padding of enc_output. Pass it the padding mask.",
        "speechbrain/speechbrain#1107, huggingface/transformers#47946",
        {"call2": _called(key_mask=lambda call, trial: None)},
    ),
):
    if "call2" not in _changes:  # only decoders have this step
        _changes = {**_changes, "call2": lambda state, right: right(state)}
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


def _attention_weights(*taken: tuple[str, str]) -> Change:
    """Return a change of the weights: for each pair (a, b), the attention a gets the weights of b."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        new = {f"{a}/{name}": array for a, b in taken for name, array in weights_of(weights, b).items()}
        return {**weights, **new}

    return change


def _same(state: State, right: Step) -> Any:
    return right(state)


for _id, _says, _look, _source, _changes in (
    (
        "self-attention-skipped",
        "You left out block 1, the self-attention. Its output is the second attention's query.",
        "the blocks of the decoder layer",
        ORDER,
        {"after1": _skipped("start"), "call2": _same},
    ),
    (
        "cross-attention-skipped",
        "You left out block 2, the attention to enc_output. Its output is the feed-forward network's input.",
        "the blocks of the decoder layer",
        ORDER,
        {"after2": _skipped("after1")},
    ),
    (
        "cross-first",
        "You put the attention to enc_output first. Self-attention comes first, then the attention to enc_output.",
        "the order of the decoder layer's blocks",
        ORDER,
        {"call1": _cross_first, "call2": _self_second},
    ),
    (
        "attention-shared",
        "You called the first attention again as the second. Call the second attention, which has its own weights.",
        "the attention layer that block 2 calls",
        ORDER,
        {"block_weights": _attention_weights(("mha2", "mha1")), "call2": _same},
    ),
    (
        "attention-shared-second",
        "You called the second attention as the first too. Call the first attention, which has its own weights.",
        "the attention layer that block 1 calls",
        ORDER,
        {"block_weights": _attention_weights(("mha1", "mha2")), "call2": _same},
    ),
    (
        "attention-swapped",
        "You swapped the two attentions. Block 1 uses the first one's weights, and block 2 the second one's.",
        "the attention layer that each block calls",
        ORDER,
        {"block_weights": _attention_weights(("mha1", "mha2"), ("mha2", "mha1")), "call2": _same},
    ),
):
    register(f"decoder-{_id}", _says, _look, _source, **_changes)
