import re

import keras
import numpy as np
import pytest

import kmha
from kmha.verify.probing.sublayers import describe, find, layers_of, parameters_of, paths, wrapped


@pytest.fixture
def model():
    return kmha.layers.Transformer(2, 6, 3, 7, 11, 12, 20, 21)


def test_paths_are_unique(model):
    found = paths(model)
    names = [path for path, _ in found]
    assert len(set(names)) == len(names) == len(layers_of(model))
    assert {"", "encoder/layer1/mha", "decoder/layer2/mha2"} <= set(names)
    assert paths(len) == layers_of(len) == []


def test_find(model):
    layer = model.decoder.dec_layers[1].mha1
    assert find(model, "decoder/layer2/mha1") is find(model, "layer2/mha1") is find(model, layer) is layer


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mha", "'mha' is the name of 2 layers. Give more of the path: encoder/layer1/mha, encoder/layer2/mha"),
        ("ha", "has no layer 'ha'. Its layers are: encoder, "),
        (keras.layers.Dense(3, name="other"), "has no layer 'other'"),
    ],
)
def test_not_found(model, name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        find(model, name)


def test_wrapped():
    layer, seen = keras.layers.Dense(3), []
    x = keras.ops.ones((2, 4))
    expected = layer(x)

    def doubled(which, call, args, kwargs):
        seen.append(which)
        return 2 * call(*args, **kwargs)

    with wrapped([layer], doubled):
        assert keras.ops.all(keras.ops.equal(layer(x), 2 * expected))
    with pytest.raises(KeyError), wrapped([layer], doubled):
        raise KeyError
    assert keras.ops.all(keras.ops.equal(layer(x), expected))
    assert seen == [layer]
    assert "call" not in vars(layer)


def test_wrapped_keeps_a_call_of_the_instance():
    layer = keras.layers.Dense(3)
    vars(layer)["call"] = own = lambda x: x
    with wrapped([layer], lambda layer, call, args, kwargs: call(*args, **kwargs) + 1):
        assert float(layer.call(1)) == 2
    assert vars(layer)["call"] is own


def test_names():
    assert describe(np.cumsum) == "cumsum"
    assert list(parameters_of(lambda x, mask=None: None)) == ["x", "mask"]
    assert parameters_of(3) == {}
