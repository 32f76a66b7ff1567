"""Attention in NumPy, to make mistakes in, and candidates that have been called."""

import numpy as np
import pytest

from kmha.verify.diagnosing.convention_search import find_convention
from kmha.verify.diagnosing.diagnosis import candidate_of


def scores_of(query, key):
    logits = query @ np.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.fixture
def scores():
    return scores_of


@pytest.fixture
def evaluated():
    """Return a candidate and its answers."""

    def evaluate(thing, **arguments):
        candidate = candidate_of(thing, arguments)
        drawn = find_convention(candidate, 0).drawn
        return candidate, [candidate.evaluate(trial) for trial in drawn]

    return evaluate
