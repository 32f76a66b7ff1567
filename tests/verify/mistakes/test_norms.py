import math

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK

X = np.random.default_rng(3).normal(2.0, 0.1, (2, 3, 5))
GAMMA, BETA = np.arange(1.0, 6.0), np.arange(5.0)
EPSILON = 1e-6


def _by_loops(x, axes, of, centre=True):
    """Each element from all that it is normalized with: `of` its deviations gives what it is divided by."""
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
def test_an_epsilon_that_is_right_is_no_mistake(make_parts, identity, epsilon):
    with pytest.raises(ImpossibleError):
        run(make_parts(epsilon=epsilon).trial, [BANK[identity].changes])


def test_two_mistakes_of_the_formula_are_made_together(make_parts):
    """As in the Annotated Transformer: the unbiased deviation, and the epsilon outside of the root."""
    changes = [BANK[identity].changes for identity in ("norm-unbiased", "norm-epsilon-outside")]
    actual = run(make_parts().trial, changes)["normalize"](X, GAMMA, BETA)
    expected = (X - X.mean(-1, keepdims=True)) / (X.std(-1, keepdims=True, ddof=1) + EPSILON) * GAMMA + BETA
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
