"""A small model whose searches have something to decide, what it says without a cache, and sentences for it."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from kmha.translation.tokenizer import END, START


def _draw(model, seed, end):
    """Draw weights with which each token prefers a follower, so that hypotheses vary, and end."""
    numbers, scale = np.random.default_rng(seed), 0.4
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(numbers.normal(0, scale, weight.shape))
    embeddings = keras.ops.convert_to_numpy(model.decoder.embedding.embeddings)
    count, width = embeddings.shape
    follower = numbers.permutation(np.arange(END + 1, count))
    kernel = numbers.normal(0, 0.5, (width, count))
    kernel[:, follower] += 0.75 / scale * embeddings[np.roll(follower, 1)].T
    model.final_layer.kernel.assign(kernel)
    model.final_layer.bias.assign(np.eye(count)[END] * end)
    model.drawn = seed, end


def _make(vocabulary=9, dtype="float64", **options):
    """A Transformer of one layer: 11 source ids, at most 17 source and 13 target positions."""
    from kmha.layers import Transformer

    sizes = 1, 12, 3, 14, 11, vocabulary, 17, 13
    model = Transformer(*sizes, dropout_rate=0.5, final_activation=None, dtype=dtype, **options)
    model.build()
    model.draw = lambda seed=52, end=2.0: _draw(model, seed, end)
    model.draw()
    return model


def _uncached(model):
    """A function of source ids and a list of ids: the log probabilities of all ids from END on to follow them."""
    import tensorflow as tf

    def call(*ids):
        return model(*ids, return_attention_scores=False)

    if keras.backend.backend() == "tensorflow":
        call = tf.function(call, [tf.TensorSpec([None, None], tf.int32)] * 2, autograph=False)
    known = {}

    def following(source, ids):
        key = model.drawn, tuple(source), tuple(ids)
        if key not in known:
            logits = call(np.array([source], "int32"), np.array([[START, *ids]], "int32"))[0, -1, END:]
            logits = keras.ops.convert_to_numpy(logits)
            known[key] = logits - np.log(np.sum(np.exp(logits)))
        return known[key]

    return following


def _padded(sources, longer=0):
    ids = np.zeros((len(sources), max(map(len, sources)) + longer), "int32")
    for row, source in enumerate(sources):
        ids[row, : len(source)] = source
    return ids


@pytest.fixture(scope="session")
def searching():
    """`model(vocabulary, dtype, **options)`, whose `draw(*weights)` gives it others; `uncached(model)`; sentences."""
    return SimpleNamespace(
        model=_make,
        any_model=_make(),  # for tests that don't mind its weights
        weights=((52, 2.0), (20, 0.0), (24, 2.0)),  # with them, some sentences end at several lengths, and some don't
        uncached=_uncached,
        padded=_padded,
        sources=([5, 3, END], [4, 10, 7, 7, 3, 8, 6, END], [END], [9, 6, 10, 4, END], [3, 3, 8, 5, 9, END]),
        limits=(13, 13, 11, 13, 13),  # the usual ones, but for the model's 13 positions
    )
