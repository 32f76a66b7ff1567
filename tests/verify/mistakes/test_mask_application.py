import numpy as np
import pytest

from kmha.verify.mistakes import mask_application


def _added(number):
    return lambda p: p.logits() + np.where(p.allowed, 0, number)


def _filled(number):
    return lambda p: np.where(p.allowed, p.logits(), number)


# The logits that go into a softmax over everything.
LOGITS = {
    "mask-added-ones": lambda p: p.logits() + p.allowed,
    "mask-added-opposite-ones": lambda p: p.logits() + ~p.allowed,
    "mask-zeroes-logits": lambda p: p.logits() * p.allowed,
    "mask-zeroes-allowed": lambda p: np.where(p.allowed, 0, p.logits()),
    "mask-adds-10": _added(-10),
    "mask-adds-100": _added(-100),
    "mask-adds-10000": _added(-1e4),
    "mask-fills-10": _filled(-10),
    "mask-fills-100": _filled(-100),
    "mask-fills-10000": _filled(-1e4),
    "mask-fills-large": _filled(1e9),
    "mask-adds-large": _added(1e9),
    "mask-fills-least": lambda p: np.where(p.allowed, p.logits(), min(p.logits().ravel())),
    "mask-multiplies-by-minus-1e9": lambda p: p.logits() * np.where(p.allowed, 1, -1e9),
}
EVERYTHING = np.ones(1, bool)


@pytest.mark.parametrize("name", ["mask", "padding", "large numbers, mask"])
@pytest.mark.parametrize("identity", LOGITS)
def test_logits(make_plain, identity, name):
    p = make_plain(name)
    p.check(identity, p.end(p.soft(LOGITS[identity](p), EVERYTHING)))


@pytest.mark.parametrize("identity", ["mask-adds-100", "mask-adds-10000", "mask-fills-100", "mask-fills-10000"])
def test_large_logits_leak(make_plain, identity):
    """With ordinary logits these constants are large enough."""
    for name, leaks in (("mask", False), ("large numbers, mask", True)):
        p = make_plain(name)
        assert (np.abs(p.wrong(identity) - p.end(p.scores())).max() > 0.1) == leaks


@pytest.mark.parametrize("identity", LOGITS)
def test_without_a_mask_it_is_right(make_plain, identity):
    p = make_plain("cross-attention")
    p.check(identity, p.end(p.scores()))


def test_zeros_are_taken_for_masked(make_plain):
    p = make_plain("mask, some logits zero")
    zero = p.logits() == 0
    assert zero.any(-1).any()
    some = (p.allowed & ~zero).any(-1)
    with np.errstate(invalid="ignore"):
        expected = p.soft(p.logits(), p.allowed & ~zero)
    found = p.wrong("mask-forbids-zeros", "scores")
    np.testing.assert_allclose(found[some], expected[some], rtol=1e-9)
    np.testing.assert_array_equal(found[~some], 0)


@pytest.mark.parametrize("core", [False, True])
def test_zero_keys_are_taken_for_padding(make_plain, core):
    p = make_plain("mask, a key zero", core)
    np.testing.assert_array_equal(p.y[..., 1, :], 0)
    real = np.arange(p.S) != 1
    p.check("mask-from-zero-keys", p.soft(p.logits(), p.allowed & real), "scores")


def test_after_the_softmax(make_plain):
    p = make_plain("mask")
    everything = p.soft(p.logits(), EVERYTHING)
    p.check("mask-after-softmax", p.end(np.where(p.allowed, everything, 0)))
    p.check("mask-adds-1e9-after-softmax", p.end(everything - 1e9 * ~p.allowed))


def test_renormalised(make_plain):
    """This is right unless every allowed score underflows."""
    p = make_plain("mask")
    p.check("mask-after-softmax-renormalised", p.end(p.scores()))
    p = make_plain("large numbers, mask")
    shares = p.soft(p.logits(), EVERYTHING) * p.allowed
    found, total = p.wrong("mask-after-softmax-renormalised", "scores"), shares.sum(-1)[..., None]
    assert (total == 0).any()
    some = np.broadcast_to(total > 0, found.shape)
    np.testing.assert_allclose(found[some], (shares / np.where(total > 0, total, 1))[some], rtol=1e-9)
    assert np.isnan(found[~some]).all()


def test_drowned(make_plain):
    p = make_plain("mask")
    p.check("mask-drowns-logits", p.end(np.broadcast_to(p.allowed / p.allowed.sum(-1)[..., None], p.scores().shape)))


def test_infinite(make_plain):
    p = make_plain("mask")
    found = p.wrong("mask-infinite-after-softmax", "scores")
    everything = p.soft(p.logits(), EVERYTHING)
    np.testing.assert_allclose(found, np.where(p.allowed, everything, np.inf), rtol=1e-9)


def test_a_row_of_nothing_is_nan(make_plain):
    p = make_plain("mask with fully masked rows")
    nothing = np.broadcast_to(~p.allowed.any(-1), (p.B, p.H, p.T))
    assert nothing.any()
    found = p.wrong("mask-empty-row-nan", "scores")
    np.testing.assert_array_equal(np.isnan(found).all(-1), nothing)
    with np.errstate(invalid="ignore"):
        right = p.scores()
    np.testing.assert_allclose(found[~nothing], right[~nothing], rtol=1e-9)
    assert not np.isnan(make_plain("mask").wrong("mask-empty-row-nan")).any()


