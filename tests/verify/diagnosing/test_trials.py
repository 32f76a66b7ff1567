import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.trials import RATE, Accepts, Sizes, draw, draw_sizes, draw_weights

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
LITTLE = Accepts(cross=False, mask=False)
SEEDS = range(6)


def _named(seed, accepts, **options):
    return {trial.name: trial for trial in draw(seed, accepts, **options)}


def test_the_same_seed_gives_the_same():
    for one, other in zip(draw(3, EVERYTHING), draw(3, EVERYTHING), strict=True):
        np.testing.assert_array_equal(one.query, other.query)
        np.testing.assert_array_equal(one.value, other.value)
    assert not np.array_equal(draw(3, LITTLE)[0].query, draw(4, LITTLE)[0].query)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("mask", ("mask",)),
        ("causal", ("causal", "T < S")),
        ("padding", ("padding",)),
        ("training", ("dropout",)),
        ("half", ("float16",)),
        ("cross", ("cross", "T < S")),
    ],
)
def test_no_trials_beyond_what_is_accepted(flag, words):
    with_it = _named(1, EVERYTHING)
    without = _named(1, dataclasses.replace(EVERYTHING, **{flag: False}))
    for word in words:
        assert any(word in name for name in with_it)
        # A causal mask may still be passed as a mask.
        assert not any(word in name for name in without if name != "causal mask, as a mask")


@pytest.mark.parametrize(("flag", "of"), [("mask", "mask"), ("causal", "causal"), ("padding", "key_mask")])
def test_a_trial_has_only_what_is_accepted(flag, of):
    for trial in draw(2, dataclasses.replace(EVERYTHING, **{flag: False})):
        assert getattr(trial, of) is None or getattr(trial, of) is False
    assert any(getattr(trial, of) is not None and getattr(trial, of) is not False for trial in draw(2, EVERYTHING))


def test_given_weights_are_kept():
    sizes = Sizes(2, 5, 7, 3, 13, 13, 4, 17)
    held = draw_weights(np.random.default_rng(9), sizes)
    for trial in draw(0, EVERYTHING, sizes, held):
        assert trial.weights.keys() == held.keys()
        assert all(np.array_equal(trial.weights[name], held[name]) for name in held)


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_are_pairwise_different(seed):
    sizes = draw_sizes(np.random.default_rng(seed), EVERYTHING)
    numbers = [sizes.batch, sizes.rows, sizes.columns, sizes.heads, sizes.features, sizes.size, sizes.width]
    assert len({*numbers, sizes.heads * sizes.size}) == 8
    assert sizes.features == sizes.key_features
    assert sizes.features % sizes.heads == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_wide_sizes(seed):
    sizes = draw_sizes(np.random.default_rng(seed), dataclasses.replace(EVERYTHING, wide=True))
    assert sizes.features == sizes.key_features == sizes.width == sizes.heads * sizes.size


def test_weights_are_canonical():
    sizes = Sizes(2, 5, 7, 3, 13, 11, 4, 17)
    shapes = {name: array.shape for name, array in draw_weights(np.random.default_rng(0), sizes).items()}
    assert shapes == {
        "query/kernel": (3, 13, 4),
        "query/bias": (3, 4),
        "key/kernel": (3, 11, 4),
        "key/bias": (3, 4),
        "value/kernel": (3, 11, 4),
        "value/bias": (3, 4),
        "attention_output/kernel": (3, 4, 17),
        "attention_output/bias": (17,),
    }
    plain = draw_weights(np.random.default_rng(0), dataclasses.replace(sizes, use_bias=False))
    assert {name for name in plain if name.endswith("bias")} == set()


def test_identity_of_query_key_and_value():
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
def test_masks_tell_mistakes_apart(seed, core):
    named = _named(seed, EVERYTHING, core=core)
    for name in ("mask", "mask, equal lengths", "mask and padding", "causal and mask"):
        trial = named[name]
        assert trial.mask.any(-1).all(), name
        assert not (trial.mask == trial.mask[:1]).all(), name
        assert not (trial.mask == trial.mask[:, :1]).all(), name
    same = named["mask, the same for all items"].mask
    assert (same == same[:1]).all()
    assert named["mask with fully masked rows"].empty_rows().any()
    assert not named["mask"].empty_rows().any()
    # In each item some key is hidden from all, some row is not the whole.
    assert not named["mask, equal lengths"].mask.any(1).all(-1).any()
    assert len(named["mask, as many items as heads"].query) == run(named["mask"])["scores"].shape[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_padding_tells_mistakes_apart(seed):
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
    # The diagnosis tries all 2^S draws.
    assert training.key.shape[1] <= 5
    assert training.weights["query/kernel"].shape[0] == 1
    assert {trial.rate for name, trial in named.items() if "dropout" not in name} == {0}


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_large_logits_are_not_close(seed, cross, core):
    """Rounding of the logits must not decide a softmax."""
    named = _named(seed, dataclasses.replace(EVERYTHING, cross=cross), core=core)
    for name, items, distance in (
        ("large numbers", 1, 10),
        ("large numbers, mask", 2, 10),
        ("float16, large numbers", 2, 300),
    ):
        state = run(named[name])
        logits = np.where(state["allowed"], state["scaled"], -np.inf)[:items]
        two = np.sort(logits, axis=-1)[..., -2:]
        assert (two[..., 1] - two[..., 0] > distance).all(), name
    assert np.abs(run(named["large numbers"])["scaled"][0]).max() > 1e4
    assert np.abs(run(named["large numbers"])["scaled"][1]).max() < 100


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_float16_overflows_before_it_is_scaled(seed, core):
    named = _named(seed, EVERYTHING, core=core)
    for trial in named.values():
        assert (trial.dtype == "float16") == trial.name.startswith("float16")
        if trial.dtype == "float16":
            for array in (trial.query, trial.key, trial.value):
                np.testing.assert_array_equal(array.astype("float16"), array)
    state = run(named["float16, large numbers"])
    assert state["logits"].max() > 65520
    assert np.abs(state["scaled"]).max() < 65504
    two = named["float16, rows hidden by two masks"]
    assert (~two.mask & ~two.key_mask[:, None]).all(-1).any()
