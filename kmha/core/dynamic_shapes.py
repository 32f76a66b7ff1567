"""Slices and sizes of TensorFlow tensors whose shapes may be unknown while a graph is traced, and what XLA needs.

A size is a Python number if it is known, and otherwise a scalar tensor.
"""

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.ops import control_flow_util

from kmha.core.tensors import Tensor


def is_compiled() -> bool:
    """Tell whether XLA will compile the graph being traced. There, sizes cannot depend on a loop's counter."""
    return not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


@tf.custom_gradient
def barrier(x: Tensor) -> Tensor:
    """Return `x`, which XLA then does not join with the operations around it."""
    return gen_xla_ops.xla_optimization_barrier(input=[x])[0], lambda upstream: upstream


def sizes_of(x: Tensor) -> tuple[Tensor, ...]:
    """Return the shape of `x`, with scalar tensors for unknown sizes."""
    shape = tf.shape(x)
    return tuple(shape[axis] if size is None else size for axis, size in enumerate(x.shape))


def cut(x: Tensor, axis: int, start: Tensor, size: Tensor) -> Tensor:
    """Return `size` elements of `x` along `axis`, starting at `start`."""
    if isinstance(start, int) and isinstance(size, int):
        return x[(slice(None),) * axis + (slice(start, start + size),)]
    begin, sizes = [0] * len(x.shape), list(sizes_of(x))
    begin[axis], sizes[axis] = start, size  # XLA requires every size as a number
    return tf.slice(x, begin, sizes)


def padded(x: Tensor, axis: int, before: Tensor, after: Tensor) -> Tensor:
    """Return `x` with zeros added before and after it along `axis`, as the inverse of `cut`."""
    return tf.pad(x, [[before, after] if at == axis else [0, 0] for at in range(len(x.shape))])


def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Return the smaller of two sizes."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else tf.minimum(x, y)


def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Return the larger of two sizes."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else tf.maximum(x, y)


def known_equal(x: Tensor, y: Tensor) -> bool:
    """Tell whether two sizes are known to be equal."""
    return x is y or (isinstance(x, int) and isinstance(y, int) and x == y)
