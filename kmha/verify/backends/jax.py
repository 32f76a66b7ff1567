"""Forward and gradients in JAX: as they come, or compiled (`jax.jit`)."""

from typing import Any

import jax
import keras
import numpy as np


def run(candidate: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs, and the gradients of inputs and weights; see `comparing.running.Candidate.run`."""
    variables = [weight.variable for weight in candidate.weights]
    frozen = [(variable, variable.value) for variable in candidate.layer.non_trainable_variables]

    def loss(tensors: Any, values: Any) -> Any:
        state = [*zip(variables, values, strict=True), *frozen]
        # Not `stateless_call`, which skips what `__call__` does with the masks that tensors carry.
        with keras.StatelessScope(state_mapping=state):
            outputs = candidate.call(tensors)
        return candidate.loss(outputs, upstream), outputs

    step = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    inputs = [jax.numpy.asarray(x) for x in candidate.arrays()]
    values = [variable.value for variable in variables]
    (_, outputs), gradients = (step if mode == "eager" else jax.jit(step))(inputs, values)
    return [_array(x) for x in outputs], [_array(x) for x in (*gradients[0], *gradients[1])]


def in_mode(mode: str, function: Any) -> Any:
    """`function` itself: JAX draws the same numbers compiled or not, and Keras' random state would not survive it."""
    return function


def _array(x: Any) -> np.ndarray:
    return np.asarray(x).astype("float64")
