import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import LayoutError, canonical, convert
from kmha.interchange import keras as keras_layout
from kmha.verify.tolerance import is_close

B, T, S, H, I, J, K, O, V = 2, 3, 5, 7, 6, 8, 9, 4, 10


# With dropout, for JAX' fused kernel, which the built-in would take without it, fails on a value_dim of its own.
@pytest.mark.parametrize(
    "arguments",
    [{}, {"use_gate": True, "value_dim": V, "dropout": 0.1}, {"use_bias": False}, {"output_shape": (11, 3)}],
)
def test_both_ways_between_built_in_and_ours(arguments):
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype("float32") for shape in ((B, T, I), (B, S, J), (B, S, K))]
    theirs = keras.layers.MultiHeadAttention(H, O, bias_initializer="random_normal", **arguments)
    ours = kmha.MultiHeadAttention(H, O, **arguments)
    back = keras.layers.MultiHeadAttention(H, O, **arguments)
    expected = keras.ops.convert_to_numpy(theirs(*inputs))
    for layer in (ours, back):
        layer(*inputs)
    canonical.write(ours, keras_layout.from_builtin(canonical.read(theirs)))
    canonical.write(back, keras_layout.to_builtin(canonical.read(ours)))
    assert is_close(keras.ops.convert_to_numpy(ours(*inputs)), expected, "float32")
    for name, array in canonical.read(theirs).items():
        assert np.array_equal(array, canonical.read(back)[name]), name


@pytest.mark.parametrize("arguments", [{}, {"use_gate": True, "value_dim": V}, {"use_bias": False}])
def test_round_trips_of_the_built_in(round_trip, arguments):
    theirs = keras.layers.MultiHeadAttention(H, O, bias_initializer="random_normal", **arguments)
    theirs.build((B, T, I), (B, S, K), (B, S, J))
    weights = canonical.read(theirs)
    middle = round_trip(weights, "keras")
    assert np.array_equal(middle["key/kernel"][2], weights["key/kernel"][:, 2])


@pytest.mark.tensorflow  # where float64 is float64 throughout
@pytest.mark.parametrize("bias", [True, False])
def test_grouped_heads_repeated_give_the_same_output(round_trip, bias):
    groups, heads = 2, 6
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=shape) for shape in ((B, T, I), (B, S, J), (B, S, K)))
    options = {"use_bias": bias, "bias_initializer": "random_normal", "dtype": "float64"}
    theirs = keras.layers.GroupQueryAttention(O, heads, groups, **options)
    expected = keras.ops.convert_to_numpy(theirs(query, value, key))
    weights = canonical.read(theirs)
    assert round_trip(weights, "keras-grouped")["key/kernel"].shape == (groups, J, O)
    ours = kmha.MultiHeadAttention(heads, O, use_bias=bias, dtype="float64")
    ours.build(query.shape, value.shape, key.shape)
    canonical.write(ours, convert(weights, "keras-grouped", "ours", fold=True))
    assert is_close(keras.ops.convert_to_numpy(ours(query, value, key)), expected, "float64")


@pytest.mark.tensorflow  # where float64 is float64 throughout
def test_ours_as_grouped_with_a_head_for_each():
    theirs = keras.layers.GroupQueryAttention(O, H, H, dtype="float64")
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=shape) for shape in ((B, T, I), (B, S, J), (B, S, K)))
    ours = kmha.MultiHeadAttention(H, O, output_shape=I, dtype="float64")
    expected = keras.ops.convert_to_numpy(ours(query, value, key))
    theirs(query, value, key)
    canonical.write(theirs, convert(canonical.read(ours), "ours", "keras-grouped"))
    assert is_close(keras.ops.convert_to_numpy(theirs(query, value, key)), expected, "float64")


def test_a_shape_that_is_not_the_built_ins(random_weights):
    with pytest.raises(
        LayoutError, match=r"These weights do not have the layout `keras`: `key/kernel` has the shape \(3, 5, 4\)"
    ):
        keras_layout.from_builtin(random_weights(h=3, i=8))
