import numpy as np
import pytest

from kmha.verify.chains.attention import Trial, run
from kmha.verify.mistakes import BANK, causal

# Whether t may attend to s.
MAY = {
    "causal-missing": lambda p, t, s: True,
    "causal-strict": lambda p, t, s: s < t,
    "causal-one-ahead": lambda p, t, s: s <= t + 1,
    "causal-reversed": lambda p, t, s: s >= t,
    "causal-inverted": lambda p, t, s: s > t,
    "causal-wrong-corner": lambda p, t, s: s - p.S <= t - p.T,
    "causal-itself-only": lambda p, t, s: s == t,
}


@pytest.mark.parametrize("name", ["causal", "causal, T < S", "causal, T > S", "causal and mask", "causal and padding"])
@pytest.mark.parametrize("identity", MAY)
def test_who_may_attend_to_whom(make_plain, identity, name):
    p = make_plain(name)
    allowed = np.array([[MAY[identity](p, t, s) for s in range(p.S)] for t in range(p.T)])[None, None]
    if p.trial.mask is not None:
        allowed = allowed & p.mask
    if p.trial.key_mask is not None:
        allowed = allowed & p.padding
    some = np.broadcast_to(allowed.any(-1), (p.B, p.H, p.T))
    with np.errstate(invalid="ignore"):
        expected = p.soft(p.logits(), np.broadcast_to(allowed, (p.B, 1, p.T, p.S)))
    np.testing.assert_allclose(p.wrong(identity, "scores")[some], expected[some], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(p.wrong(identity, "scores")[~some], 0)


def test_always(make_plain):
    p = make_plain("mask")
    p.check("causal-always", p.attend(allowed=p.mask & p.past))


def test_zeroes(make_plain):
    p = make_plain("causal and mask")
    p.check("causal-zeroes-logits", p.end(p.soft(p.logits() * p.past, p.mask)))
    p.check("causal-after-softmax", p.end(p.soft(p.logits(), p.mask) * p.past))


def test_where_no_causal_mask_is_asked_for(make_plain, ids_in):
    p = make_plain("mask")
    for identity in ids_in(causal) - {"causal-always"}:
        p.check(identity, p.end(p.scores()))


def test_all(ids_in):
    assert ids_in(causal) == {*MAY, "causal-always", "causal-zeroes-logits", "causal-after-softmax"}


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (5, 3)])
def test_a_mask_that_is_aligned_at_the_bottom_right(rows, columns):
    """The diagonal of the mask is then that of the last query and the last key."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 2, rows, 4)), rng.normal(size=(2, 2, columns, 4))
    trial = Trial("causal", query, key, key, causal=True, more={"corner": "bottom right"})
    allowed = np.tri(rows, columns, columns - rows + 1, dtype=bool)
    np.testing.assert_array_equal(run(trial, [BANK["causal-one-ahead"].changes])["allowed"][0, 0], allowed)
