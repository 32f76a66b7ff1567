"""From features to heads and back: the first and the last of the four equations, each as one matrix product."""

import math
from typing import Any

from keras import ops


def project_heads(inputs: Any, kernel: Any, bias: Any = None) -> Any:
    """`BTI,HIO->BTHO`: multiplies every position by each head's own (I, O) matrix.

    The h matrices W_i of Vaswani et al. 2017 (section 3.2.2) are the h slices `kernel[i]`. Side by side they make one
    (I, H·O) matrix, so a single product computes all heads, which is how it is done here; (B, T) is folded into one
    axis first, so that the kernel's gradient is a single product too.

    Args:
        inputs: (B, T, I), or with further axes in T's place; floating point.
        kernel: (H, I, O), of the inputs' dtype.
        bias: (H, O) or `None`.

    Returns:
        (B, T, H, O), of the inputs' dtype.

    >>> import numpy as np
    >>> inputs = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    >>> kernel = np.arange(5 * 4 * 6.0).reshape(5, 4, 6)
    >>> heads = project_heads(inputs, kernel)
    >>> tuple(heads.shape)
    (2, 3, 5, 6)
    >>> bool(np.allclose(heads[:, :, 1], inputs @ kernel[1]))
    True
    """
    heads, width, head_size = kernel.shape
    side_by_side = ops.reshape(ops.transpose(kernel, (1, 0, 2)), (width, heads * head_size))  # (I, H·O)
    projected = ops.matmul(ops.reshape(inputs, (-1, width)), side_by_side)  # (B·T, H·O)
    if bias is not None:
        projected = ops.add(projected, ops.reshape(bias, (heads * head_size,)))
    return ops.reshape(projected, (*ops.shape(inputs)[:-1], heads, head_size))  # (B, T, H, O)


def merge_heads(heads: Any, kernel: Any, bias: Any = None) -> Any:
    """`BTHO,HOE->BTE`: concatenates the heads and multiplies by W^O, which is the sum over heads of `head @ kernel[i]`.

    Args:
        heads: (B, T, H, O), or with further axes in T's place; floating point.
        kernel: (H, O, E), or with further axes in E's place; of the heads' dtype.
        bias: (E,) or `None`.

    Returns:
        (B, T, E), of the heads' dtype.

    >>> import numpy as np
    >>> heads = np.arange(2 * 3 * 5 * 6.0).reshape(2, 3, 5, 6)
    >>> kernel = np.arange(5 * 6 * 4.0).reshape(5, 6, 4)
    >>> merged = merge_heads(heads, kernel)
    >>> bool(np.allclose(merged, sum(heads[:, :, i] @ kernel[i] for i in range(5))))
    True
    """
    count, head_size, *outputs = kernel.shape
    stacked = ops.reshape(kernel, (count * head_size, math.prod(outputs)))  # (H·O, E)
    merged = ops.matmul(ops.reshape(heads, (-1, count * head_size)), stacked)  # (B·T, E)
    merged = ops.reshape(merged, (*ops.shape(heads)[:-2], *outputs))  # (B, T, E)
    return merged if bias is None else ops.add(merged, bias)
