import re

import keras
import numpy as np
import pytest
from keras import ops

from kmha.core.cross_entropy import token_cross_entropy
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

WIDE = WIDEST[keras.backend.backend()]

N, D, V = 11, 5, 7
PAD = 3


def _random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _targets(pad_id=PAD):
    """Return targets of which a third is padding, and the others have every id but that of padding."""
    others = [v for v in range(V) if v != pad_id]
    return np.array([others[n % len(others)] if n % 3 else pad_id for n in range(N)])


def _expected(features, kernel, targets, bias, smoothing, pad_id=PAD):
    """Return the sums, computed token by token in float64."""
    loss = nll = correct = count = 0.0
    for feature, target in zip(features, targets, strict=True):
        if target == pad_id:
            continue
        logits = feature @ kernel + (0.0 if bias is None else bias)
        losses = np.log(np.sum(np.exp(logits - logits.max()))) - (logits - logits.max())
        labels = np.full(V, smoothing / V)
        labels[target] += 1 - smoothing
        loss += labels @ losses
        nll += losses[target]
        correct += np.argmax(logits) == target
        count += 1
    return loss, nll, correct, count


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("bias", [None, _random(V)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_the_sums_are_those_of_a_loop_over_tokens(smoothing, bias, transposed, gradient):
    features, kernel = _random(N, D), _random(D, V)
    options = {"bias": bias, "transposed": transposed, "smoothing": smoothing, "pad_id": PAD, "gradient": gradient}
    sums = token_cross_entropy(features, kernel.T if transposed else kernel, _targets(), **options)
    expected = _expected(features, kernel, _targets(), bias, smoothing)
    assert 0 < expected[2] < expected[3] < N
    for name, actual, one in zip(sums._fields, sums, expected, strict=True):
        assert is_close(ops.convert_to_numpy(actual), one, WIDE), name


def test_smoothing_is_that_of_keras():
    features, kernel = _random(N, D), _random(D, V)
    options = {"from_logits": True, "label_smoothing": 0.2, "reduction": "sum"}
    expected = keras.losses.CategoricalCrossentropy(**options)(np.eye(V)[_targets(0)], features @ kernel)
    sums = token_cross_entropy(features, kernel, _targets(0), transposed=False, smoothing=0.2, pad_id=-1)
    assert is_close(ops.convert_to_numpy(sums.loss), ops.convert_to_numpy(expected), "float32")


@pytest.mark.parametrize("pad_id", [-1, -100, 2, V + 4])
def test_padding_may_be_any_id(pad_id):
    features, kernel = _random(N, D), _random(D, V)
    sums = token_cross_entropy(features, kernel, _targets(pad_id), transposed=False, pad_id=pad_id, smoothing=0.1)
    expected = _expected(features, kernel, _targets(pad_id), None, 0.1, pad_id)
    assert is_close(np.stack([ops.convert_to_numpy(one) for one in sums]), expected, WIDE)


@pytest.mark.parametrize("gradient", [False, True])
def test_consistency_adds_both_divergences_of_two_passes(gradient):
    """Only for tokens that are not padding, and half of each divergence times the weight."""
    features, kernel, targets = _random(2 * N, D), _random(D, V), np.tile(_targets(), 2)
    options = {"transposed": False, "smoothing": 0.1, "pad_id": PAD, "gradient": gradient}
    sums = token_cross_entropy(features, kernel, targets, consistency=3.0, **options)
    expected = _expected(features, kernel, targets, None, 0.1)
    p = np.exp(features @ kernel)
    one, other = np.split(p / p.sum(axis=1, keepdims=True), 2)
    divergences = [(p * np.log(p / q)).sum(axis=1) for p, q in ((one, other), (other, one))]
    more = 3.0 * sum(0.5 * each[_targets() != PAD].sum() for each in divergences)
    assert more > 1
    for actual, one in zip(sums, (expected[0] + more, *expected[1:]), strict=True):
        assert is_close(ops.convert_to_numpy(actual), one, WIDE)


def test_two_passes_that_agree_are_consistent():
    features, kernel, targets = np.tile(_random(N, D), (2, 1)), _random(D, V), np.tile(_targets(), 2)
    losses = [
        token_cross_entropy(features, kernel, targets, transposed=False, consistency=weight, pad_id=PAD).loss
        for weight in (0.0, 5.0)
    ]
    assert is_close(*map(ops.convert_to_numpy, losses), WIDE)


@pytest.mark.parametrize("count", [0, N])
def test_nothing_but_padding_is_zero(count):
    sums = token_cross_entropy(_random(N, D)[:count], _random(D, V), np.full(count, PAD), transposed=False, pad_id=PAD)
    assert [float(one) for one in sums] == [0.0] * 4


def test_features_of_padding_may_be_huge():
    features = _random(N, D)
    features[_targets() == PAD] = 1e30
    sums = token_cross_entropy(features, _random(D, V), _targets(), transposed=False, pad_id=PAD, smoothing=0.1)
    expected = _expected(features, _random(D, V), _targets(), None, 0.1)
    assert is_close(np.stack([ops.convert_to_numpy(one) for one in sums]), expected, WIDE)


def test_a_hopeless_target_has_a_finite_loss():
    """Its probability is 0 in float32, where log p would be minus infinity."""
    features, kernel = np.array([[1000.0]], "float32"), np.array([[1.0, 0.5, -1.0]], "float32")
    sums = token_cross_entropy(features, kernel, np.array([2]), transposed=False)
    assert [float(one) for one in sums] == [2000.0, 2000.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_are_wide(dtype):
    features, kernel = ops.cast(_random(N, D), dtype), ops.cast(_random(D, V), dtype)
    sums = token_cross_entropy(features, kernel, _targets(), transposed=False, pad_id=PAD, smoothing=0.1)
    wide = WIDE if dtype == "float64" else "float32"
    assert {keras.backend.standardize_dtype(one.dtype) for one in sums} == {wide}
    rounded = [np.asarray(ops.convert_to_numpy(x), "float64") for x in (features, kernel)]
    expected = _expected(*rounded, _targets(), None, 0.1)
    assert is_close(ops.convert_to_numpy(sums.loss), expected[0], WIDE if dtype == "float64" else dtype)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": _random(2, N, D)}, "Received: features (2, 11, 5)"),
        ({"targets": np.ones((N, 1), "int32")}, "targets (11, 1)"),
        ({"transposed": True}, "expects features (N, D), kernel (V, D)"),
        ({"bias": np.ones(D)}, "bias (5,)"),
        ({"targets": np.ones(N + 1, "int32")}, "one target for each of the N tokens"),
        ({"kernel": _random(D, V).astype("float32")}, "of the same dtype"),
        ({"smoothing": 1.0}, "0 <= smoothing < 1. Received: smoothing=1.0"),
        ({"consistency": -1.0}, "0 <= consistency. Received: consistency=-1.0"),
        ({"consistency": 1.0}, "expects the tokens of two passes with consistency. Received: features (11, 5)"),
        ({"chunk": 0}, "a chunk of at least one token, or None. Received: chunk=0"),
    ],
)
def test_wrong_arguments_are_explained(given, message):
    arguments = {"features": _random(N, D), "kernel": _random(D, V), "targets": _targets(), "transposed": False}
    with pytest.raises(ValueError, match=re.escape(message)):
        token_cross_entropy(**{**arguments, **given})
