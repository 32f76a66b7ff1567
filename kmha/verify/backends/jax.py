"""Forward and backward passes in JAX: eager, or compiled (`jax.jit`)."""

from typing import Any

import jax
import keras
import numpy as np


def run(layer: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs, and the gradients of inputs and weights. See `comparing.running.BuiltLayer.run`."""
    variables = [weight.variable for weight in layer.weights]
    frozen = [(variable, variable.value) for variable in layer.layer.non_trainable_variables]

    def loss(tensors: Any, values: Any) -> Any:
        state = [*zip(variables, values, strict=True), *frozen]
        # `stateless_call` would skip the masks that tensors carry, which `__call__` handles.
        with keras.StatelessScope(state_mapping=state):
            outputs = layer.call(tensors)
        return layer.loss(outputs, upstream), outputs

    step = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    inputs = [jax.numpy.asarray(x) for x in layer.arrays()]
    values = [variable.value for variable in variables]
    (_, outputs), gradients = (step if mode == "eager" else jax.jit(step))(inputs, values)
    return [_array(x) for x in outputs], [_array(x) for x in (*gradients[0], *gradients[1])]


def in_mode(mode: str, function: Any) -> Any:
    """Return `function` itself. JAX draws the same numbers compiled or not, and Keras' random state breaks in jit."""
    return function


def _array(x: Any) -> np.ndarray:
    return np.asarray(x).astype("float64")
