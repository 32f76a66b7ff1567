"""The `Tensor` type, and the dtype in which sums and exponentials are computed."""

from typing import Any, TypeAlias

import keras

# A tensor of the backend, or anything that `keras.ops` converts to one. Keras has no type that all backends share.
Tensor: TypeAlias = Any


def at_least_float32(dtype: Any) -> str:
    """Return the dtype in which to compute with tensors of `dtype`: float64 for float64, else float32.

    (`keras.backend.result_type(dtype, "float32")` returns float32 for float64 on JAX and torch.)

    >>> [at_least_float32(dtype) for dtype in ("float16", "float32", "float64")]
    ['float32', 'float32', 'float64']
    """
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"
