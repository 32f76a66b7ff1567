import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK, mask_choice

EVERYTHING = np.ones((1, 1, 1, 1), bool)
# By trial, who may attend to whom; other trials of the table are right.
ALLOWED = {
    "mask-missing": dict.fromkeys(("mask", "causal", "padding", "mask and padding"), lambda p: EVERYTHING),
    "mask-inverted": {"mask": lambda p: ~p.mask, "mask and padding": lambda p: ~(p.mask & p.padding)},
    "masks-either": {
        "mask and padding": lambda p: p.mask | p.padding,
        "causal and mask": lambda p: p.mask | p.past,
        "causal and padding": lambda p: p.padding | p.past,
    },
    "mask-argument-ignored": {
        "mask": lambda p: EVERYTHING,
        "mask and padding": lambda p: p.padding,
        "causal and mask": lambda p: p.past,
    },
    "padding-ignored": {
        "padding": lambda p: EVERYTHING,
        "mask and padding": lambda p: p.mask,
        "causal and padding": lambda p: p.past,
    },
    "causal-replaces-others": {"causal and mask": lambda p: p.past, "causal and padding": lambda p: p.past},
    "mask-replaces-padding": {"mask and padding": lambda p: p.mask},
    "mask-replaces-causal": {"causal and mask": lambda p: p.mask},
    "padding-replaces-mask": {"mask and padding": lambda p: p.padding},
    "padding-replaces-causal": {"causal and padding": lambda p: p.padding},
    "padding-inverted": {"padding": lambda p: ~p.padding, "mask and padding": lambda p: p.mask & ~p.padding},
    "padding-of-query-for-keys": {"padding, equal lengths": lambda p: p.trial.query_mask[:, None, None]},
    "padding-on-queries": {"padding, equal lengths": lambda p: p.trial.key_mask[:, None, :, None]},
}


def _some(p, allowed):
    """Compare the scores in rows with and without something to attend to."""
    allowed = np.broadcast_to(allowed, (p.B, allowed.shape[1], p.T, p.S))
    some = np.broadcast_to(allowed.any(-1), (p.B, p.H, p.T))
    with np.errstate(invalid="ignore"):
        return p.soft(p.logits(), allowed), some


@pytest.mark.parametrize(("identity", "name"), [(one, name) for one in ALLOWED for name in ALLOWED[one]])
def test_who_may_attend_to_whom(make_plain, identity, name):
    p = make_plain(name)
    expected, some = _some(p, ALLOWED[identity][name](p))
    np.testing.assert_allclose(p.wrong(identity, "scores")[some], expected[some], rtol=1e-9, atol=1e-12)
    assert np.abs(p.wrong(identity, "scores")[some] - p.scores()[some]).max() > 1e-3


@pytest.mark.parametrize(
    "identity", ["masks-either", "mask-replaces-causal", "padding-replaces-mask", "causal-replaces-others"]
)
@pytest.mark.parametrize("name", ["cross-attention", "mask", "causal", "padding"])
def test_one_mask_alone_is_right(make_plain, identity, name):
    p = make_plain(name)
    p.check(identity, p.end(p.scores()))


def test_without_a_mask_all_are_right(make_plain, ids_in):
    p = make_plain("cross-attention")
    for identity in ids_in(mask_choice):
        p.check(identity, p.end(p.scores()))


def test_the_query_s_padding_must_fit_the_keys(make_plain):
    with pytest.raises(ImpossibleError, match="padding"):
        make_plain("padding").wrong("padding-of-query-for-keys")


def test_the_fill_shows_in_rows_with_nothing_to_attend_to(make_plain):
    """Code that hides with a large number instead of -∞ attends to everything equally there."""
    p = make_plain("padding, equal lengths")
    filled = run(dataclasses.replace(p.trial, fill=-1e9), [BANK["padding-on-queries"].changes])["scores"]
    hidden = ~p.trial.key_mask
    np.testing.assert_allclose(np.moveaxis(filled, 1, 2)[hidden], 1 / p.S, rtol=1e-12)


def test_all(ids_in):
    assert ids_in(mask_choice) == {*ALLOWED}
