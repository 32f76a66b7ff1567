import dataclasses

import numpy as np
import pytest

from kmha.verify.diagnosing.trials import Accepts, Sizes, draw_sizes, draw_weights

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_are_pairwise_different(seed):
    sizes = draw_sizes(np.random.default_rng(seed), EVERYTHING)
    numbers = [sizes.batch, sizes.rows, sizes.columns, sizes.heads, sizes.features, sizes.size, sizes.width]
    assert len({*numbers, sizes.heads * sizes.size}) == 8
    assert sizes.features == sizes.key_features
    assert sizes.features % sizes.heads == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_sizes(seed):
    sizes = draw_sizes(np.random.default_rng(seed), dataclasses.replace(EVERYTHING, wide=True))
    assert sizes.features == sizes.key_features == sizes.width == sizes.heads * sizes.size


def test_weights_are_canonical():
    sizes = Sizes(2, 5, 7, 3, 13, 11, 4, 17)
    shapes = {name: array.shape for name, array in draw_weights(np.random.default_rng(0), sizes).items()}
    assert shapes == {
        "query/kernel": (3, 13, 4),
        "query/bias": (3, 4),
        "key/kernel": (3, 11, 4),
        "key/bias": (3, 4),
        "value/kernel": (3, 11, 4),
        "value/bias": (3, 4),
        "attention_output/kernel": (3, 4, 17),
        "attention_output/bias": (17,),
    }
    plain = draw_weights(np.random.default_rng(0), dataclasses.replace(sizes, use_bias=False))
    assert {name for name in plain if name.endswith("bias")} == set()
