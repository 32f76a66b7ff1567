"""Mistakes in the dropout of the scores, and in the scores that are returned.

A candidate draws its own dropout. `trial.kept` (B, H, T, S) contains the factors, 0 or 1 / (1 - rate), that the
candidate multiplies the scores by. In a trial without training, right code drops nothing, and code that still drops
scores uses `trial.more["kept"]`. The caller fills in both arrays. Nothing is dropped without them.

Two mistakes are missing because numbers cannot show them: a wrong rate, and dropping whole keys for all queries. Right
code could have drawn the same dropout masks.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, normalised, softmax
from kmha.verify.mistakes.entry import register

LOOK = "the line that applies dropout to the scores"
CONDITION = "the condition for dropout"
SCALING = "the factor of the scores that dropout keeps"
PAPER = "Srivastava et al. 2014, section 4"


def kept_of(state: State) -> Any:
    """Return the factor that the scores are multiplied by, which is 1.0 if nothing is dropped."""
    kept = state["trial"].kept
    return 1.0 if kept is None else kept


def _at_inference(state: State, right: Step) -> Any:
    trial = state["trial"]
    if trial.training or not trial.rate:
        return right(state)
    return state["scores"] * trial.more.get("kept", 1.0)


def _kept_times(factor: Any) -> Change:
    """Return a change that multiplies scores by `factor(rate)` where dropout keeps them."""

    def change(state: State, right: Step) -> Any:
        trial = state["trial"]
        return right(state) if trial.kept is None else state["scores"] * (trial.kept > 0) * factor(trial.rate)

    return change


def _old_style(state: State, right: Step) -> Any:
    """Rescale the scores at inference instead of in training."""
    trial = state["trial"]
    return state["scores"] * (np.asarray(kept_of(state)) > 0 if trial.training else 1 - trial.rate)


def _renormalised(state: State, right: Step) -> Any:
    dropped = right(state)
    return dropped if state["trial"].kept is None else normalised(dropped)


def _undropped(state: State, right: Step) -> Any:
    return state["scores"]


TRANSFORMERS = "huggingface/transformers#31468"
DEEP, APEX = "hunkim/DeepLearningZeroToAll#122", "NVIDIA/apex#816"
for _name, _says, _look, _source, _change in (
    (
        "at-inference",
        "You applied dropout at inference. Apply it only when training is true.",
        CONDITION,
        "pytorch/pytorch#124464, huggingface/pytorch-image-models#1978, meta-pytorch/torchtune#1791",
        _at_inference,
    ),
    (
        "never",
        "You did not apply dropout in training. Pass `training` on, and use the scores that dropout returns.",
        CONDITION,
        "tensorflow/tensorflow#42625",
        _undropped,
    ),
    (
        "twice",
        "You applied dropout twice, so the kept scores are divided by (1 - rate)². Apply it once.",
        LOOK,
        PAPER,
        _kept_times(lambda rate: 1 / (1 - rate) ** 2),
    ),
    (
        "rescaled-at-inference",
        "You multiplied the scores by 1 - rate at inference. Divide them by 1 - rate in training instead.",
        SCALING,
        PAPER,
        _old_style,
    ),
    (
        "then-normalised",
        "You normalized the rows again after dropout, so they sum to one. Leave the dropped scores as they are.",
        SCALING,
        PAPER,
        _renormalised,
    ),
):
    register(f"dropout-{_name}", _says, _look, _source, dropped=_change)
for _name, _did, _source, _factor in (
    ("without-rescaling", "did not rescale the scores that dropout keeps", TRANSFORMERS, lambda rate: 1.0),
    (
        "rescaled-by-rate",
        "divided the kept scores by the rate, taken for the share to keep",
        f"{DEEP}; {APEX}",
        lambda rate: 1 / rate,
    ),
    ("times-rate", "multiplied the kept scores by the rate", APEX, lambda rate: rate),
    ("times-share", "multiplied the kept scores by 1 - rate", TRANSFORMERS, lambda rate: 1 - rate),
):
    _says = f"You {_did}. Divide them by 1 - rate."
    register(f"dropout-{_name}", _says, SCALING, _source, dropped=_kept_times(_factor))


def _on_mixed(state: State, right: Step) -> Any:
    mixed, kept = right(state), state["trial"].kept
    if kept is None:
        return mixed
    if kept.shape[-1] < mixed.shape[-1]:
        raise ImpossibleError("fewer keys than features of a head, so the kept features are unknown")
    return mixed * kept[..., : mixed.shape[-1]]


for _name, _says, _source, _changes in (
    (
        "on-logits",
        "to the logits, where a 0 still gets the weight exp(0) = 1. Apply it to the scores, after the softmax.",
        "PaddlePaddle/Parakeet#74",
        {"scaled": lambda state, right: right(state) * kept_of(state)},
    ),
    (
        "as-mask",
        "as a mask of the logits, so nothing is rescaled. Apply it to the scores, after the softmax.",
        "facebookresearch/fairseq#351",
        {"masked": lambda state, right: np.where(np.asarray(kept_of(state)) > 0, right(state), -np.inf)},
    ),
    (
        "on-mixed",
        "to the mixed values. Apply it to the scores, before they mix the values.",
        "nikhilbarhate99/min-decision-transformer#2",
        {"dropped": _undropped, "mixed": _on_mixed},
    ),
):
    register(f"dropout-{_name}", f"You applied dropout {_says}", LOOK, _source, **{**_changes, "dropped": _undropped})
for _name, _says, _source, _change in (
    (
        "dropped",
        "You returned the scores after dropout, so their rows do not sum to one. Return the scores before dropout.",
        "pytorch/pytorch#42929, yangchengbupt/NeuralDiffusionModel#1",
        lambda state, right: state["dropped"],
    ),
    (
        "logits",
        "You returned the logits. Return the scores, which are their softmax.",
        "PaddlePaddle/PaddleOCR#4556",
        lambda state, right: state["scaled"],
    ),
    (
        "masked-logits",
        "You returned the masked logits. Return the scores, which are their softmax.",
        "PaddlePaddle/PaddleOCR#4556",
        lambda state, right: state["masked"],
    ),
    (
        "products",
        "You returned the products of query and key, before the scale. Return the scores, which the values are mixed "
        "with.",
        "PaddlePaddle/PaddleOCR#4556",
        lambda state, right: state["logits"],
    ),
    (
        "unmasked",
        "You returned the scores of the unmasked logits. Return the scores of the masked ones.",
        "Vaswani et al. 2017, section 3.2.3",
        lambda state, right: softmax(state["scaled"]),
    ),
    (
        "transposed",
        "You returned the scores as (B, H, S, T). Return them as (B, H, T, S).",
        "Vaswani et al. 2017, section 3.2.1",
        lambda state, right: np.swapaxes(right(state), -1, -2),
    ),
    (
        "averaged",
        "You returned the average of the heads' scores, (B, T, S). Return one matrix per head, (B, H, T, S).",
        "pytorch/pytorch#34537, facebookresearch/fairseq#3365",
        lambda state, right: right(state).mean(axis=1),
    ),
    (
        "first-head",
        "You returned the first head's scores for all heads. Return each head's own scores.",
        "facebookresearch/fairseq#3365",
        lambda state, right: np.broadcast_to(right(state)[:, :1], right(state).shape),
    ),
):
    register(f"returned-{_name}", _says, "the scores that you return", _source, returned=_change)
