"""Split one big kernel into h kernels, one per head, or join them again: both forms hold the same weights.

"W_q, W_k and W_v should be h each, why does the implementation write only one?", learners of the D2L book ask. The one
kernel (I, H·O) holds the h kernels (I, O) side by side: x W = [x W_1, …, x W_h]. Splitting the product into heads and
projecting with the h kernels are therefore the same computation. The output kernel (H·O, E) holds h kernels (O, E) on
top of each other: [y_1, …, y_h] W_o = y_1 W_o1 + … + y_h W_oh.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.interchange.errors import LayoutError


def split_heads(kernel: Any, num_heads: int, axis: int = -1) -> list[np.ndarray]:
    """Split one big kernel into h kernels.

    Args:
        kernel: Kernel (I, H·O), output kernel (H·O, E) with `axis=0`, or bias (H·O,).
        num_heads: Number of heads (H).
        axis: Axis to split into heads.

    Returns:
        H kernels (I, O), output kernels (O, E) or biases (O,). They are views of `kernel`.

    Raises:
        LayoutError: The axis cannot be divided into H heads of one size.

    >>> x, kernel = np.random.rand(5, 4), np.random.rand(4, 6)
    >>> one, two, three = split_heads(kernel, 3)
    >>> np.allclose(x @ kernel, np.concatenate([x @ one, x @ two, x @ three], axis=-1))
    True
    """
    kernel = np.asarray(kernel)
    width = kernel.shape[axis] if -kernel.ndim <= axis < kernel.ndim else 0
    if num_heads < 1 or width == 0 or width % num_heads:
        raise LayoutError(
            f"`split_heads` expected an axis of H·O features that `num_heads` divides. Received: kernel.shape="
            f"{kernel.shape}, axis={axis}, num_heads={num_heads}. The output kernel (H·O, E) has its heads on axis 0."
        )
    return np.split(kernel, num_heads, axis)


def join_heads(kernels: Sequence[Any], axis: int = -1) -> np.ndarray:
    """Join h kernels into one big kernel. This is the inverse of `split_heads`.

    Args:
        kernels: H kernels (I, O), output kernels (O, E) with `axis=0`, or biases (O,).
        axis: Axis along which to join the heads.

    Returns:
        Kernel (I, H·O), output kernel (H·O, E), or bias (H·O,).

    Raises:
        LayoutError: There are no kernels, or they have different shapes.

    >>> kernel = np.arange(24).reshape(4, 6)
    >>> bool((join_heads(split_heads(kernel, 3)) == kernel).all())
    True
    """
    arrays = [np.asarray(kernel) for kernel in kernels]
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1:
        raise LayoutError(f"`join_heads` expected one or more kernels, all of one shape. Received shapes: {shapes}.")
    return np.concatenate(arrays, axis)
