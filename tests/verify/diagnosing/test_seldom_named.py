"""Layers with seldom used names: a right one of each is right, and its mistake is named."""

import pytest

from kmha.verify import diagnose

LAYERS = [
    ("Decoder", "no residual", "residual-missing-cross"),
    ("Folded", "axis", "softmax-over-queries"),
    ("Capped", "not scaled", "scale-missing"),
    ("Recommender", "masked late", "mask-after-softmax"),
    ("Reader", "multiplied", "scale-multiplied"),
    ("Waves", "doubled", "positions-exponent-doubled"),
]


@pytest.mark.parametrize("name", [name for name, *_ in LAYERS])
def test_a_right_layer_is_right(candidate, name):
    found = diagnose(candidate("torch_seldom_named", name))
    assert (found.verdict, found.errors) == ("right", {}), found


@pytest.mark.parametrize(("name", "wrong", "mistake"), LAYERS)
def test_a_mistake_is_named(candidate, name, wrong, mistake):
    found = diagnose(candidate("torch_seldom_named", name), arguments={"wrong": wrong})
    assert found.ids == (mistake,), found


@pytest.mark.parametrize("name", ["Configured", "Cosine", "apply_rotary", "placed"])
def test_another_right_thing_is_right(candidate, name):
    found = diagnose(candidate("torch_seldom_named", name))
    assert (found.verdict, found.errors) == ("right", {}), found


def test_a_soft_cap_is_not_tested(candidate):
    found = diagnose(candidate("torch_seldom_named", "Capped"))
    untested = [each["says"] for each in found.to_dict()["untested"]]
    assert "the soft cap of the logits (kmha made `logit_cap` large)" in untested


def test_a_memory_that_is_a_mask_needs_no_role(candidate):
    found = diagnose(candidate("torch_seldom_named", "Recommender"))
    assert found.candidate.roles["mask"] == "history"
