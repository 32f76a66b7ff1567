import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical, convert
from kmha.layers import addons
from kmha.verify.tolerance import is_close

# Other backends compute attention in float32 here and there, whatever the dtype.
pytestmark = pytest.mark.tensorflow

B, T, S, H, O, E = 2, 5, 7, 3, 4, 11
I, J, K = 8, 6, 9


def _inputs():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in ((B, T, I), (B, S, J), (B, S, K))]


@pytest.mark.parametrize("bias", [True, False])
def test_addons_and_ours_give_the_same(round_trip, bias):
    query, key, value = _inputs()
    options = {"use_projection_bias": bias, "bias_initializer": "random_normal", "dtype": "float64"}
    theirs = addons.MultiHeadAttention(O, H, E, **options)
    expected = keras.ops.convert_to_numpy(theirs([query, key, value]))
    weights = canonical.read(theirs)
    round_trip(weights, "addons")
    ours = kmha.MultiHeadAttention(H, O, output_shape=E, use_bias=bias, dtype="float64")
    ours.build(query.shape, value.shape, key.shape)
    converted = convert(weights, "addons", "ours")
    assert len(converted.notes) == (3 if bias else 0)  # the biases that Addons does not have
    canonical.write(ours, converted)
    assert is_close(keras.ops.convert_to_numpy(ours(query, value, key)), expected, "float64")


def test_the_built_ins_biases_fold_into_addons():
    query, key, value = _inputs()
    theirs = keras.layers.MultiHeadAttention(H, O, output_shape=E, bias_initializer="random_normal", dtype="float64")
    theirs.build(query.shape, value.shape, key.shape)
    canonical.write(theirs, canonical.read(theirs) | {"query/bias": np.zeros((H, O))})
    expected = keras.ops.convert_to_numpy(theirs(query, value, key))
    layer = addons.MultiHeadAttention(O, H, E, dtype="float64")
    layer([query, key, value])
    canonical.write(layer, convert(canonical.read(theirs), "keras", "addons", fold=True))
    assert is_close(keras.ops.convert_to_numpy(layer([query, key, value])), expected, "float64")
