"""The precision of sums and exponentials: float32 at least."""

from typing import Any

import keras


def at_least_float32(x: Any) -> str:
    """The dtype to compute with for a tensor of a dtype that may be narrower.

    (`keras.backend.result_type(dtype, "float32")` would say float32 for float64 on JAX and torch.)

    >>> import numpy as np
    >>> [at_least_float32(np.zeros(1, dtype)) for dtype in ("float16", "float32", "float64")]
    ['float32', 'float32', 'float64']
    """
    return "float64" if keras.backend.standardize_dtype(x.dtype) == "float64" else "float32"
