import math

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.mistakes import BANK

PADDED = "ids, padded"


def _made(identity, name=PADDED, seed=7):
    """Return the result with the mistake, the embedding alone, and the ids."""
    trial = next(trial for trial in draw_block(seed, BlockAccepts("embedding")) if trial.name == name)
    table, ids = trial.weights["embedding/embeddings"], trial.more["ids"]
    return run(trial, [BANK[identity].changes])["output"], table[ids] * math.sqrt(table.shape[1]), ids


def _added(embedded, of, ids):
    """Return the embedding plus `of(b, t, i, odd, d)`: item, position, pair, whether the feature is odd, and width."""
    result = embedded.copy()
    for b, t, j in np.ndindex(embedded.shape):
        result[b, t, j] += of(b=b, t=t, i=j // 2, odd=j % 2, j=j, d=embedded.shape[2], ids=ids)
    return result


def _wave(angle, odd):
    return math.cos(angle) if odd else math.sin(angle)


def _exponent(of, base=10000.0):
    return lambda t, odd, **k: _wave(t / base ** of(odd=odd, **k), odd)


def _place(of):
    return lambda i, odd, d, **k: _wave(of(**k) / 10000 ** (2 * i / d), odd)


def _angle(of):
    return lambda t, i, d, **k: of(t / 10000 ** (2 * i / d), **k)


def _halves(first, second):
    def of(t, j, d, **_):
        half = d // 2
        return (first if j < half else second)(t / 10000 ** (2 * (j % half) / d))

    return of


CASES = {
    "positions-missing": lambda **_: 0.0,
    "positions-twice": _angle(lambda angle, odd, **_: 2 * _wave(angle, odd)),
    "positions-subtracted": _angle(lambda angle, odd, **_: -_wave(angle, odd)),
    "positions-sine-cosine-swapped": _angle(lambda angle, odd, **_: _wave(angle, not odd)),
    "positions-sines-only": _angle(lambda angle, **_: math.sin(angle)),
    "positions-cosines-only": _angle(lambda angle, **_: math.cos(angle)),
    "positions-angles-only": _angle(lambda angle, **_: angle),
    "positions-cosine-negative": _angle(lambda angle, odd, **_: -math.cos(angle) if odd else math.sin(angle)),
    "positions-degrees": _angle(lambda angle, odd, **_: _wave(angle / 180 * math.pi, odd)),
    "positions-halves": _halves(math.sin, math.cos),
    "positions-halves-cosine-first": _halves(math.cos, math.sin),
    "positions-exponent-per-feature": _exponent(lambda j, d, **_: j / d),
    "positions-exponent-doubled-per-feature": _exponent(lambda j, d, **_: 2 * j / d),
    "positions-exponent-doubled": _exponent(lambda i, d, **_: 4 * i / d),
    "positions-exponent-halved": _exponent(lambda i, d, **_: 2 * i / d, base=100.0),
    "positions-exponent-cosine-next": _exponent(lambda i, odd, d, **_: 2 * (i + odd) / d),
    "positions-exponent-from-one": _exponent(lambda i, d, **_: 2 * (i + 1) / d),
    "positions-exponent-width-minus-one": _exponent(lambda i, d, **_: 2 * i / (d - 1)),
    "positions-exponent-steps-minus-one": _exponent(lambda i, d, **_: i / (d // 2 - 1)),
    "positions-exponent-positive": _exponent(lambda i, d, **_: -2 * i / d),
    "positions-exponent-missing": _exponent(lambda **_: 1.0),
    "positions-exponent-reversed": _exponent(lambda i, d, **_: (d - 2 - 2 * i) / d),
    "positions-exponent-rounded": lambda t, i, odd, **_: _wave(t * math.exp(-2 * i), odd),
    "positions-base-1000": _exponent(lambda i, d, **_: 2 * i / d, base=1000.0),
    "positions-base-100000": _exponent(lambda i, d, **_: 2 * i / d, base=100000.0),
    "positions-from-one": _place(lambda t, **_: t + 1),
    "positions-reversed": _place(lambda t, ids, **_: ids.shape[1] - 1 - t),
    "positions-over-batch": _place(lambda b, **_: b),
    "positions-one-for-all": _place(lambda ids, **_: ids.shape[1]),
    "positions-first-for-all": _place(lambda **_: 0),
    "positions-fraction": _place(lambda t, ids, **_: t / ids.shape[1]),
    "positions-of-ids": _place(lambda b, t, ids, **_: ids[b, t]),
    "positions-not-at-padding": lambda b, t, i, odd, d, ids, **_: (
        _wave(t / 10000 ** (2 * i / d), odd) if ids[b, t] else 0.0
    ),
}


@pytest.mark.parametrize("identity", CASES)
def test_elementwise(identity):
    actual, embedded, ids = _made(identity)
    np.testing.assert_allclose(actual, _added(embedded, CASES[identity], ids), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "of"),
    [("positions-multiplied", lambda embedded, waves: embedded * waves), ("positions-alone", lambda _, waves: waves)],
)
def test_not_added(identity, of):
    actual, embedded, ids = _made(identity)
    waves = _added(embedded * 0, _angle(lambda angle, odd, **_: _wave(angle, odd)), ids)
    np.testing.assert_allclose(actual, of(embedded, waves), rtol=1e-9, atol=1e-9)
