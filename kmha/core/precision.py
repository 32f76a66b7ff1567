"""The precision of sums and exponentials: float32 at least."""

from typing import Any

import keras


def at_least_float32(dtype: Any) -> str:
    """The dtype to compute with for tensors of a dtype that may be narrower.

    (`keras.backend.result_type(dtype, "float32")` would say float32 for float64 on JAX and torch.)

    >>> [at_least_float32(dtype) for dtype in ("float16", "float32", "float64")]
    ['float32', 'float32', 'float64']
    """
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"
