"""Layers whose names, flags and orders of weights are of other people: a right one of each, and with a mistake."""

import pytest

from kmha.verify import diagnose

LAYERS = [
    ("Scores", True, "scale-missing", set()),
    ("around", True, "scale-missing", set()),
    ("FromTo", False, "scale-missing", {"scores-dropped"}),
    ("decoder", True, "scale-missing", {"pre-norm"}),
    ("PositionalEncoding", False, "positions-sine-cosine-swapped", set()),
    ("LearnedPositions", True, "", {"scaled-vectors"}),
]


@pytest.mark.parametrize(("name", "made", "mistake", "choices"), LAYERS)
def test_a_right_layer_is_right(candidate, name, made, mistake, choices):
    found = diagnose(candidate("torch_named", name)() if made else candidate("torch_named", name))
    assert (found.verdict, found.errors) == ("right", {})
    assert {*found.convention.choices} == choices


@pytest.mark.parametrize(("name", "made", "mistake", "choices"), LAYERS)
def test_a_mistake_is_named(candidate, name, made, mistake, choices):
    thing = candidate("torch_named", name)
    found = diagnose(thing(wrong="not scaled")) if made else diagnose(thing, arguments={"wrong": "not scaled"})
    assert found.ids == ((mistake,) if mistake else ())
    assert not found.right


def test_a_layer_that_was_made_to_ignore_masks_gets_none(candidate):
    found = diagnose(candidate("torch_named", "around")())
    assert ("masks (its `mask_flag` is False)", True) in [
        (each["says"], each["important"]) for each in found.to_dict()["untested"]
    ]
