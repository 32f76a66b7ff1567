"""The first and the last of the four equations, from features to heads and back, each as one batch of products."""

import functools
import math
from typing import Any

import keras
from keras import ops

from kmha.core import axes, eager, xla
from kmha.core.tensors import Tensor, as_tensor


def project_heads(inputs: Tensor, kernel: Tensor, bias: Tensor = None) -> Tensor:
    """`BTI,HIO->BTHO`: multiply every position by each head's own (I, O) matrix.

    The h matrices W_i of Vaswani et al. 2017 (section 3.2.2) are the h slices `kernel[i]`. Side by side they make one
    (I, H·O) matrix, so that a single product computes all heads. On TensorFlow it is one batch of H products, because
    attention takes heads first. The transposes of projection and attention cancel. (B, T) is folded into one axis
    before the product. Otherwise TensorFlow would compute the kernel's gradient as B separate products and add them.

    Args:
        inputs: Features (B, T, I), or with more axes instead of T; floating point.
        kernel: Kernel (H, I, O), of the inputs' dtype.
        bias: Bias (H, O), or `None`.

    Returns:
        Heads (B, T, H, O), of the inputs' dtype.

    >>> import numpy as np
    >>> inputs = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    >>> kernel = np.arange(5 * 4 * 6.0).reshape(5, 4, 6)
    >>> heads = project_heads(inputs, kernel)
    >>> tuple(heads.shape)
    (2, 3, 5, 6)
    >>> bool(np.allclose(heads[:, :, 1], inputs @ kernel[1]))
    True
    """
    if eager.is_eager():
        projected = eager.einsum(axes.for_rank(axes.PROJECT, len(inputs.shape)), inputs, kernel)
        return projected if bias is None else ops.add(projected, bias)
    heads, width, head_size = kernel.shape
    if keras.backend.backend() == "torch":
        inputs, kernel = as_tensor(inputs), as_tensor(kernel)
        side_by_side = kernel.transpose(0, 1).reshape(width, heads * head_size)  # (I, H·O)
        return _torch_product(inputs, side_by_side, bias, heads, head_size)  # (B, T, H, O)
    rows, sizes = ops.reshape(inputs, (-1, width)), ops.shape(inputs)[:-1]  # (B·T, I)
    projected = None
    if eager.is_without_xla():
        projected = _by_heads(rows, kernel)  # (H, B·T, O)
    elif xla.are_few(rows, head_size):
        projected = ops.matmul(xla.repeated(rows, heads), kernel)  # (H, B·T, O)
    if projected is not None:
        if bias is not None:
            projected = ops.add(projected, ops.expand_dims(bias, 1))
        return _positions_first(projected, sizes)  # (B, T, H, O)
    side_by_side = ops.reshape(ops.transpose(kernel, (1, 0, 2)), (width, heads * head_size))  # (I, H·O)
    projected = ops.matmul(rows, side_by_side)  # (B·T, H·O)
    if bias is not None:
        projected = ops.add(projected, ops.reshape(bias, (heads * head_size,)))
    return ops.reshape(projected, (*sizes, heads, head_size))  # (B, T, H, O)


def merge_heads(heads: Tensor, kernel: Tensor, bias: Tensor = None) -> Tensor:
    """`BTHO,HOE->BTE`: concatenate the heads and multiply by W^O. This equals the sum over heads of `head @ kernel[i]`.

    Args:
        heads: Heads (B, T, H, O), or with more axes instead of T; floating point.
        kernel: Kernel (H, O, E), or with more axes instead of E; of the heads' dtype.
        bias: Bias (E,), or `None`.

    Returns:
        Features (B, T, E), of the heads' dtype.

    >>> import numpy as np
    >>> heads = np.arange(2 * 3 * 5 * 6.0).reshape(2, 3, 5, 6)
    >>> kernel = np.arange(5 * 6 * 4.0).reshape(5, 6, 4)
    >>> merged = merge_heads(heads, kernel)
    >>> bool(np.allclose(merged, sum(heads[:, :, i] @ kernel[i] for i in range(5))))
    True
    """
    count, head_size, *outputs = kernel.shape
    if keras.backend.backend() == "torch":
        heads, kernel = as_tensor(heads), as_tensor(kernel)
        concatenated, matrix = heads.flatten(-2), kernel.reshape(count * head_size, math.prod(outputs))
        return _torch_product(concatenated, matrix, bias, *outputs)  # (B, T, E)
    if eager.is_eager():
        merged = eager.einsum(axes.for_rank(axes.MERGE, len(heads.shape) - 1, len(outputs)), heads, kernel)
    else:
        kernel = ops.reshape(kernel, (count, head_size, math.prod(outputs)))  # (H, O, E)
        merge = _from_heads if eager.is_without_xla() else _concatenated
        merged = merge(heads, kernel)  # (B·T, E)
        merged = ops.reshape(merged, (*ops.shape(heads)[:-2], *outputs))  # (B, T, E)
    return merged if bias is None else ops.add(merged, bias)


