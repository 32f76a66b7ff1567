"""Habits of public packages that made right layers look wrong, or kept them from being read."""

import pytest

from kmha.verify import diagnose


@pytest.mark.parametrize("shifted", [False, True])
def test_a_decoder_inside_another_module(candidate, shifted):
    decoder, inside = (candidate("torch_habits", name) for name in ("Decoder", "Inside"))
    found = diagnose(inside(decoder(12, 3, 20, shifted)))
    assert found.right, found
    assert found.candidate.chain == "decoder"


@pytest.mark.parametrize("name", ["SelfAttention", "MaskOfHeads", "FloatMask", "CrossAttention"])
def test_a_right_layer(candidate, name):
    found = diagnose(candidate("torch_habits", name)(12, 3))
    assert found.right, found


def test_a_memory_that_is_never_read_is_a_mistake_under_another_name(candidate):
    found = diagnose(candidate("torch_habits", "OtherAttention")(12, 3))
    assert found.ids in (("context-ignored",), ("inputs-all-query",)), found


def test_a_function_that_calls_an_object(candidate):
    module, calling = (candidate("torch_habits", name) for name in ("ScaledDotProduct", "calling"))
    found = diagnose(calling(module()))
    assert found.right, found
