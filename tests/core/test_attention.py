import math

import keras
import numpy as np
import pytest
from keras import ops

from kmha.core import axes
from kmha.core.attention import Dropout, attend, masked_softmax
from kmha.verify.comparing.running import WIDEST
from kmha.verify.reference import _mix, _scores
from kmha.verify.tolerance import is_close

WIDE = WIDEST[keras.backend.backend()]

B, T, S, H, O, V = 2, 3, 5, 7, 11, 13  # V is the value's O


def _heads(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, T, H, O)), rng.normal(size=(B, S, H, O)), rng.normal(size=(B, S, H, V))


def _mask(*shape):
    mask = np.random.default_rng(5).random(shape) < 0.6
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("return_scores", [True, False])
@pytest.mark.parametrize("mask", [None, _mask(B, 1, 1, S), _mask(1, H, T, 1), _mask(B, H, T, S), _mask(T, S)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
def test_attend_agrees_with_the_loops(mask, causal, window, return_scores):
    query, key, value = _heads()
    allowed = np.ones((B, H, T, S), bool) if mask is None else np.broadcast_to(mask, (B, H, T, S)).copy()
    for t, s in np.ndindex(T, S):
        if (causal and s > t) or (window is not None and abs(t - s) >= window):
            allowed[:, :, t, s] = False
    expected = _scores(query, key, allowed)
    mixed, scores = attend(query, key, value, mask, causal=causal, window=window, return_scores=return_scores)
    assert is_close(ops.convert_to_numpy(mixed), _mix(expected, value), WIDE)
    assert scores is not None or not return_scores
    if scores is not None:
        assert is_close(ops.convert_to_numpy(scores), expected, WIDE)


def test_scores_and_mix_are_the_equations():
    query, key, value = _heads()
    mixed, scores = (ops.convert_to_numpy(x) for x in attend(query, key, value, return_scores=True))
    logits = np.einsum(axes.SCORES, query, key) / math.sqrt(O)
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert is_close(scores, expected, WIDE)
    assert is_close(mixed, np.einsum(axes.MIX, expected, value), WIDE)


@pytest.mark.parametrize("return_scores", [True, False])
def test_a_bias_is_added_to_the_logits(return_scores):
    query, key, value = _heads()
    bias = np.random.default_rng(3).normal(size=(1, H, T, S))
    mixed, _ = attend(query, key, value, bias=bias, return_scores=return_scores)
    logits = np.einsum(axes.SCORES, query, key) / math.sqrt(O) + bias
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert is_close(ops.convert_to_numpy(mixed), np.einsum(axes.MIX, expected, value), WIDE)


def test_scale_can_be_given():
    query, key, value = _heads()
    given, _ = attend(query, key, value, scale=0.5, return_scores=True)
    wider, _ = attend(query * 0.5 * math.sqrt(O), key, value, return_scores=True)
    assert is_close(ops.convert_to_numpy(given), ops.convert_to_numpy(wider), WIDE)


def test_dropout_comes_after_the_scores_that_are_returned():
    query, key, value = _heads()
    _, plain = attend(query, key, value, return_scores=True)
    dropout = Dropout(1.0, keras.random.SeedGenerator(3))
    mixed, scores = attend(query, key, value, dropout=dropout, return_scores=True)
    assert np.array_equal(ops.convert_to_numpy(scores), ops.convert_to_numpy(plain))
    assert not ops.convert_to_numpy(mixed).any()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("return_scores", [True, False])
def test_a_row_with_nothing_to_attend_to_is_zero(dtype, return_scores):
    query, key, value = (ops.cast(x, dtype) for x in _heads())
    mask = np.ones((B, H, T, S), bool)
    mask[0, 1, 2] = False
    mixed, scores = attend(query, key, value, ops.convert_to_tensor(mask), return_scores=return_scores)
    mixed = ops.convert_to_numpy(ops.cast(mixed, "float64"))
    assert np.isfinite(mixed).all()
    assert not mixed[0, 2, 1].any()
    assert mixed[0, 2, 2].all()
    if return_scores:
        assert not ops.convert_to_numpy(ops.cast(scores, "float64"))[0, 1, 2].any()


@pytest.mark.parametrize("elementwise", [False, True])
def test_the_softmax_of_half_types_is_computed_in_float32(elementwise):
    logits = ops.cast(np.linspace(-4, 4, 2048)[None], "float16")
    expected = np.exp(ops.convert_to_numpy(ops.cast(logits, "float64")))
    expected /= expected.sum()
    scores = ops.convert_to_numpy(ops.cast(masked_softmax(logits, elementwise=elementwise), "float64"))
    # Correctly rounded: a sum of 2,048 numbers in float16 would be off by far more.
    assert np.allclose(scores, expected, rtol=2.0**-10, atol=2.0**-24)
    assert keras.backend.standardize_dtype(masked_softmax(logits, elementwise=elementwise).dtype) == "float16"


@pytest.mark.parametrize("elementwise", [False, True])
def test_huge_logits_do_not_overflow(elementwise):
    logits, mask = np.array([[1e30, -1e30, 1e30]] * 2), np.array([[True, True, False], [False] * 3])
    scores = ops.convert_to_numpy(masked_softmax(logits, mask, elementwise))
    assert np.array_equal(scores, [[1.0, 0.0, 0.0], [0.0] * 3])


def test_one_key_needs_no_softmax():
    query, key, value = _heads()
    mixed, scores = attend(query, key[:, :1], value[:, :1], return_scores=True)
    assert np.array_equal(ops.convert_to_numpy(scores), np.ones((B, H, T, 1)))
    assert is_close(ops.convert_to_numpy(mixed), np.broadcast_to(value[:, :1], (B, T, H, V)), WIDE)


def test_dropout_draws_what_the_keras_layer_draws():
    ours, theirs = keras.layers.Dropout(0.3, seed=5), keras.layers.Dropout(0.3, seed=5)
    scores = ops.ones((2, 3, 5, 7))
    for _ in range(2):  # two calls draw two masks
        drawn = Dropout.of(ours, training=True)(scores)
        assert np.array_equal(ops.convert_to_numpy(drawn), ops.convert_to_numpy(theirs(scores, training=True)))


def test_dropout_is_none_where_nothing_is_dropped():
    layer = keras.layers.Dropout(0.3)
    assert Dropout.of(layer, training=False) is None
    assert Dropout.of(layer, training=None) is None
    assert Dropout.of(keras.layers.Dropout(0.0), training=True) is None
