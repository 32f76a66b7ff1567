import numpy as np
import pytest

from kmha.verify.probing.baseline import Baseline, keep_positions, keep_tokens, shortened
from kmha.verify.probing.calls import Callee
from kmha.verify.probing.inputs import CannotTry
from kmha.verify.probing.reading import read

TOLERANCE = 1e-5


@pytest.fixture
def baseline(x):
    """The identity."""
    thing = lambda x: x  # noqa: E731
    rng = np.random.default_rng(0)
    return Baseline(Callee(thing), read(thing, (x,), {}, None, None, rng), TOLERANCE, rng)


def test_effect(baseline, x):
    changed = x.copy()
    changed[1, 4, 2] += 0.5
    effect = baseline.effect({"output": changed}, baseline.base)
    assert abs(effect.size - 0.5 / np.abs(x).max()) < 1e-6
    assert effect.where == "output[1, 4]"
    kept = np.ones(x.shape[:2], bool)
    kept[1, 4] = False
    assert baseline.effect({"output": changed}, baseline.base, lambda _: kept).size == 0
    assert baseline.effect({"output": changed}, baseline.base, lambda _: None).size == 0


def test_effect_of_another_shape_or_nan(baseline, x):
    assert baseline.effect({"output": x[:, :4]}, baseline.base).size == np.inf
    changed = x.copy()
    changed[0, 0, 0] = np.nan
    assert baseline.effect({"output": changed}, baseline.base).size == np.inf
    assert baseline.effect({"output": changed}, {"output": changed}).size == 0


def test_positions(baseline, tokens, x):
    inputs = baseline.inputs.carrying([0])
    inputs.carried[0][:] = tokens
    np.testing.assert_array_equal(keep_tokens(inputs)(x), tokens)
    assert keep_tokens(inputs)(x[:, 0]).all()
    np.testing.assert_array_equal(keep_positions(inputs, lambda t: t < 5)(x), tokens & (np.arange(7) < 5))
    assert keep_positions(inputs, lambda t: t < 5)(x[:, 0]) is None


@pytest.mark.parametrize("error", [CannotTry("too short"), ValueError("too short")])
def test_errors_become_reasons(baseline, error):
    def attempt():
        raise error

    row = baseline.row("padding", attempt, expected=None)
    assert (row.holds, row.effect, row.expected) == (None, None, None)
    assert row.where.endswith("too short")


def test_shortened():
    assert shortened("a\n  b") == "a b"
    assert len(shortened("word " * 100)) == 160