def test_padding_is_set_to_zero(make_plain):
    p = make_plain("mask and padding")
    real = p.trial.key_mask[..., None]
    y, z = p.y * real, p.z * real
    k, v = p.project(y, "key"), p.project(z, "value")
    p.check("padding-zeroes-inputs", p.attend(k=k, v=v, allowed=p.mask))
    p.check("padding-zeroes-key", p.attend(k=p.k * real[..., None], allowed=p.mask))
    p.check("padding-zeroes-value", p.attend(v=p.v * real[..., None], allowed=p.mask))


def test_padding_is_set_to_zero_in_the_core(make_plain):
    p = make_plain("padding", core=True)
    real = p.trial.key_mask[:, :, None, None]
    scores = p.soft(p.logits(k=p.k * real), EVERYTHING)
    p.check("padding-zeroes-inputs", p.mix(scores, p.v * real))


HALF = ("half-logits-overflow", "half-mask-times-infinity", "half-mask-infinite", "half-mask-twice")
OTHER = ("cross-attention", "mask", "large numbers", "mask with fully masked rows", "mask and padding")


def _half(array):
    with np.errstate(over="ignore"):
        return array.astype("float16")


def test_logits_overflow(make_plain):
    p = make_plain("float16, large numbers")
    infinite = np.isinf(_half(p.products()))
    assert infinite.any()
    assert not np.isinf(_half(p.logits())).any()
    scores = p.wrong("half-logits-overflow", "scores")
    above = (infinite & (p.products() > 0)).any(-1)
    np.testing.assert_array_equal(np.isnan(scores).all(-1), above)
    np.testing.assert_array_equal(np.isnan(scores).any(-1), above)
    fine = ~infinite.any(-1)
    np.testing.assert_allclose(scores[fine], p.scores()[fine], rtol=1e-9)


@pytest.mark.parametrize("name", ["float16, mask", "float16, causal", "float16, padding"])
def test_the_mask_times_infinity(make_plain, name):
    """Compare with (1 - mask) · -1e9 computed in float16."""
    p = make_plain(name)
    hidden = 1 - np.broadcast_to(p.allowed, (p.B, p.H, p.T, p.S)).astype("float16")
    with np.errstate(all="ignore"):
        added = hidden * np.float16(-1e9)
        logits = p.logits() + added
        powers = np.exp(logits - logits.max(-1)[..., None])
    np.testing.assert_array_equal(np.isnan(p.wrong("half-mask-times-infinity", "scores")), np.isnan(powers))
    assert np.isnan(powers).all()


def test_rows_of_nothing(make_plain):
    p = make_plain("float16, mask with fully masked rows")
    nothing = np.broadcast_to(~p.allowed.any(-1), (p.B, p.H, p.T))
    scores = p.wrong("half-mask-infinite", "scores")
    np.testing.assert_array_equal(np.isnan(scores).all(-1), nothing)
    assert nothing.any()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(scores[~nothing], p.scores()[~nothing], rtol=1e-9)


def test_two_masks(make_plain):
    p = make_plain("float16, rows hidden by two masks")
    with np.errstate(all="ignore"):
        least = np.float16(-65504)
        added = _half(np.where(p.mask, 0, least)) + _half(np.where(p.padding, 0, least))
        both = np.broadcast_to(np.isinf(added).all(-1), (p.B, p.H, p.T))
        scores, right = p.wrong("half-mask-twice", "scores"), p.scores()
    np.testing.assert_array_equal(np.isnan(scores).any(-1), both)
    assert both.any()
    some = np.broadcast_to(p.allowed.any(-1), both.shape)
    np.testing.assert_allclose(scores[some], right[some], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OTHER)
def test_other_dtypes_are_right(make_plain, name):
    p = make_plain(name)
    for identity in HALF:
        assert np.isfinite(p.wrong(identity)).all()
        with np.errstate(invalid="ignore"):
            some = p.allowed.any(-1)[:, 0].repeat(p.T // p.allowed.shape[2], 1)
            np.testing.assert_allclose(p.wrong(identity)[some], p.end(p.scores())[some], rtol=1e-9, atol=1e-9)


def test_all(ids_in):
    others = "mask-forbids-zeros mask-from-zero-keys mask-after-softmax mask-adds-1e9-after-softmax mask-empty-row-nan"
    others += " mask-after-softmax-renormalised mask-after-softmax-renormalised-zeros mask-infinite-after-softmax"
    others += " mask-drowns-logits"
    padding = "padding-zeroes-inputs padding-zeroes-key padding-zeroes-value"
    assert ids_in(mask_application) == {*LOGITS, *others.split(), *padding.split(), *HALF}


def test_rows_whose_largest_logit_is_hidden_vanish(make_plain):
    p = make_plain("large numbers, mask")
    visible = np.where(p.allowed, p.logits(), -np.inf).max(-1)
    vanishing = (visible < p.logits().max(-1) - 750) & p.allowed.any(-1)
    zeros, nan = (p.wrong(f"mask-after-softmax-renormalised{ending}", "scores") for ending in ("-zeros", ""))
    assert vanishing.any()
    assert not vanishing.all()
    assert (zeros[vanishing] == 0).all()
    assert np.isnan(nan[vanishing]).all()
    near = visible > p.logits().max(-1) - 10
    for scores in (zeros, nan):
        np.testing.assert_allclose(scores[near], p.scores()[near])
