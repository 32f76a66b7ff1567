import dataclasses

import numpy as np
import pytest

from kmha.verify.diagnosing.trials import Accepts, Sizes, draw, draw_weights

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
def test_nothing_is_tried_that_is_not_accepted(flag, words):
    with_it = _named(1, EVERYTHING)
    without = _named(1, dataclasses.replace(EVERYTHING, **{flag: False}))
    for word in words:
        assert any(word in name for name in with_it)
        # A causal mask may still come as a mask.
        assert not any(word in name for name in without if name != "causal mask, as a mask")


@pytest.mark.parametrize(("flag", "of"), [("mask", "mask"), ("causal", "causal"), ("padding", "key_mask")])
def test_a_trial_has_only_what_is_accepted(flag, of):
    for trial in draw(2, dataclasses.replace(EVERYTHING, **{flag: False})):
        assert getattr(trial, of) is None or getattr(trial, of) is False
    assert any(getattr(trial, of) is not None and getattr(trial, of) is not False for trial in draw(2, EVERYTHING))


def test_weights_that_are_held_stay():
    sizes = Sizes(2, 5, 7, 3, 13, 13, 4, 17)
    held = draw_weights(np.random.default_rng(9), sizes)
    for trial in draw(0, EVERYTHING, sizes, held):
        assert trial.weights.keys() == held.keys()
        assert all(np.array_equal(trial.weights[name], held[name]) for name in held)
