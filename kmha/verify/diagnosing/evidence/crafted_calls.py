"""Calls with weights and values chosen so that the output shows a step in between."""

import dataclasses

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import Answer


def showing_scores(candidate: Candidate, trial: Trial) -> Trial | None:
    """Return a trial in which the first features of the output are the first head's scores, or `None` if impossible.

    Each value is a row of the identity, and in a layer so are the value's and the output's kernels of the first head.
    """
    columns = min(trial.key.shape[-2], trial.value.shape[-1])
    if candidate.chain != "attention" or candidate.weights is not None or not candidate.accepts.value:
        return None
    weights = dict(trial.weights)
    if not trial.core:
        if any(f"{role}/kernel" not in weights for role in ("value", "attention_output")):
            return None
        columns = min(columns, weights["value/kernel"].shape[2], weights["attention_output/kernel"].shape[2])
        for role in ("value", "attention_output"):
            kernel = np.zeros_like(weights[f"{role}/kernel"])
            kernel[0] = np.eye(*kernel.shape[1:])
            weights[f"{role}/kernel"] = kernel
            if f"{role}/bias" in weights:
                weights[f"{role}/bias"] = np.zeros_like(weights[f"{role}/bias"])
    value = np.zeros_like(trial.value[..., :columns, :])
    value[..., :, :columns] = np.eye(columns)
    key = trial.key[..., :columns, :]
    unmasked = dataclasses.replace(trial, mask=None, key_mask=None, query_mask=None)
    return dataclasses.replace(unmasked, key=key, value=value, weights=weights)


def scores_of(trial: Trial, answer: Answer) -> np.ndarray | None:
    """Return the scores that a call made by `showing_scores` shows, those of the first head in a layer."""
    if answer.error or answer.output is None or np.ndim(answer.output) != trial.query.ndim:
        return None
    return answer.output[..., : trial.key.shape[-2]]
