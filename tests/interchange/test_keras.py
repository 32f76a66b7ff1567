import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical
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
