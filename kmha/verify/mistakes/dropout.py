"""Mistakes in the dropout of the scores, and in the scores that are returned.

What a candidate has dropped is its own draw: `trial.kept`, (B, H, T, S) of 0 and 1 / (1 - rate), is what it would have
multiplied the scores by. In a trial that is not of training the right code drops nothing; code that drops there all the
same would have used `trial.more["kept"]`. Both are filled in by whoever compares; without them nothing is dropped.

Two mistakes are not here, for no numbers show them: a rate that is used as another rate, and whole keys that are
dropped for all queries, are draws that could have been right.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, softmax
from kmha.verify.mistakes.entry import register

LOOK = "where the scores go through dropout"
SCALING = "what the scores that are kept are multiplied by"
PAPER = "Srivastava et al. 2014, section 4"


def kept_of(state: State) -> Any:
    """What the scores are multiplied by: 1.0 if nothing is dropped."""
    kept = state["trial"].kept
    return 1.0 if kept is None else kept


def _at_inference(state: State, right: Step) -> Any:
    trial = state["trial"]
    if trial.training or not trial.rate:
        return right(state)
    return state["scores"] * trial.more.get("kept", 1.0)


def _kept_times(factor: Any) -> Change:
    """The scores that are kept are multiplied by `factor(rate)`."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        if trial.kept is None:
            return right(state)
        return state["scores"] * (trial.kept > 0) * factor(trial.rate)

    return change


def _old_style(state: State, right: Step) -> Any:
    """Dropout without rescaling in training, and with it at inference."""
    trial = state["trial"]
    if trial.training:
        return state["scores"] * (np.asarray(kept_of(state)) > 0)
    return state["scores"] * (1 - trial.rate)


def _renormalised(state: State, right: Step) -> Any:
    dropped = right(state)
    if state["trial"].kept is None:
        return dropped
    total = dropped.sum(-1, keepdims=True)
    return dropped / np.where(total == 0, 1.0, total)


for _name, _says, _look, _source, _change in (
    (
        "at-inference",
        "Dropout is on when not training.",
        "what decides whether dropout is on",
        "pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791",
        _at_inference,
    ),
    (
        "never",
        "Dropout is off in training: `training` is not handed on, or the scores are used as they were.",
        "what decides whether dropout is on",
        "tensorflow/tensorflow#42625",
        lambda state, right: state["scores"],
    ),
    (
        "without-rescaling",
        "The scores that are kept are not divided by 1 - rate.",
        SCALING,
        "huggingface/transformers#31468",
        _kept_times(lambda rate: 1.0),
    ),
    (
        "rescaled-by-rate",
        "The scores that are kept are divided by the rate in place of by 1 - rate: it is read as the share to keep.",
        SCALING,
        "hunkim/DeepLearningZeroToAll#122; NVIDIA/apex#816",
        _kept_times(lambda rate: 1 / rate),
    ),
    (
        "times-rate",
        "The scores that are kept are multiplied by the rate in place of divided by 1 - rate.",
        SCALING,
        "NVIDIA/apex#816",
        _kept_times(lambda rate: rate),
    ),
    (
        "times-share",
        "The scores that are kept are multiplied by 1 - rate in place of divided by it.",
        SCALING,
        "huggingface/transformers#31468",
        _kept_times(lambda rate: 1 - rate),
    ),
    (
        "twice",
        "The scores go through dropout twice: those that are kept are divided by (1 - rate)².",
        LOOK,
        PAPER,
        _kept_times(lambda rate: 1 / (1 - rate) ** 2),
    ),
    (
        "rescaled-at-inference",
        "The scores are multiplied by 1 - rate when not training, in place of divided by it in training.",
        SCALING,
        PAPER,
        _old_style,
    ),
    (
        "then-normalised",
        "After dropout the scores are divided by their row's sum: rows sum to one again.",
        SCALING,
        PAPER,
        _renormalised,
    ),
):
    register(f"dropout-{_name}", _says, _look, _source, dropped=_change)


def _undropped(state: State, right: Step) -> Any:
    return state["scores"]


register(
    "dropout-on-logits",
    "Dropout is on the logits in place of the scores: those that are dropped become 0 and keep a share of exp(0).",
    LOOK,
    "PaddlePaddle/Parakeet#74",
    scaled=lambda state, right: right(state) * kept_of(state),
    dropped=_undropped,
)
register(
    "dropout-as-mask",
    "Dropout is a mask of the logits: rows sum to one, and what is kept is not divided by 1 - rate.",
    LOOK,
    "facebookresearch/fairseq#351",
    masked=lambda state, right: np.where(np.asarray(kept_of(state)) > 0, right(state), -np.inf),
    dropped=_undropped,
)


def _on_mixed(state: State, right: Step) -> Any:
    mixed, kept = right(state), state["trial"].kept
    if kept is None:
        return mixed
    if kept.shape[-1] < mixed.shape[-1]:
        raise ImpossibleError("fewer keys than features of a head: what was kept is not known")
    return mixed * kept[..., : mixed.shape[-1]]


register(
    "dropout-on-mixed",
    "Dropout is on what the scores have mixed in place of on the scores.",
    LOOK,
    "nikhilbarhate99/min-decision-transformer#2",
    dropped=_undropped,
    mixed=_on_mixed,
)
for _name, _says, _source, _change in (
    (
        "dropped",
        "The scores that are returned are those after dropout: their rows do not sum to one.",
        "pytorch/pytorch#42929, yangchengbupt/NeuralDiffusionModel#1",
        lambda state, right: state["dropped"],
    ),
    (
        "logits",
        "The logits are returned in place of the scores.",
        "PaddlePaddle/PaddleOCR#4556",
        lambda state, right: state["scaled"],
    ),
    (
        "unmasked",
        "The scores that are returned are those without the mask.",
        "Vaswani et al. 2017, section 3.2.3",
        lambda state, right: softmax(state["scaled"]),
    ),
    (
        "transposed",
        "The scores that are returned are transposed: (B, H, S, T) in place of (B, H, T, S).",
        "Vaswani et al. 2017, section 3.2.1",
        lambda state, right: np.swapaxes(right(state), -1, -2),
    ),
    (
        "averaged",
        "The scores that are returned are the heads' average, (B, T, S).",
        "pytorch/pytorch#34537, facebookresearch/fairseq#3365",
        lambda state, right: right(state).mean(axis=1),
    ),
    (
        "first-head",
        "The scores that are returned are the first head's, for all heads.",
        "facebookresearch/fairseq#3365",
        lambda state, right: np.broadcast_to(right(state)[:, :1], right(state).shape),
    ),
):
    register(f"returned-{_name}", _says, "what is returned as scores", _source, returned=_change)
