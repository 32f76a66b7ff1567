"""Mistakes in how a decoder layer puts its two attentions together (Vaswani et al. 2017, sections 3.1 and 3.2.3).

That the second attention's query, key or value comes from the wrong side is in `projections` ("inputs-…"), for it is
the same in an attention alone; so are masks that are missing in both attentions.
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
CALL = "what the second attention is called with"


def _normed_memory(state: State, right: Step) -> Any:
    return state["norm2"](right(state))


for _id, _says, _source, _changes in (
    (
        "query-from-input",
        "The second attention's query is the block's input, not block 1's output.",
        "seed 000",
        {"query2": as_if(after1="start")},
    ),
    (
        "query-unnormed",
        "The second attention's query is block 1's sum before its normalization.",
        ORDER,
        {"query2": only(False, as_if(after1="residual1"))},
    ),
    (
        "query-from-attention",
        "The second attention's query is the first attention's bare output, without residual connection.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"query2": as_if(after1="attention1")},
    ),
    (
        "memory-from-input",
        "The second attention's key and value are the block's input, not enc_output.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"memory2": lambda state, right: state["start"]},
    ),
    (
        "memory-from-block1",
        "The second attention's key and value are block 1's output without the normalization that its query gets.",
        "keitakurita/Practical_NLP_in_PyTorch#1",
        {"memory2": only(True, lambda state, right: state["after1"])},
    ),
    (
        "memory-from-attention",
        "The second attention's key and value are the first attention's bare output.",
        PAPER,
        {"memory2": lambda state, right: state["attention1"]},
    ),
    (
        "memory-normed",
        "enc_output is normalized in the decoder before the second attention gets it.",
        ORDER,
        {"memory2": _normed_memory},
    ),
):
    register(f"decoder-{_id}", _says, CALL, _source, **_changes)


def _called(**fields: Any) -> Change:
    """A change of a call: of each field a function of the right call and the block's trial."""

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
    """Whether the mask of self-attention, (T, T), is there; it fits T = S only."""
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
        "The masks of the two attentions are exchanged.",
        "zhouhaoyi/Informer2020#38",
        {"call1": _called(**_AS_CROSS), "call2": _called(**_AS_SELF)},
    ),
    (
        "look-ahead-for-cross",
        "The second attention gets the look-ahead mask in place of the padding mask.",
        "keras-team/keras-io#1046",
        {"call2": _called(**_AS_SELF)},
    ),
    (
        "padding-for-self",
        "The self-attention gets the padding mask of enc_output in place of the look-ahead mask.",
        PAPER,
        {"call1": _called(**_AS_CROSS)},
    ),
    (
        "look-ahead-in-both",
        "The second attention is causal as well: a target position sees no later source position.",
        "zhouhaoyi/Informer2020#38",
        {"call2": _called(causal=lambda call, trial: trial.causal)},
    ),
    (
        "look-ahead-moved",
        "The second attention is causal, and the self-attention is not.",
        "zhouhaoyi/Informer2020#38",
        {
            "call1": _called(causal=lambda call, trial: False),
            "call2": _called(causal=lambda call, trial: trial.causal),
        },
    ),
    (
        "source-padding-in-both",
        "The self-attention hides the padding of enc_output too.",
        PAPER,
        {"call1": _called(**_ALSO_SOURCE)},
    ),
    (
        "target-padding-in-both",
        "The second attention hides the target's padding too.",
        "keras-team/keras-io#1046",
        {"call2": _called(**_ALSO_TARGET)},
    ),
    (
        "target-padding-missing",
        "The self-attention attends to the target's padding.",
        "facebookresearch/fairseq#537, keras-team/keras-io#482",
        {"call1": _called(key_mask=lambda call, trial: None), "call2": lambda state, right: right(state)},
    ),
    (
        "source-padding-missing",
        "The second attention attends to the padding of enc_output.",
        "speechbrain/speechbrain#1107, huggingface/transformers#47946",
        {"call2": _called(key_mask=lambda call, trial: None)},
    ),
):
    if "call2" not in _changes:  # a decoder's
        _changes = {**_changes, "call2": lambda state, right: right(state)}
    register(f"decoder-masks-{_id}", _says, "which mask goes to which attention", _source, **_changes)


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
    """For each (a, b), the attention a gets the weights of b."""

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
        "Block 1 is missing altogether: the second attention follows the input.",
        "the blocks of the decoder layer",
        ORDER,
        {"after1": _skipped("start"), "call2": _same},
    ),
    (
        "cross-attention-skipped",
        "Block 2 is missing altogether: the feed-forward network follows block 1.",
        "the blocks of the decoder layer",
        ORDER,
        {"after2": _skipped("after1")},
    ),
    (
        "cross-first",
        "The attention to enc_output comes first, and self-attention second.",
        "the order of the decoder layer's blocks",
        ORDER,
        {"call1": _cross_first, "call2": _self_second},
    ),
    (
        "attention-shared",
        "The second attention is the first one once more: they share the first one's weights.",
        "which attention layer is called in block 2",
        ORDER,
        {"block_weights": _attention_weights(("mha2", "mha1")), "call2": _same},
    ),
    (
        "attention-shared-second",
        "The first attention is the second one: they share the second one's weights.",
        "which attention layer is called in block 1",
        ORDER,
        {"block_weights": _attention_weights(("mha1", "mha2")), "call2": _same},
    ),
    (
        "attention-swapped",
        "The two attentions are exchanged: block 1 uses the second one's weights, block 2 the first one's.",
        "which attention layer is called in which block",
        ORDER,
        {"block_weights": _attention_weights(("mha1", "mha2"), ("mha2", "mha1")), "call2": _same},
    ),
):
    register(f"decoder-{_id}", _says, _look, _source, **_changes)
