import math

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK


def _same(part):
    """An encoder layer whose two parts are the same function of x, norm and sublayer."""
    return lambda p: part(part(p.x, p.norm, p.attention), p.last_norm, p.forward)


def _swapped(p):
    block1 = p.last_norm(p.x + p.attention(p.x))
    return p.norm(block1 + p.forward(block1))


POST = {
    "norm-before": _same(lambda x, norm, sublayer: x + sublayer(norm(x))),
    "norm-both": _same(lambda x, norm, sublayer: norm(x + sublayer(norm(x)))),
    "norm-never": _same(lambda x, norm, sublayer: x + sublayer(x)),
    "norm-inside-residual": _same(lambda x, norm, sublayer: x + norm(sublayer(x))),
    "norm-replaces-input": _same(lambda x, norm, sublayer: norm(x) + sublayer(norm(x))),
    "norm-twice": _same(lambda x, norm, sublayer: norm(norm(x + sublayer(x)))),
    "norm-last-twice": lambda p: p.last_norm(p.end(p.block1())),
    "norm-missing-attention": lambda p: p.end(p.x + p.attention(p.x)),
    "norm-missing-feed-forward": lambda p: p.block1() + p.forward(p.block1()),
    "norm-shared-1-last": lambda p: p.end(p.last_norm(p.x + p.attention(p.x))),
    "norm-shared-last-1": lambda p: p.norm(p.block1() + p.forward(p.block1())),
    "norm-swapped-1-last": _swapped,
}


@pytest.mark.parametrize("identity", POST)
def test_encoder_elementwise(make_parts, identity):
    parts = make_parts()
    np.testing.assert_allclose(parts.wrong(identity), POST[identity](parts), rtol=1e-9, atol=1e-9)


def test_post_norm_instead_of_pre_norm(make_parts):
    parts = make_parts(norm_first=True)
    expected = parts.end(parts.block1())
    np.testing.assert_allclose(parts.wrong("norm-after"), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "second", "last"),
    [
        ("norm-missing-cross", None, "layernorm3"),
        ("norm-shared-2-1", "layernorm1", "layernorm3"),
        ("norm-shared-2-last", "layernorm3", "layernorm3"),
        ("norm-shared-last-2", "layernorm2", "layernorm2"),
        ("norm-swapped-2-last", "layernorm3", "layernorm2"),
    ],
)
def test_decoder_elementwise(make_parts, identity, second, last):
    parts = make_parts("decoder")
    block1 = parts.block1()
    block2 = block1 + parts.attention(block1, parts.memory, 2)
    block2 = block2 if second is None else parts.norm(block2, second)
    expected = parts.norm(block2 + parts.forward(block2), last)
    np.testing.assert_allclose(parts.wrong(identity), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("identity", "norm_first"), [("norm-before", True), ("norm-after", False)])
def test_the_right_place_is_no_mistake(make_parts, identity, norm_first):
    with pytest.raises(ImpossibleError):
        run(make_parts(norm_first=norm_first).trial, [BANK[identity].changes])


X = np.random.default_rng(3).normal(2.0, 0.1, (2, 3, 5))
GAMMA, BETA = np.arange(1.0, 6.0), np.arange(5.0)
EPSILON = 1e-6


def _by_loops(x, axes, of, centre=True):
    """Normalize element by element; `of` computes the divisor from the deviations."""
    output = np.empty_like(x)
    for index in np.ndindex(x.shape):
        chosen = x[tuple(slice(None) if axis in axes else i for axis, i in enumerate(index))].ravel()
        mean = math.fsum(chosen) / len(chosen)
        divisor = of([value - mean for value in chosen], chosen)
        output[index] = (x[index] - mean * centre) / divisor * GAMMA[index[2]] + BETA[index[2]]
    return output


def _root(epsilon=EPSILON, less=0):
    return lambda deviations, _: math.sqrt(sum(d * d for d in deviations) / (len(deviations) - less) + epsilon)


def _squares(values):
    return sum(value * value for value in values)


