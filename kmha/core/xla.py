"""The product of few rows and the kernels of all heads under XLA, which would copy the kernels for it."""

import keras
from keras import ops

from kmha.core.tensors import Tensor


def are_few(rows: Tensor, head_size: int) -> bool:
    """Tell whether XLA copies `rows` (N, I) once for each head in less time than the kernel, as measured on CPUs."""
    count = rows.shape[0]  # unknown or symbolic in some graphs
    if not isinstance(count, int) or not 0 < 2 * count <= head_size:
        return False
    if keras.backend.backend() == "jax":
        import jax  # other backends do without it

        return jax.default_backend() == "cpu"
    return keras.backend.backend() == "tensorflow"


def repeated(rows: Tensor, count: int) -> Tensor:
    """Return (H, N, I), `count` copies of `rows`.

    The barrier keeps XLA from joining the products to one, for which it would copy the kernel.
    """
    copies = ops.broadcast_to(rows, (count, *rows.shape))
    if keras.backend.backend() == "jax":
        from jax.lax import optimization_barrier  # other backends do without it

        return optimization_barrier(copies)
    from kmha.core import dynamic_shapes  # imports TensorFlow, which other backends do without

    return dynamic_shapes.barrier(copies)
