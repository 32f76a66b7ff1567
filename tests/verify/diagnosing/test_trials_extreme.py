import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.trials import Accepts, draw

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
SEEDS = range(6)


def _named(seed, accepts, **options):
    return {trial.name: trial for trial in draw(seed, accepts, **options)}


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_large_numbers_are_not_close(seed, cross, core):
    """No rounding of the logits may decide about a softmax."""
    named = _named(seed, dataclasses.replace(EVERYTHING, cross=cross), core=core)
    for name, items, distance in (
        ("large numbers", 1, 10),
        ("large numbers, mask", 2, 10),
        ("float16, large numbers", 2, 300),
    ):
        state = run(named[name])
        logits = np.where(state["allowed"], state["scaled"], -np.inf)[:items]
        two = np.sort(logits, axis=-1)[..., -2:]
        assert (two[..., 1] - two[..., 0] > distance).all(), name
    assert np.abs(run(named["large numbers"])["scaled"][0]).max() > 1e4
    assert np.abs(run(named["large numbers"])["scaled"][1]).max() < 100


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_float16_overflows_before_it_is_scaled(seed, core):
    named = _named(seed, EVERYTHING, core=core)
    for trial in named.values():
        assert (trial.dtype == "float16") == trial.name.startswith("float16")
        if trial.dtype == "float16":
            for array in (trial.query, trial.key, trial.value):
                np.testing.assert_array_equal(array.astype("float16"), array)
    state = run(named["float16, large numbers"])
    assert state["logits"].max() > 65520
    assert np.abs(state["scaled"]).max() < 65504
    two = named["float16, rows hidden by two masks"]
    assert (~two.mask & ~two.key_mask[:, None]).all(-1).any()
