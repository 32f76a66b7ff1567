"""Tests of the design choices of attention, and of how the diagnosis recognises them."""

import dataclasses

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.chains.attention import Trial, run
from kmha.verify.choices import CHOICES
from kmha.verify.choices.attention import Extra, normalized, place_of, rotated, slopes_of
from kmha.verify.diagnosing import report

pytestmark = pytest.mark.sampled(4)

RNG = np.random.default_rng(0)


def _softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _trial(rows=3, columns=5, **options):
    return Trial("t", *(RNG.normal(size=(2, 4, size, 6)) for size in (rows, columns, columns)), **options)


def test_rotation_depends_on_the_distance_alone():
    q, k = (np.broadcast_to(RNG.normal(size=6), (1, 1, 7, 6)) for _ in range(2))
    for interleaved in (False, True):
        logits = rotated(q, interleaved)[0, 0] @ rotated(k, interleaved)[0, 0].T
        assert np.allclose(np.diag(logits, 1), logits[0, 1])
        assert not np.allclose(logits[0, 1], logits[0, 2])


@pytest.mark.parametrize("rms", [False, True])
def test_normalization(rms):
    array = RNG.normal(size=(2, 3, 5))
    scale, shift = RNG.normal(size=(2, 5))
    found = normalized({"trial": _trial()}, array, [Extra("a_2", scale, 1.0), Extra("b_2", shift, 0.0)], rms)
    centred = array if rms else array - array.mean(-1, keepdims=True)
    assert np.allclose(found, scale * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + shift)


def test_a_scale_around_zero():
    array = RNG.normal(size=(2, 3, 5))
    scale = RNG.normal(size=5)
    found = normalized({"trial": _trial()}, array, [Extra("norm.weight", scale, 0.0)], True)
    assert np.allclose(found, (1 + scale) * array / np.sqrt((array**2).mean(-1, keepdims=True) + 1e-5))


@pytest.mark.parametrize(
    ("path", "place"),
    [("norm.weight", ""), ("q_norm.scale", "query"), ("norm_k.weight", "key"), ("to_out.1.gamma", "output")],
)
def test_the_place_of_a_normalization(path, place):
    assert place_of(path) == place


@pytest.mark.parametrize("id", ["cosines", "cosines-exp"])
def test_cosines(id):
    weight = RNG.uniform(1.0, 2.0, size=(4, 1, 1))
    trial = _trial(choices=(CHOICES[id].changes,), more={"extras": (Extra("logit_scale", weight, None),)})
    assert CHOICES[id].suits(trial)
    assert not CHOICES[id].suits(_trial())
    q, k = (each / np.sqrt((each**2).sum(-1, keepdims=True)) for each in (trial.query, trial.key))
    expected = _softmax(q @ k.swapaxes(-1, -2) * (weight if id == "cosines" else np.exp(weight)))
    assert np.allclose(run(trial)["scores"], expected)


def test_the_cosine_of_a_zero_is_zero():
    extras = (Extra("logit_scale", np.ones((4, 1, 1)), 1.0),)
    trial = _trial(choices=(CHOICES["cosines"].changes,), more={"extras": extras})
    zero = dataclasses.replace(trial, key=np.zeros_like(trial.key))
    assert np.allclose(run(zero)["scores"], 0.2)


def test_a_causal_mask_aligned_at_the_bottom_right():
    trial = _trial(causal=True)
    allowed = run(trial, [CHOICES["causal-bottom-right"].changes])["allowed"]
    assert np.array_equal(allowed[0, 0], np.tril(np.ones((3, 5), bool), 2))