def _torch_product(inputs: Any, matrix: Any, bias: Any, *sizes: int) -> Any:
    """Return `inputs @ matrix + bias` by one operation of torch: `keras.ops` take longer than a small product.

    The last axis is split into `sizes`. `unflatten` would export unknown lengths to ONNX as those of the example.
    """
    import torch  # other backends do without it

    inputs = inputs.to(matrix.device)  # as Keras' operations do
    result = torch.nn.functional.linear(inputs, matrix.T, None if bias is None else as_tensor(bias).reshape(-1))
    return result if len(sizes) == 1 else result.reshape(*inputs.shape[:-1], *sizes)


def _positions_first(x: Tensor, sizes: Any) -> Tensor:
    """Turn (H, B·T, O) into (B, T, H, O)."""
    heads, _, size = x.shape
    return ops.transpose(ops.reshape(x, (heads, *sizes, size)), (*range(1, len(sizes) + 1), 0, len(sizes) + 1))


def _concatenated(x: Tensor, kernel: Tensor) -> Tensor:
    """Return (B·T, E), the product of `x` as a matrix (B·T, H·O) and the kernel as a matrix (H·O, E)."""
    heads, head_size, outputs = kernel.shape
    return ops.matmul(ops.reshape(x, (-1, heads * head_size)), ops.reshape(kernel, (heads * head_size, outputs)))


def _by_heads(rows: Tensor, kernel: Tensor) -> Tensor:
    """Return (H, N, O), the product of `rows` (N, I) and each head's (I, O) matrix of `kernel` (H, I, O).

    The gradient with respect to `rows` is one product of (N, H·O) and (H·O, I), except for few rows: a sum of H
    matrices (N, I) then takes less time than the copy of the kernel that the one product needs.
    """
    few = 0 < (rows.shape[0] or 0) <= 2 * kernel.shape[2]  # known, and not empty

    @ops.custom_gradient
    def run(rows: Tensor, kernel: Tensor) -> Tensor:
        def gradient(upstream: Tensor) -> Tensor:
            across = ops.transpose(kernel, (0, 2, 1))  # (H, O, I)
            if few:
                d_rows = functools.reduce(ops.add, ops.unstack(ops.matmul(upstream, across)))
            else:
                d_rows = _concatenated(ops.transpose(upstream, (1, 0, 2)), across)
            return d_rows, ops.matmul(ops.transpose(rows), upstream)

        # OpenVINO computes no product of different ranks with a constant kernel, and none of rank 3 that broadcasts.
        by_heads = ops.matmul(ops.reshape(rows, (1, 1, -1, kernel.shape[1])), kernel)  # (1, H, N, O)
        return ops.squeeze(by_heads, 0), gradient

    return run(rows, kernel)


def _from_heads(x: Tensor, kernel: Tensor) -> Tensor:
    """Return the result of `_concatenated`, but compute the gradient of `x` head by head, as attention's backward
    pass needs it.
    """

    @ops.custom_gradient
    def run(x: Tensor, kernel: Tensor) -> Tensor:
        heads, head_size, outputs = kernel.shape

        def gradient(upstream: Tensor) -> Tensor:
            by_heads = ops.matmul(upstream, ops.transpose(kernel, (0, 2, 1)))  # (H, B·T, O)
            stacked = ops.reshape(x, (-1, heads * head_size))
            d_kernel = ops.reshape(ops.matmul(ops.transpose(stacked), upstream), (heads, head_size, outputs))
            return _positions_first(by_heads, ops.shape(x)[:-2]), d_kernel

        return _concatenated(x, kernel), gradient

    return run(x, kernel)
