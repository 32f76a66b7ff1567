"""Forward and backward passes in TensorFlow: eager, traced (`tf.function`) or compiled by XLA."""

from typing import Any

import numpy as np
import tensorflow as tf


def run(layer: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs, and the gradients of inputs and weights. See `comparing.running.BuiltLayer.run`."""
    variables = [weight.variable.value for weight in layer.weights]

    def step(*tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            outputs = layer.call(tensors)
            loss = layer.loss(outputs, tf.constant(upstream))
        return outputs, tape.gradient(loss, [*tensors, *variables], unconnected_gradients="zero")

    tensors = [tf.constant(array) for array in layer.arrays()]
    outputs, gradients = in_mode(mode, step)(*tensors)
    return [_array(x) for x in outputs], [_array(x) for x in gradients]


def in_mode(mode: str, function: Any) -> Any:
    """Return `function` unchanged, traced or compiled, depending on `mode`."""
    if mode == "eager":
        return function
    traced = tf.function(function, autograph=False, jit_compile=mode == "xla")
    # A concrete function keeps TensorFlow from warning about many traces: each case needs its own trace.
    return lambda *tensors: traced.get_concrete_function(*tensors)(*tensors)


def _array(x: Any) -> np.ndarray:
    return tf.convert_to_tensor(x).numpy().astype("float64")
