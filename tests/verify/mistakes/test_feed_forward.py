import math

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK


def _relu(x):
    return np.maximum(x, 0)


def _with(activation):
    return lambda p, h: p.last_norm(h + p.dense(activation(p.dense(h, 1)), 2))


def _kernel(parts, number):
    return parts.weights[f"ffn/dense{number}/kernel"]


def _bias(parts, number):
    return parts.weights[f"ffn/dense{number}/bias"]


def _normal_share(x):
    """The share of a normal distribution that is below x."""
    return np.array([(1 + math.erf(value / math.sqrt(2))) / 2 for value in x.ravel()]).reshape(x.shape)


CASES = {
    "feed-forward-activation-missing": _with(lambda x: x),
    "feed-forward-activation-tanh": _with(np.tanh),
    "feed-forward-activation-sigmoid": _with(lambda x: 1 / (1 + np.exp(-x))),
    "feed-forward-activation-silu": _with(lambda x: x / (1 + np.exp(-x))),
    "feed-forward-activation-gelu": _with(lambda x: x * _normal_share(x)),
    "feed-forward-activation-gelu-tanh": _with(
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "feed-forward-activation-after-second": lambda p, h: p.last_norm(h + _relu(p.dense(p.dense(h, 1), 2))),
    "feed-forward-activation-after-both": lambda p, h: p.last_norm(h + _relu(p.forward(h))),
    "feed-forward-activation-on-residual": lambda p, h: p.last_norm(_relu(h + p.forward(h))),
    "feed-forward-activation-at-end": lambda p, h: _relu(p.end(h)),
    "feed-forward-activation-before-first": lambda p, h: p.last_norm(h + p.forward(_relu(h))),
    "feed-forward-bias1-missing": lambda p, h: p.last_norm(h + p.dense(_relu(h @ _kernel(p, 1)), 2)),
    "feed-forward-bias2-missing": lambda p, h: p.last_norm(h + p.forward(h) - _bias(p, 2)),
    "feed-forward-bias1-after-activation": lambda p, h: p.last_norm(
        h + p.dense(_relu(h @ _kernel(p, 1)) + _bias(p, 1), 2)
    ),
    "feed-forward-twice": lambda p, h: p.last_norm(h + p.forward(p.forward(h))),
    "feed-forward-second-tied": lambda p, h: p.last_norm(h + _relu(p.dense(h, 1)) @ _kernel(p, 1).T + _bias(p, 2)),
    "feed-forward-input-unnormed": lambda p, h: p.last_norm(h + p.forward(p.x + p.attention(p.x))),
    "feed-forward-input-of-block": lambda p, h: p.last_norm(h + p.forward(p.x)),
    "feed-forward-input-of-attention": lambda p, h: p.last_norm(h + p.forward(p.attention(p.x))),
}


@pytest.mark.parametrize("identity", CASES)
def test_elementwise(make_parts, identity):
    parts = make_parts()
    expected = CASES[identity](parts, parts.block1())
    np.testing.assert_allclose(parts.wrong(identity), expected, rtol=1e-9, atol=1e-9)


def test_input_of_block1_in_a_decoder(make_parts):
    parts = make_parts("decoder")
    block1 = parts.block1()
    block2 = parts.norm2(block1 + parts.attention(block1, parts.memory, 2))
    expected = parts.last_norm(block2 + parts.forward(block1))
    np.testing.assert_allclose(parts.wrong("feed-forward-input-of-block1"), expected, rtol=1e-9, atol=1e-9)


def test_relu_where_another_is_right(make_parts):
    parts = make_parts(activation="silu")
    expected = parts.end(parts.block1())
    np.testing.assert_allclose(parts.wrong("feed-forward-activation-relu"), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "settings"),
    [
        ("feed-forward-activation-relu", {}),
        ("feed-forward-activation-at-end", {"norm_first": True}),  # there it is the same as on the residual
        ("feed-forward-input-unnormed", {"norm_first": True}),
    ],
)
def test_impossible(make_parts, identity, settings):
    with pytest.raises(ImpossibleError):
        run(make_parts(**settings).trial, [BANK[identity].changes])
