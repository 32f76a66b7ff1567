"""Layers whose weights are in tensors of a package's own, as packages for learning have them."""

import pytest

from kmha.verify import diagnose


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["Tensor", "Slotted", "Passing"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("groups", [0, 1])
def test_attention(candidate, kind, turned, groups):
    attention, kind = (candidate("numpy_tensors", name) for name in ("Attention", kind))
    found = diagnose(attention(12, 3, turned, groups, kind))
    assert found.right, found
    found = diagnose(attention(12, 3, turned, groups, kind, scaled=False))
    assert found.ids == ("scale-missing",), found


def test_encoder(candidate):
    encoder, wrapper = (candidate("numpy_tensors", name) for name in ("Encoder", "Wrapper"))
    assert diagnose(encoder(12, 3, 20)).right
    assert diagnose(wrapper(encoder(12, 3, 20))).right
    assert diagnose(encoder(12, 3, 20, residual=False)).ids == ("residual-missing-feed-forward",)


def test_a_function_around_a_layer(candidate):
    attention, encoder, around = (candidate("numpy_tensors", name) for name in ("Attention", "Encoder", "around"))
    assert diagnose(around(attention(12, 3))).right
    assert diagnose(around(attention(12, 3, scaled=False))).ids == ("scale-missing",)
    assert diagnose(around(encoder(12, 3, 20))).right
    layer = attention(12, 3)
    before = layer.q_proj.weights.data.copy()
    diagnose(around(layer))
    assert (layer.q_proj.weights.data == before).all()


def test_a_function_around_weights(candidate):
    of_weights = candidate("numpy_tensors", "of_weights")
    assert diagnose(of_weights()).right
    assert diagnose(of_weights(scaled=False)).ids == ("scale-missing",)