CASES = {
    "norm-over-time": ((1,), _root()),
    "norm-over-batch": ((0,), _root()),
    "norm-over-time-and-features": ((1, 2), _root()),
    "norm-over-batch-and-time": ((0, 1), _root()),
    "norm-over-everything": ((0, 1, 2), _root()),
    "norm-epsilon-1e-3": ((2,), _root(1e-3)),
    "norm-epsilon-1e-5": ((2,), _root(1e-5)),
    "norm-epsilon-1e-7": ((2,), _root(1e-7)),
    "norm-epsilon-1e-8": ((2,), _root(1e-8)),
    "norm-epsilon-1e-12": ((2,), _root(1e-12)),
    "norm-epsilon-0": ((2,), _root(0.0)),
    "norm-epsilon-outside": ((2,), lambda d, _: math.sqrt(_squares(d) / 5) + EPSILON),
    "norm-without-root": ((2,), lambda d, _: _squares(d) / 5 + EPSILON),
    "norm-squared": ((2,), lambda d, _: (_squares(d) / 5 + EPSILON) ** 2),
    "norm-not-divided": ((2,), lambda d, _: 1.0),
    "norm-multiplied": ((2,), lambda d, _: 1 / math.sqrt(_squares(d) / 5 + EPSILON)),
    # The variance's factor n / (n - 1), the epsilon as it was.
    "norm-unbiased": ((2,), _root(less=1)),
    "norm-variance-summed": ((2,), lambda d, _: math.sqrt(_squares(d) + EPSILON)),
    "norm-variance-around-zero": ((2,), lambda _, x: math.sqrt(_squares(x) / 5 + EPSILON)),
    "norm-mean-squared": ((2,), lambda _, x: math.sqrt((sum(x) / 5) ** 2 + EPSILON)),
    "norm-not-centred": ((2,), _root(), False),
    "norm-root-mean-square": ((2,), lambda _, x: math.sqrt(_squares(x) / 5 + EPSILON), False),
    "norm-moving-statistics": ((2,), lambda d, _: math.sqrt(1 + EPSILON), False),
}


def _normalize(trial, identity, x=X):
    return run(trial, [BANK[identity].changes])["normalize"](x, GAMMA, BETA)


@pytest.mark.parametrize("identity", CASES)
def test_formula_elementwise(make_parts, identity):
    np.testing.assert_allclose(_normalize(make_parts().trial, identity), _by_loops(X, *CASES[identity]), rtol=1e-9)


NORMAL = _by_loops(X, (2,), _root()) / GAMMA - BETA / GAMMA


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ("norm-gain-missing", NORMAL + BETA),
        ("norm-bias-missing", NORMAL * GAMMA),
        ("norm-affine-twice", (NORMAL * GAMMA + BETA) * GAMMA + BETA),
        ("norm-bias-first", (NORMAL + BETA) * GAMMA),
        ("norm-gain-from-one", NORMAL * GAMMA + NORMAL + BETA),
        ("norm-gain-bias-swapped", NORMAL * BETA + GAMMA),
        ("norm-gain-divides", NORMAL / GAMMA + BETA),
    ],
)
def test_gain_and_bias(make_parts, identity, expected):
    np.testing.assert_allclose(_normalize(make_parts().trial, identity), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("identity", "epsilon"), [("norm-epsilon-1e-3", 1e-3), ("norm-epsilon-1e-6", 1e-6)])
def test_the_right_epsilon_is_no_mistake(make_parts, identity, epsilon):
    with pytest.raises(ImpossibleError):
        run(make_parts(epsilon=epsilon).trial, [BANK[identity].changes])


def test_two_mistakes_of_the_formula_are_made_together(make_parts):
    """The Annotated Transformer has both: the unbiased deviation, and the epsilon outside the root."""
    changes = [BANK[identity].changes for identity in ("norm-unbiased", "norm-epsilon-outside")]
    actual = run(make_parts().trial, changes)["normalize"](X, GAMMA, BETA)
    expected = (X - X.mean(-1, keepdims=True)) / (X.std(-1, keepdims=True, ddof=1) + EPSILON) * GAMMA + BETA
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
