import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.trials import RATE, Accepts, draw, draw_sizes

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
LITTLE = Accepts(cross=False, mask=False)
SEEDS = range(6)


def _named(seed, accepts, **options):
    return {trial.name: trial for trial in draw(seed, accepts, **options)}


def test_who_is_who():
    for trial in draw(1, LITTLE):
        assert trial.key is trial.query
        assert trial.value is trial.query
    for trial in draw(1, dataclasses.replace(EVERYTHING, value=False)):
        assert trial.value is trial.key
    cross = _named(1, EVERYTHING)["cross-attention"]
    assert cross.query.shape[1] < cross.key.shape[1] == cross.value.shape[1]
    assert not np.array_equal(cross.key, cross.value)


@pytest.mark.parametrize("heads", [True, False])
def test_the_core_has_heads_and_no_weights(heads):
    sizes = draw_sizes(np.random.default_rng(0), EVERYTHING)
    for trial in draw(0, dataclasses.replace(EVERYTHING, heads=heads), sizes, core=True):
        assert trial.core
        assert trial.query.ndim == 4
        if "dropout" not in trial.name:
            assert trial.query.shape[1] == (sizes.heads if heads else 1)


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_masks_separate(seed, core):
    named = _named(seed, EVERYTHING, core=core)
    for name in ("mask", "mask, equal lengths", "mask and padding", "causal and mask"):
        trial = named[name]
        assert trial.mask.any(-1).all(), name
        assert not (trial.mask == trial.mask[:1]).all(), name
        assert not (trial.mask == trial.mask[:, :1]).all(), name
    same = named["mask, the same for all items"].mask
    assert (same == same[:1]).all()
    assert named["mask with rows of nothing"].empty_rows().any()
    assert not named["mask"].empty_rows().any()
    # In each item some key is hidden from all, some row is not the whole.
    assert not named["mask, equal lengths"].mask.any(1).all(-1).any()
    assert len(named["mask, as many items as heads"].query) == run(named["mask"])["scores"].shape[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_padding_separates(seed):
    named = _named(seed, EVERYTHING)
    trial = named["padding"]
    lengths = trial.key_mask.sum(1)
    assert (trial.key_mask == (np.arange(trial.key.shape[1]) < lengths[:, None])).all()
    assert lengths[1] == trial.key.shape[1] > lengths[0] > lengths.min() > 0
    equal = named["padding, equal lengths"]
    assert equal.key_mask.shape == equal.query_mask.shape
    assert not (equal.key_mask == equal.query_mask).all()
    alone = named["padding, self-attention"]
    assert alone.query_mask is alone.key_mask
    some = named["padding, as many queries as items"]
    assert some.query.shape[0] == some.query.shape[1]
    assert named["padding, as many items as heads"].query.shape[0] == trial.weights["query/kernel"].shape[0]


@pytest.mark.parametrize("core", [True, False])
def test_zeros(core):
    named = _named(0, EVERYTHING, core=core)
    trial = named["mask, some logits zero"]
    zero = run(trial)["logits"] == 0
    assert zero[:, :, :, 1].all()
    assert zero[:, :, -1].all()
    assert not zero[:, :, :-1, 2:].any()
    assert trial.mask[:, :, 1].all()
    other = named["mask, a key zero"]
    assert (other.key[..., 1, :] == 0).all()
    assert core or not (run(other)["logits"] == 0).any()


def test_dropout():
    named = _named(0, EVERYTHING)
    training, not_training = named["dropout, training"], named["dropout, not training"]
    assert (training.training, training.rate, training.kept) == (True, RATE, None)
    assert (not_training.training, not_training.rate) == (False, RATE)
    # What is kept is found by trying all of 2^S.
    assert training.key.shape[1] <= 5
    assert training.weights["query/kernel"].shape[0] == 1
    assert {trial.rate for name, trial in named.items() if "dropout" not in name} == {0}
