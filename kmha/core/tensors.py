"""The `Tensor` type, conversion to it, and the dtype in which sums and exponentials are computed."""

from typing import Any, TypeAlias

import keras
from keras.src.backend import is_tensor  # `keras.ops.is_tensor` first looks whether the tensor is symbolic

# A tensor of the backend, or anything that `keras.ops` converts to one. Keras has no type that all backends share.
Tensor: TypeAlias = Any


def as_tensor(x: Any) -> Tensor:
    """Return the tensor of the backend that `x` is, holds as a Keras variable, or can be converted to.

    On torch, a tensor or a variable's value needs no conversion, which would take longer than a small product.
    """
    if keras.backend.backend() == "torch":
        x = x.value if isinstance(x, keras.Variable) else x
        if is_tensor(x):
            return x
    return keras.ops.convert_to_tensor(x)


def at_least_float32(dtype: Any) -> str:
    """Return the dtype in which to compute with tensors of `dtype`: float64 for float64, else float32.

    (`keras.backend.result_type(dtype, "float32")` returns float32 for float64 on JAX and torch.)

    >>> [at_least_float32(dtype) for dtype in ("float16", "float32", "float64")]
    ['float32', 'float32', 'float64']
    """
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"
