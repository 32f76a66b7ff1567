"""Layers with seldom used names: a right one of each is right, and its mistake is named."""

import pytest

from kmha.verify import diagnose

LAYERS = [
    ("Decoder", "no residual", "residual-missing-cross"),
    ("Folded", "axis", "softmax-over-queries"),
]


@pytest.mark.parametrize("name", [name for name, *_ in LAYERS])
def test_a_right_layer_is_right(candidate, name):
    found = diagnose(candidate("torch_seldom_named", name))
    assert (found.verdict, found.errors) == ("right", {}), found


@pytest.mark.parametrize(("name", "wrong", "mistake"), LAYERS)
def test_a_mistake_is_named(candidate, name, wrong, mistake):
    found = diagnose(candidate("torch_seldom_named", name), arguments={"wrong": wrong})
    assert found.ids == (mistake,), found
