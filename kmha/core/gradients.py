"""The derivative of a function on the backend that Keras computes with."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from kmha.core.tensors import Tensor


def gradients(function: Callable[[list[Tensor]], Tensor], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the derivatives of a scalar with respect to each array.

    Args:
        function: Function of a list of tensors that returns a scalar tensor.
        arrays: Values of the tensors.

    >>> [derivative] = gradients(lambda tensors: ops.sum(tensors[0] ** 2), [np.array([1.0, 2.0])])
    >>> derivative.tolist()
    [2.0, 4.0]
    """
    tensors = [
        ops.convert_to_tensor(array, array.dtype.name) for array in arrays
    ]  # torch would turn float64 into float32
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(tensors)
            value = function(tensors)
        found = tape.gradient(value, tensors, unconnected_gradients="zero")
    elif backend == "jax":
        import jax

        found = jax.grad(function)(tensors)
    else:
        import torch

        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        with torch.enable_grad():
            found = torch.autograd.grad(function(tensors), tensors, allow_unused=True, materialize_grads=True)
    return [ops.convert_to_numpy(x) for x in found]
