import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.diagnosing.trials import RATE
from kmha.verify.mistakes import BANK, dropout

# What the scores that are kept are multiplied by in training.
FACTORS = {
    "dropout-without-rescaling": 1,
    "dropout-rescaled-by-rate": 1 / RATE,
    "dropout-times-rate": RATE,
    "dropout-times-share": 1 - RATE,
    "dropout-twice": 1 / (1 - RATE) / (1 - RATE),
    "dropout-rescaled-at-inference": 1,
}


def _right(p):
    return p.end(p.scores() * p.trial.kept)


@pytest.fixture
def training(make_plain):
    p = make_plain("dropout, training")
    assert 0 < (p.trial.kept > 0).mean() < 1
    p.kept = np.where(p.trial.kept > 0, 1, 0)
    return p


@pytest.mark.parametrize("identity", FACTORS)
def test_factors(training, identity):
    training.check(identity, training.end(training.scores() * training.kept * FACTORS[identity]))


def test_never(training):
    training.check("dropout-never", training.end(training.scores()))


def test_rows_that_sum_to_one(training):
    some = training.kept.any(-1)[..., None]
    with np.errstate(invalid="ignore"):
        scores = np.where(some, training.soft(training.logits(), training.kept > 0), 0)
    for identity in ("dropout-then-normalised", "dropout-as-mask"):
        training.check(identity, training.end(scores))
    training.check("dropout-then-normalised", training.scores(), "returned")
    training.check("dropout-as-mask", scores, "returned")


def test_on_logits(training):
    logits = training.logits() * training.kept / (1 - RATE)
    training.check("dropout-on-logits", training.end(training.soft(logits)))


def test_on_mixed(training):
    mixed = training.mix(training.scores()) * training.kept[..., : training.O] / (1 - RATE)
    training.check("dropout-on-mixed", training.merge(mixed))
    few = dataclasses.replace(training.trial, kept=training.trial.kept[..., :1])
    with pytest.raises(ImpossibleError):
        run(few, [BANK["dropout-on-mixed"].changes])


def test_at_inference(make_plain):
    p = make_plain("dropout, not training")
    kept = p.trial.more["kept"]
    assert (kept == 0).any()
    p.check("dropout-at-inference", p.end(p.scores() * kept))
    p.check("dropout-rescaled-at-inference", p.end(p.scores() * (1 - RATE)))
    right = p.end(p.scores())
    for identity in (*FACTORS, "dropout-never", "dropout-on-logits", "dropout-on-mixed", "dropout-then-normalised"):
        if identity != "dropout-rescaled-at-inference":
            p.check(identity, right)


def test_at_inference_is_right_in_training(training):
    training.check("dropout-at-inference", _right(training))


@pytest.mark.parametrize("name", ["mask", "dropout, training"])
def test_returned(make_plain, name):
    p = make_plain(name)
    scores = p.scores()
    kept = 1 if p.trial.kept is None else p.trial.kept
    everything = np.ones(1, bool)
    expected = {
        "returned-dropped": scores * kept,
        "returned-logits": p.logits(),
        "returned-masked-logits": np.where(p.allowed, p.logits(), -np.inf),
        "returned-products": p.products(),
        "returned-unmasked": p.soft(p.logits(), everything),
        "returned-transposed": np.einsum("bhts->bhst", scores),
        "returned-averaged": sum(scores[:, h] for h in range(p.H)) / p.H,
        "returned-first-head": np.stack([scores[:, 0]] * p.H, axis=1),
    }
    for identity, array in expected.items():
        finite = np.isfinite(array)
        np.testing.assert_array_equal(np.isfinite(p.wrong(identity, "returned")), finite)
        np.testing.assert_allclose(p.wrong(identity, "returned")[finite], array[finite], rtol=1e-9, atol=1e-9)
        p.check(identity, p.end(scores * kept))


def test_all(ids_in):
    dropped = "at-inference never then-normalised as-mask on-logits on-mixed"
    returned = "dropped logits masked-logits products unmasked transposed averaged first-head"
    assert ids_in(dropout) == {
        *FACTORS,
        *(f"dropout-{name}" for name in dropped.split()),
        *(f"returned-{name}" for name in returned.split()),
    }
