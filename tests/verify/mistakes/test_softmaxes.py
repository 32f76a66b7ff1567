import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, Trial, run
from kmha.verify.mistakes import BANK, softmaxes

AXES = {
    "softmax-over-queries": (2,),
    "softmax-over-heads": (1,),
    "softmax-over-batch": (0,),
    "softmax-over-heads-and-batch": (0, 1),
    "softmax-over-batch-and-queries": (0, 2),
    "softmax-over-flattened": (2, 3),
    "softmax-over-heads-and-keys": (1, 3),
    "softmax-over-everything": (0, 1, 2, 3),
}


def _over_sum(array):
    return array / array.sum(-1)[..., None]


def _sigmoid(logits):
    return np.exp(logits) / (np.exp(logits) + 1)


def _second(p, allowed):
    return _over_sum(np.exp(p.scores()) * allowed)


def _hard(p):
    largest = np.where(p.allowed, p.logits(), -1e9).argmax(-1)
    return np.arange(p.S) == largest[..., None]


def _hidden_alone(p):
    hidden = np.broadcast_to(~p.allowed, p.logits().shape)
    count = hidden.sum(-1, keepdims=True)
    return np.where(count > 0, hidden / np.maximum(count, 1), p.soft(-p.logits()))


def _one_more(p):
    powers = np.exp(p.logits()) * p.allowed
    return powers / (1 + powers.sum(-1)[..., None])


def _sum_over_queries(p):
    largest = np.where(p.allowed, p.logits(), -np.inf).max(-1)
    powers = np.exp(p.logits() - largest[..., None]) * p.allowed
    with np.errstate(invalid="ignore"):  # nobody attends to some keys
        return powers / powers.sum(-2)[..., None, :]


# The scores.
SCORES = {
    "softmax-sum-over-queries": _sum_over_queries,
    "softmax-missing": lambda p: p.logits() * p.allowed,
    "softmax-missing-masked": lambda p: np.where(p.allowed, p.logits(), -1e9),
    "softmax-twice": lambda p: _second(p, p.allowed),
    "softmax-twice-unmasked": lambda p: _second(p, 1),
    "softmax-of-opposite": lambda p: p.soft(-p.logits()),
    "softmax-of-opposite-masked": _hidden_alone,
    "softmax-sigmoid": lambda p: _sigmoid(p.logits()) * p.allowed,
    "softmax-sigmoid-normalised": lambda p: _over_sum(_sigmoid(p.logits()) * p.allowed),
    "softmax-not-normalised": lambda p: np.exp(p.logits()) * p.allowed,
    "softmax-without-exponential": lambda p: _over_sum(p.logits() * p.allowed),
    "softmax-divided-by-keys": lambda p: p.logits() * p.allowed / p.S,
    "softmax-hard": _hard,
    "softmax-base-two": lambda p: _over_sum(2.0 ** p.logits() * p.allowed),
    "softmax-one-more": _one_more,
    "softmax-overflow": lambda p: p.scores(),
    "softmax-largest-of-all": lambda p: p.scores(),
}


@pytest.mark.parametrize("identity", AXES)
def test_axes(make_plain, identity):
    p = make_plain("cross-attention")
    powers = np.exp(p.logits())
    scores = powers / powers.sum(AXES[identity], keepdims=True)
    p.check(identity, scores, "scores")
    p.check(identity, p.end(scores))


@pytest.mark.parametrize("name", ["cross-attention", "mask"])
@pytest.mark.parametrize("identity", SCORES)
def test_scores(make_plain, identity, name):
    p = make_plain(name)
    p.check(identity, SCORES[identity](p), "scores")
    p.check(identity, p.end(SCORES[identity](p)))


def test_logarithm(make_plain):
    """log_softmax subtracts, so that the logarithm of a tiny score is finite."""
    p = make_plain("cross-attention")
    p.check("softmax-logarithm", np.log(p.scores()), "scores")
    large = make_plain("large numbers")
    assert (large.scores() == 0).any()
    found = large.wrong("softmax-logarithm", "scores")
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], large.logits()[0] - large.logits()[0].max(-1)[..., None], atol=1e-6)


def test_keepdims():
    """Without keepdims, (B, H, T, S) and (B, H, T) only broadcast with equal sizes or sizes of 1."""
    rng = np.random.default_rng(0)
    trial = Trial("square", *(rng.normal(size=(1, 3, 3, 5)) for _ in range(3)))
    logits = run(trial)["scaled"]
    expected = {}
    for identity, powers in (
        ("softmax-unshifted-sum-without-keepdims", np.exp(logits)),
        ("softmax-sum-without-keepdims", np.exp(logits - logits.max(-1)[..., None])),
        # The row maxima are (1, H, T), and meet (H, T, S) as if they were of heads and keys.
        ("softmax-without-keepdims", np.exp(logits - logits.max(-1)[0][None, None])),
    ):
        expected[identity] = powers / powers.sum(-1)[0][None, None]
    wide = dataclasses.replace(trial, key=trial.key[:, :, :2], value=trial.value[:, :, :2])
    for identity, scores in expected.items():
        np.testing.assert_allclose(run(trial, [BANK[identity].changes])["scores"], scores)
        with pytest.raises(ImpossibleError):
            run(wide, [BANK[identity].changes])


def test_rectified(make_plain):
    p = make_plain("mask")
    positive = np.where(p.allowed & (p.logits() > 0), p.logits(), 0)
    total = positive.sum(-1)[..., None]
    assert (total == 0).any()  # such a row attends to nothing
    p.check("softmax-rectified", positive / np.where(total > 0, total, 1), "scores")


def test_overflow_and_underflow(make_plain):
    """The first item's logits are tens of thousands; those of the second are around one."""
    p = make_plain("large numbers")
    overflow, underflow = (p.wrong(identity, "scores") for identity in ("softmax-overflow", "softmax-largest-of-all"))
    too_large = p.logits() > 710
    np.testing.assert_array_equal(np.isnan(overflow), too_large)
    np.testing.assert_array_equal(np.isnan(underflow).any(-1), p.logits().max(-1) < p.logits().max() - 750)
    assert too_large[0].any()
    assert not too_large[1].any()
    assert np.isnan(underflow[1]).all()


def test_columns_of_nothing_are_nan(make_plain):
    p = make_plain("padding")
    hidden = ~p.trial.key_mask
    assert hidden.any()
    found = p.wrong("softmax-over-queries", "scores")
    np.testing.assert_array_equal(np.isnan(found), np.broadcast_to(hidden[:, None, None], found.shape))


def test_all(ids_in):
    assert ids_in(softmaxes) == {
        *AXES,
        *SCORES,
        "softmax-logarithm",
        "softmax-rectified",
        "softmax-sum-without-keepdims",
        "softmax-unshifted-sum-without-keepdims",
        "softmax-without-keepdims",
    }
