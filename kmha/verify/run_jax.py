"""Forward and gradients in JAX: as they come, or compiled (`jax.jit`)."""

from typing import Any

import jax
import numpy as np


def run(candidate: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """See `kmha.verify.running.Candidate.run`."""
    layer = candidate.layer
    frozen = [variable.value for variable in layer.non_trainable_variables]
    order = [_position(layer.trainable_variables, weight.variable) for weight in candidate.weights]

    def loss(tensors: Any, trained: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return layer.stateless_call(trained, frozen, *args, **kwargs)[0]

        outputs = candidate.call(tensors, call)
        return candidate.loss(outputs, upstream), outputs

    step = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    trained = [variable.value for variable in layer.trainable_variables]
    inputs = [jax.numpy.asarray(x) for x in candidate.arrays()]
    (_, outputs), (inputs, weights) = (step if mode == "eager" else jax.jit(step))(inputs, trained)
    return [_array(x) for x in outputs], [_array(x) for x in [*inputs, *(weights[i] for i in order)]]


def in_mode(mode: str, function: Any) -> Any:
    """`function` itself: JAX draws the same numbers compiled or not, and Keras' random state would not survive it."""
    return function


def _position(variables: list[Any], wanted: Any) -> int:
    return next(i for i, variable in enumerate(variables) if variable is wanted)


def _array(x: Any) -> np.ndarray:
    return np.asarray(x).astype("float64")
