import numpy as np
import pytest

from kmha.verify import reference, tolerance
from kmha.verify.bank.right_layers import WAYS, attention
from kmha.verify.diagnosing.trials import Accepts, draw


@pytest.mark.parametrize("way", WAYS, ids=", ".join)
def test_every_way_is_the_reference(way):
    trials = {trial.name: trial for trial in draw(3, Accepts(causal=True, padding=True))}
    for name in ("cross-attention", "mask", "causal, T < S", "padding"):
        trial = trials[name]
        output, scores = attention(way)(
            trial.query, trial.key, trial.value, trial.weights, trial.mask, trial.causal, trial.key_mask
        )
        heads = trial.weights["query/kernel"].shape[0]
        allowed = np.repeat(trial.allowed()[:, None], heads, axis=1)
        right, right_scores = reference.attention(trial.query, trial.key, trial.value, trial.weights, allowed)
        assert output.dtype == scores.dtype == way[-1]
        assert tolerance.is_close(output, right, way[-1])
        assert tolerance.is_close(scores, right_scores, way[-1])
