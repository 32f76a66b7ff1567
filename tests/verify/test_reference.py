"""The reference against numbers worked out by hand, and its gradients against its own differences."""

import math
import subprocess
import sys

import numpy as np
import pytest

from kmha.verify import reference

B, T, S, H, O, V, I, J, K, E = 2, 3, 5, 7, 4, 6, 8, 9, 10, 11  # V is the value's O; J and K widths of value and key


def _weights(bias=True, gate=True):
    rng = np.random.default_rng(0)
    shapes = {"query": (H, I, O), "key": (H, K, O), "value": (H, J, V), "attention_output": (H, V, E)}
    if gate:
        shapes["gate"] = (H, I, V)
    weights = {f"{role}/kernel": 0.3 * rng.normal(size=shape) for role, shape in shapes.items()}
    if bias:
        for role, shape in shapes.items():
            weights[f"{role}/bias"] = rng.normal(size=(E,) if role == "attention_output" else (shape[0], shape[2]))
    return weights


def _inputs():
    rng = np.random.default_rng(1)
    return rng.normal(size=(B, T, I)), rng.normal(size=(B, S, K)), rng.normal(size=(B, S, J))


def test_by_hand():
    """One head of size 1, kernels of 1: logits 1·1 and 1·2, scores e/(e+e²) and e²/(e+e²)."""
    ones = {f"{role}/kernel": np.ones((1, 1, 1)) for role in ("query", "key", "value", "attention_output")}
    key, value = np.array([[[1.0], [2.0]]]), np.array([[[10.0], [20.0]]])
    output, scores = reference.attention(np.array([[[1.0]]]), key, value, ones)
    first = 1 / (1 + math.e)
    assert np.allclose(scores, [[[[first, 1 - first]]]], rtol=1e-15)
    assert np.allclose(output, [[[10 * first + 20 * (1 - first)]]], rtol=1e-15)


def test_two_heads_by_hand():
    """Head size 4, so that the scale is 1/2; the second head reads negated keys, and W^O subtracts it."""
    kernel = np.ones((2, 1, 4))
    weights = {
        "query/kernel": kernel,
        "key/kernel": kernel * [[[1]], [[-1]]],
        "value/kernel": np.ones((2, 1, 1)),
        "attention_output/kernel": np.array([[[1.0]], [[-1.0]]]),
        "attention_output/bias": np.array([0.5]),
    }
    key = value = np.array([[[0.0], [1.0]]])
    output, scores = reference.attention(np.array([[[1.0]]]), key, value, weights)
    chosen = math.exp(2) / (1 + math.exp(2))  # 4 · 1 · 1 / √4 = 2
    assert np.allclose(scores[0, :, 0, 1], [chosen, 1 - chosen], rtol=1e-15)
    assert np.allclose(output, chosen - (1 - chosen) + 0.5, rtol=1e-14)


def test_masks_and_dropout_by_hand():
    ones = {f"{role}/kernel": np.ones((1, 1, 1)) for role in ("query", "key", "value", "attention_output")}
    query, key = np.zeros((1, 2, 1)), np.array([[[1.0], [2.0], [6.0]]])
    allowed = np.array([[[[True, True, False], [False] * 3]]])
    kept = np.array([[[[2.0, 0.0, 1.0], [1.0, 1.0, 1.0]]]])
    output, scores = reference.attention(query, key, key, ones, allowed, kept)
    assert np.array_equal(scores, [[[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]]])
    assert np.array_equal(output, [[[0.5 * 2 * 1.0], [0.0]]])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gate", [True, False])
def test_gradients_are_differences(bias, gate):
    weights, (query, key, value) = _weights(bias, gate), _inputs()
    rng = np.random.default_rng(2)
    allowed = rng.random((B, H, T, S)) < 0.6
    allowed[0, :, 1] = False
    kept = (rng.random((B, H, T, S)) < 0.7) / 0.7
    upstream = rng.normal(size=(B, T, E))
    arrays = {"query": query, "key": key, "value": value, **weights}
    gradients = reference.gradients(upstream, query, key, value, weights, allowed, kept)
    assert gradients.keys() == arrays.keys()

    def loss(changed):
        at = {**arrays, **changed}
        output, _ = reference.attention(at["query"], at["key"], at["value"], {n: at[n] for n in weights}, allowed, kept)
        return np.sum(output * upstream)

    for name, array in arrays.items():
        for _ in range(3):
            direction = rng.normal(size=array.shape)
            difference = (loss({name: array + 1e-6 * direction}) - loss({name: array - 1e-6 * direction})) / 2e-6
            assert abs(difference - np.sum(gradients[name] * direction)) < 1e-7, name


def test_it_imports_numpy_alone():
    code = (
        "import sys, kmha.verify.reference\n"
        "heavy = {'keras', 'tensorflow', 'jax', 'torch', 'kmha.core', 'kmha.layers', 'kmha.interchange'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
