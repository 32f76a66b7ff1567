import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import LayoutError, canonical, join_heads, split_heads
from kmha.verify.tolerance import is_close

B, T, H, I, O, E = 2, 5, 3, 7, 4, 11


def _softmax(x):
    exponents = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def test_split_and_join_undo_each_other():
    rng = np.random.default_rng(0)
    for shape, axis in (((I, H * O), -1), ((I, H * O), 1), ((H * O, E), 0), ((H * O,), 0)):
        kernel = rng.normal(size=shape)
        heads = split_heads(kernel, H, axis)
        assert len(heads) == H
        assert np.array_equal(join_heads(heads, axis), kernel)


@pytest.mark.tensorflow  # where float64 is float64 throughout
def test_h_projections_and_one_are_the_same_object():
    """Attention head by head, with h small kernels, is what our layer computes with the one big kernel."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, T, I))
    big = {role: rng.normal(size=(I, H * O)) for role in ("query", "key", "value")}
    output = rng.normal(size=(H * O, E))
    small = {role: split_heads(kernel, H) for role, kernel in big.items()}
    expected = 0
    for head, block in enumerate(split_heads(output, H, axis=0)):
        query, key, value = (x @ small[role][head] for role in ("query", "key", "value"))
        scores = _softmax(query @ key.swapaxes(1, 2) / np.sqrt(O))
        expected = expected + scores @ value @ block
    layer = kmha.MultiHeadAttention(H, O, use_bias=False, output_shape=E, dtype="float64")
    layer.build(x.shape, x.shape)
    kernels = {f"{role}/kernel": np.stack(heads) for role, heads in small.items()}
    canonical.write(layer, kernels | {"attention_output/kernel": np.stack(split_heads(output, H, axis=0))})
    assert is_close(keras.ops.convert_to_numpy(layer(x, x)), expected, "float64")


@pytest.mark.parametrize(
    ("shape", "heads", "axis"), [((I, H * O), 5, -1), ((I, H * O), 0, -1), ((I, H * O), H, 0), ((I, H * O), H, 2)]
)
def test_an_axis_that_holds_no_heads(shape, heads, axis):
    with pytest.raises(LayoutError, match=r"`num_heads` divides. Received: kernel\.shape=\(7, 12\)"):
        split_heads(np.ones(shape), heads, axis)


@pytest.mark.parametrize("kernels", [[], [np.ones((I, O)), np.ones((I, O + 1))]])
def test_kernels_that_cannot_be_joined(kernels):
    with pytest.raises(LayoutError, match="all of one shape"):
        join_heads(kernels)
