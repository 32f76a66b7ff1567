import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical

T, S, H, I, J, O = 3, 5, 7, 6, 8, 4


def _layer(**arguments):
    layer = kmha.MultiHeadAttention(H, O, **arguments)
    layer.build((None, T, I), (None, S, J))
    return layer


def test_read_names_what_the_table_says():
    assert {name: array.shape for name, array in canonical.read(_layer(use_gate=True)).items()} == {
        "query/kernel": (H, I, O),
        "query/bias": (H, O),
        "key/kernel": (H, J, O),
        "key/bias": (H, O),
        "gate/kernel": (H, I, O),
        "gate/bias": (H, O),
        "value/kernel": (H, J, O),
        "value/bias": (H, O),
        "attention_output/kernel": (H, O, I),
        "attention_output/bias": (I,),
    }


def test_write_then_read_gives_the_same():
    layer = _layer(dropout=0.1)
    weights = {name: np.random.default_rng(0).normal(size=array.shape) for name, array in canonical.read(layer).items()}
    canonical.write(layer, weights)
    for name, array in canonical.read(layer).items():
        assert np.array_equal(array, weights[name].astype("float32"))


@pytest.mark.parametrize("name", ["query/bias", "attention_output/kernel"])
def test_a_missing_weight(name):
    layer = _layer()
    weights = canonical.read(layer)
    del weights[name]
    with pytest.raises(ValueError, match=f"`{name}` is missing from the weights"):
        canonical.write(layer, weights)


def test_an_unknown_weight():
    layer = _layer(use_bias=False)
    with pytest.raises(ValueError, match=r"`gate/kernel` is not a weight of the layer"):
        canonical.write(layer, {**canonical.read(layer), "gate/kernel": np.ones((H, I, O))})


def test_a_wrong_shape_writes_nothing():
    layer = _layer()
    before = canonical.read(layer)
    weights = {name: array + 1 for name, array in before.items()}
    weights["value/kernel"] = weights["value/kernel"].swapaxes(0, 1)
    with pytest.raises(ValueError, match=r"`value/kernel` must have the shape \(7, 8, 4\)\. Received: \(8, 7, 4\)"):
        canonical.write(layer, weights)
    for name, array in canonical.read(layer).items():
        assert np.array_equal(array, before[name])


def test_an_unbuilt_layer():
    with pytest.raises(ValueError, match="no weights yet"):
        canonical.read(kmha.MultiHeadAttention(H, O))


def test_inside_a_model_the_names_are_the_same():
    inputs = keras.Input((T, I))
    layer = kmha.MultiHeadAttention(H, O)
    keras.Model(inputs, layer(inputs, inputs), name="model")
    assert "query/kernel" in canonical.read(layer)
