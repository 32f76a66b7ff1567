import dataclasses

import numpy as np
import pytest

from kmha.layers.embedding import PositionalEncoding, TokenEmbedding
from kmha.verify import tolerance
from kmha.verify.chains.attention import run
from kmha.verify.choices import CHOICES
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.mistakes import BANK


@pytest.mark.parametrize("seed", range(4))
def test_the_right_embedding_agrees_with_our_layer(seed):
    for trial in draw_block(seed, BlockAccepts("embedding")):
        table = trial.weights["embedding/embeddings"]
        embedding = TokenEmbedding(*table.shape, dtype="float64")
        embedding.build()
        embedding.embeddings.assign(table)
        ids = trial.more["ids"]
        expected = PositionalEncoding(max_length=12, dtype="float64")(embedding(ids))
        assert tolerance.is_close(run(trial)["output"], np.asarray(expected), "float64"), trial.name


def test_one_element_by_the_formula():
    trial = draw_block(5, BlockAccepts("embedding"))[0]
    table, ids = trial.weights["embedding/embeddings"], trial.more["ids"]
    width = table.shape[1]
    output = run(trial)["output"]
    sine = table[ids[1, 3], 4] * width**0.5 + np.sin(3 / 10000 ** (4 / width))
    cosine = table[ids[1, 2], 3] * width**0.5 + np.cos(2 / 10000 ** (2 / width))
    np.testing.assert_allclose([output[1, 3, 4], output[1, 2, 3]], [sine, cosine], rtol=1e-12)


def test_a_mistake_in_the_positions_leaves_segments_and_normalization():
    trial = draw_block(5, BlockAccepts("embedding"))[0]
    width = trial.weights["embedding/embeddings"].shape[1]
    segments = np.random.default_rng(0).normal(size=(2, width))
    weights = {**trial.weights, "segments/embeddings": segments, "extra1/gamma": np.ones(width)}
    choices = (CHOICES["unscaled"].changes, CHOICES["normalized-1e-5"].changes)
    trial = dataclasses.replace(trial, weights=weights, choices=choices)
    state = run(trial, [BANK["positions-subtracted"].changes])
    total = state["looked_up"] + segments[0] - state["encoded"]
    expected = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(state["output"], expected, rtol=1e-12)
