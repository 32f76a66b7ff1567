"""Find a bias of relative positions (Raffel et al. 2020, section 2.1) that is not that of the offset of two positions.

kmha sets the table of such a bias to zeros, because it is a design choice, and so does not see how code reads it. Here
the table is random, and the kernels of query and key are zero, so that the scores are the softmax of the bias alone.
Two pairs of positions with the same offset must then have the same bias, whatever index the code gives an offset.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.window_offsets import held_by
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding

RELATIVE = re.compile(r"(^|[._])rel(_|ative)")
WINDOW = re.compile("win(dow)?|grid|height")  # in names of attributes: the offsets have two dimensions
SAYS = "With `{}` alone, two pairs of positions with the same offset have different biases."
FEWEST = 4  # number of positions
CLOSE = 1e-6  # between two biases in float64, and between a score and the numbers that show it


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if a table with a number for each head gives equal offsets different biases."""
    if candidate.chain != "attention" or not hasattr(candidate, "layer_class") or candidate.weights is not None:
        return None
    layer: Any = candidate
    trial = next((each.trial for each in results if _is_plain(each)), None)
    if trial is None:
        return None
    heads = trial.weights["query/kernel"].shape[0]
    names = [
        each.path
        for each in trial.more.get("extras", ())
        if RELATIVE.search(each.path.lower()) and each.array.ndim == 2 and heads in each.array.shape
    ]
    if len(names) != 1 or any(WINDOW.search(name.lower()) for name in held_by(layer.make(trial)[0])):
        return None
    scores = _scores(layer, trial, names[0])
    if scores is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(np.log(scores), axis=2)  # from each key to the next: (H, T, S - 1)
        moved = steps[:, 1:, 1:] - steps[:, :-1, :-1]
    moved = moved[np.isfinite(moved)]  # a causal layer hides some pairs
    if not moved.size or np.abs(moved).max() < np.sqrt(CLOSE):
        return None
    return Finding(SAYS.format(names[0]), ("relative-bias-misplaced",), conclusive=True)


def _is_plain(result: TrialResult) -> bool:
    trial = result.trial
    is_square = trial.query.shape[-2] == trial.key.shape[-2] >= FEWEST and not trial.core
    masks = trial.mask, trial.key_mask, trial.query_mask
    unmasked = all(each is None for each in masks)  # it may be causal
    return not result.answer.error and is_square and unmasked and not trial.rate and trial.dtype == "float64"


def _scores(candidate: Any, trial: Trial, name: str) -> np.ndarray | None:
    """Return the scores (H, T, S) of a bias with random numbers, or `None` if the outputs do not show them.

    Item j of the batch has a value at position j alone. So its output at position i is Σ over h of the score (h, i, j)
    times what the head makes of the value.
    """
    weights = {
        each: np.zeros_like(array) if each.startswith(("query", "key")) or each.endswith("bias") else array
        for each, array in trial.weights.items()
    }
    length, width = trial.query.shape[-2], trial.value.shape[-1]
    vector = np.random.default_rng(0).normal(size=width)
    values = np.eye(length)[:, :, None] * vector  # (B, S, I), an item for each key
    trial = dataclasses.replace(trial, weights=weights, query=values, key=values, value=values)
    layer = candidate.make(trial)[0]
    table = next(each for each in candidate.adapter.variables(layer) if each.path == name)
    table.assign(np.random.default_rng(1).normal(size=table.shape))
    try:
        answer = candidate.answer(trial)
    finally:
        table.assign(np.zeros(table.shape))
    if answer.error or np.shape(answer.output)[:2] != (length, length):
        return None
    heads = np.einsum("i,hio,hoe->he", vector, weights["value/kernel"], weights["attention_output/kernel"])
    if len(heads) > heads.shape[1]:
        return None
    outputs = np.asarray(answer.output, "float64").reshape(length * length, -1)  # (S · T, E)
    scores = np.linalg.lstsq(heads.T, outputs.T, rcond=None)[0]  # (H, S · T)
    shown = np.abs(heads.T @ scores - outputs.T).max() < CLOSE * np.abs(outputs).max()
    found = scores.reshape(-1, length, length).transpose(0, 2, 1)
    return found if shown and np.allclose(found.sum(axis=2), 1, atol=np.sqrt(CLOSE)) else None