class _Attention(keras.layers.Layer):
    """Self-attention with a choice of design."""

    kind = ""

    def __init__(self, num_heads, d_model):
        super().__init__()
        self.heads, self.width = num_heads, d_model
        self.wq, self.wk, self.wv, self.wo = (keras.layers.Dense(d_model) for _ in range(4))
        self.norm = keras.layers.LayerNormalization() if "norm" in self.kind else None

    def _split(self, x):
        batch, rows, _ = x.shape
        return keras.ops.transpose(
            keras.ops.reshape(x, (batch, rows, self.heads, self.width // self.heads)), (0, 2, 1, 3)
        )

    def call(self, x):
        given = x
        x = self.norm(x) if self.kind == "norm first" else x
        q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
        if self.kind.startswith("rotary"):
            base = 500_000.0 if self.kind.endswith("long") else 10_000.0
            q, k = _rotate(q, base), _rotate(k, base)
        qk = q @ keras.ops.swapaxes(k, -1, -2) / (self.width // self.heads) ** 0.5
        scores = softmax_one(qk) if self.kind == "quiet" else keras.ops.softmax(qk)
        mixed = keras.ops.transpose(scores @ v, (0, 2, 1, 3))
        output = self.wo(keras.ops.reshape(mixed, x.shape))
        if self.kind == "averaged":
            return output, keras.ops.mean(scores, axis=1)
        if self.kind == "residual, norm":
            return self.norm(given + output)
        return output


def softmax_one(x):
    zero = keras.ops.zeros_like(x[..., :1])
    return keras.ops.softmax(keras.ops.concatenate([x, zero], axis=-1))[..., :-1]


def _rotate(x, base=10_000.0):
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[2])[:, None] / base ** (np.arange(half) / half)
    cosine, sine = (np.concatenate([each, each], -1) for each in (np.cos(angles), np.sin(angles)))
    turned = keras.ops.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * keras.ops.cast(cosine, x.dtype) + turned * keras.ops.cast(sine, x.dtype)


@pytest.mark.parametrize(
    ("kind", "choices", "says"),
    [
        ("rotary", ("rotary-half",), "Rotary positions (in halves):"),
        ("rotary, long", ("rotary-half-base-500000",), "Rotary positions (in halves, with a base of 500,000)"),
        ("norm first", ("layer-norm-of-input",), "LayerNorm of the query's input"),
        ("residual, norm", ("adds-its-input", "layer-norm-of-output"), "A residual connection of its own"),
        ("averaged", ("scores-averaged",), "Scores averaged over the heads"),
        ("quiet", ("softmax-with-one-more",), "A softmax with one added to the sum of the exponentials"),
    ],
)
def test_choices_are_recognised_and_stated(kind, choices, says):
    layer = type("Attention", (_Attention,), {"kind": kind})
    found = diagnose(layer)
    assert (found.verdict, found.convention.choices) == ("right", choices)
    assert any(line.startswith(says) and "taken as intended" in line for line in report.remarks(found))


def test_logits_that_are_returned_by_name_are_not_judged():
    class Attention(_Attention):
        def call(self, x):
            q, k = self._split(self.wq(x)), self._split(self.wk(x))
            qk = q @ keras.ops.swapaxes(k, -1, -2) / (self.width // self.heads) ** 0.5
            return super().call(x), qk

    found = diagnose(Attention)
    assert found.right
    assert "the logits that it returns as `qk`" in str(found).replace("\n", " ")


def test_logits_without_a_scale_are_a_choice_only_where_the_code_says_so():
    class Attention(_Attention):
        def call(self, x):
            q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
            mixed = keras.ops.softmax(q @ keras.ops.swapaxes(k, -1, -2)) @ v
            return self.wo(keras.ops.reshape(keras.ops.transpose(mixed, (0, 2, 1, 3)), x.shape))

    class OfT5(Attention):
        def call(self, x):
            return super().call(x)  # unscaled, as in T5

    assert diagnose(Attention).ids == ("scale-missing",)
    assert diagnose(OfT5).convention.choices == ("unscaled-logits",)


@pytest.mark.slow
def test_a_mistake_beside_a_choice_is_named():
    class Attention(_Attention):
        kind = "rotary"

        def call(self, x):
            q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
            scores = keras.ops.softmax(_rotate(q) @ keras.ops.swapaxes(_rotate(k), -1, -2))
            return self.wo(keras.ops.reshape(keras.ops.transpose(scores @ v, (0, 2, 1, 3)), x.shape))

    found = diagnose(Attention)
    assert found.convention.choices == ("rotary-half",)
    assert found.ids == ("scale-missing",)


def test_bottom_right_causal_is_a_choice():
    def attention(q, k, v, causal=False):
        logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        if causal:
            rows, columns = logits.shape[-2:]
            logits = np.where(np.tril(np.ones((rows, columns), bool), columns - rows), logits, -1e9)
        return _softmax(logits) @ v

    found = diagnose(attention)
    assert (found.verdict, found.convention.choices) == ("right", ("causal-bottom-right",))


@pytest.mark.parametrize("heads", [4, 6])
def test_the_slopes_of_linear_biases(heads):
    """For 6 heads, the code of the paper takes the slopes of 4, and every other one of 8."""
    four, eight = ([2 ** (-8 * (i + 1) / n) for i in range(n)] for n in (4, 8))
    assert slopes_of(heads, True) == pytest.approx([*four, *eight[::2]][:heads])
    assert slopes_of(heads, False) == pytest.approx([2 ** (-8 * (i + 1) / heads) for i in range(heads)])


@pytest.mark.parametrize("wrong", ["", "linear-biases-opposite", "linear-biases-from-one"])
def test_linear_biases_are_a_choice_and_have_mistakes(wrong):
    def alibi_attention(q, k, v):
        """q, k, v: (batch, heads, positions, size)"""
        heads, positions = q.shape[1:3]
        slopes = 2.0 ** (-8 * (np.arange(heads) + (wrong != "linear-biases-from-one")) / heads)
        far = np.arange(positions) - np.arange(positions)[:, None]
        bias = slopes[:, None, None] * far * (-1 if wrong == "linear-biases-opposite" else 1)
        logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
        logits = np.where(far > 0, -np.inf, logits)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    found = diagnose(alibi_attention)
    assert found.ids == ((wrong,) if wrong else ()), found
    assert found.convention.choices == ("linear-biases-geometric",)
