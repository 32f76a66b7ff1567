"""The dtype of sums: float32 at least, and float64 for float64."""

import pytest
from keras import ops

from kmha.core.tensors import at_least_float32
from kmha.verify.comparing.running import WIDEST


@pytest.mark.parametrize(("dtype", "wide"), [("bfloat16", "float32"), ("float16", "float32"), ("float32", "float32")])
def test_narrow_dtypes_are_widened(dtype, wide):
    assert at_least_float32(ops.zeros((2,), dtype=dtype).dtype) == wide


def test_the_widest_stays():
    import keras

    wide = WIDEST[keras.backend.backend()]
    assert at_least_float32(ops.zeros((2,), dtype=wide).dtype) == wide
