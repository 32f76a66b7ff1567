import numpy as np
import pytest

from kmha.verify.mistakes import precision

OTHER = ("cross-attention", "mask", "large numbers", "mask with rows of nothing", "mask and padding")


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
    """What numbers do: (1 - mask) · -1e9 in float16."""
    p = make_plain(name)
    hidden = 1 - np.broadcast_to(p.allowed, (p.B, p.H, p.T, p.S)).astype("float16")
    with np.errstate(all="ignore"):
        added = hidden * np.float16(-1e9)
        logits = p.logits() + added
        powers = np.exp(logits - logits.max(-1)[..., None])
    np.testing.assert_array_equal(np.isnan(p.wrong("half-mask-times-infinity", "scores")), np.isnan(powers))
    assert np.isnan(powers).all()


def test_rows_of_nothing(make_plain):
    p = make_plain("float16, mask with rows of nothing")
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
def test_other_dtypes_are_right(make_plain, ids_in, name):
    p = make_plain(name)
    for identity in ids_in(precision):
        assert np.isfinite(p.wrong(identity)).all()
        with np.errstate(invalid="ignore"):
            some = p.allowed.any(-1)[:, 0].repeat(p.T // p.allowed.shape[2], 1)
            np.testing.assert_allclose(p.wrong(identity)[some], p.end(p.scores())[some], rtol=1e-9, atol=1e-9)


def test_all(ids_in):
    names = "logits-overflow mask-times-infinity mask-infinite mask-twice"
    assert ids_in(precision) == {f"half-{name}" for name in names.split()}
