"""Masks that code cannot do without, names that say what a mask does, and arguments whose names tell nothing."""

import importlib

import pytest

from kmha.verify import diagnose

CANDIDATES = importlib.import_module("tests.verify.candidates.named_masks")


@pytest.mark.parametrize(
    "name",
    [
        "HeadsInTheBatch",
        "OfHidden",
        "with_visible",
        "with_ignored",
        "OfFeatures",
        "of_lengths",
        "heads_in_the_middle",
        "Compiled",
        "OfSegments",
    ],
)
def test_right(name):
    assert diagnose(getattr(CANDIDATES, name)).verdict == "right"


@pytest.mark.parametrize(
    ("name", "arguments", "id"),
    [
        ("HeadsInTheBatch", {"wrong": "repeat"}, "mask-repeated"),
        ("OfHidden", {"wrong": "inverted"}, "padding-inverted"),
        ("of_lengths", {"axis": 2}, "padding-on-queries"),
        ("Compiled", {"axis": 2}, "softmax-over-queries"),
    ],
)
def test_wrong(name, arguments, id):
    assert diagnose(getattr(CANDIDATES, name), arguments=arguments).ids == (id,)


def test_an_unknown_argument_is_said_to_be_left_out():
    found = diagnose(CANDIDATES.OfHidden)
    says = "`umbrella` (kmha does not know, and left out)"
    assert {"says": says, "important": False} in found.to_dict()["untested"]


def test_a_mask_that_makes_more_positions_is_of_another_shape():
    found = diagnose(CANDIDATES.of_two_mistakes)
    assert sorted(found.ids) == ["padding-inverted", "scale-without-root"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("with_unknown", "`regenschirm` is taken for its mask."), ("cross", "`sonnenblume` is taken for its memory.")],
)
def test_a_required_argument_whose_name_tells_nothing(name, says):
    found = diagnose(getattr(CANDIDATES, name))
    assert found.verdict == "right"
    assert says in found.further


def test_a_block_that_takes_ids_is_not_said_to_raise_errors():
    with pytest.raises(ValueError, match="takes token ids"):
        diagnose(CANDIDATES.OfIds)
