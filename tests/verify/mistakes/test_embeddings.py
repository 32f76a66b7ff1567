import numpy as np
import pytest

from kmha.core.positions import sinusoidal
from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.mistakes import BANK

CASES = {
    "embedding-unscaled": lambda x, p, ids, d: x + p,
    "embedding-divided": lambda x, p, ids, d: x / d**0.5 + p,
    "embedding-scaled-by-width": lambda x, p, ids, d: x * d + p,
    "embedding-divided-by-width": lambda x, p, ids, d: x / d + p,
    "embedding-scaled-by-length": lambda x, p, ids, d: x * ids.shape[1] ** 0.5 + p,
    "embedding-scaled-by-batch": lambda x, p, ids, d: x * ids.shape[0] ** 0.5 + p,
    "embedding-scaled-by-vocabulary": lambda x, p, ids, d: x * 19**0.5 + p,
    "embedding-scaled-after-positions": lambda x, p, ids, d: x * d**0.5 + p * d**0.5,
    "embedding-positions-scaled": lambda x, p, ids, d: x + p * d**0.5,
    "embedding-sum-divided": lambda x, p, ids, d: x / d**0.5 + p / d**0.5,
    "embedding-padding-zero": lambda x, p, ids, d: x * d**0.5 * (ids != 0)[..., None] + p,
    "embedding-padding-all-zero": lambda x, p, ids, d: (x * d**0.5 + p) * (ids != 0)[..., None],
    "embedding-unit-length": lambda x, p, ids, d: x * d**0.5 / np.sqrt((x**2).sum(-1, keepdims=True)) + p,
    "embedding-reversed": lambda x, p, ids, d: np.flip(x, 1) * d**0.5 + p,
    "embedding-first-for-all": lambda x, p, ids, d: np.stack([x[0]] * len(x)) * d**0.5 + p,
}


@pytest.mark.parametrize("identity", CASES)
def test_elementwise(identity):
    trial = draw_block(2, BlockAccepts("embedding"))[1]
    table, ids = trial.weights["embedding/embeddings"], trial.more["ids"]
    assert (ids == 0).any()
    expected = CASES[identity](table[ids], sinusoidal(ids.shape[1], table.shape[1]), ids, table.shape[1])
    actual = run(trial, [BANK[identity].changes])["output"]
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)
