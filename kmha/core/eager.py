"""TensorFlow outside of a graph, where starting an operation takes longer than a small operation itself.

There, each of the four equations is computed by one operation. In a graph, forms with more operations are faster.
"""

import keras

from kmha.core.tensors import Tensor


def is_eager() -> bool:
    """Return True on TensorFlow outside of a graph."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf  # other backends do without it

    return tf.executing_eagerly()


def is_without_xla() -> bool:
    """Return True on TensorFlow, unless XLA will compile the graph being traced."""
    if keras.backend.backend() != "tensorflow":
        return False
    from kmha.core import dynamic_shapes  # imports TensorFlow, which other backends do without

    return not dynamic_shapes.is_compiled()


def starts_each_operation() -> bool:
    """Return True if Python starts the operations one by one: on TensorFlow outside of a graph, and on torch."""
    if keras.backend.backend() == "torch":
        import torch  # other backends do without it

        return not torch.compiler.is_compiling()
    return is_eager()


def einsum(equation: str, left: Tensor, right: Tensor) -> Tensor:
    """Return the sum of products that `equation` names.

    `tf.einsum` and `keras.ops.einsum` parse the equation in Python first, which takes longer than a small product.
    """
    import tensorflow as tf

    return tf.raw_ops.Einsum(inputs=[left, right], equation=equation)
