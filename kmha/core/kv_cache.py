"""A cache of keys and values with room for all positions, which is written position by position.

It is one tensor (B, 2, S, H, O), or a pair of keys (B, S, H, O) and values (B, S, H, O) whose O may differ.
"""

import keras
from keras import ops

from kmha.core import eager
from kmha.core.attention import masked_softmax
from kmha.core.tensors import Tensor, at_least_float32


def write(cache: Tensor, index: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return the cache with key and value (B, T, H, O) at its positions from `index` on.

    In a compiled loop, XLA writes into the old cache instead of copying it.
    """
    if isinstance(cache, tuple):
        return overwrite(cache[0], index, key), overwrite(cache[1], index, value)
    return overwrite(cache, index, ops.stack([key, value], axis=1), axis=2)


def overwrite(x: Tensor, index: Tensor, new: Tensor, axis: int = 1) -> Tensor:
    """Return `x` with `new` at its positions along `axis` from `index` on."""
    start = [0 if isinstance(index, int) else ops.zeros_like(index)] * len(x.shape)  # JAX wants one dtype
    start[axis] = index
    return ops.slice_update(x, start, new)


def read(cache: Tensor, count: Tensor = None) -> tuple[Tensor, Tensor]:
    """Return keys and values (B, S, H, O), or only those at the first `count` positions."""
    if isinstance(cache, tuple):
        return cache[0][:, :count], cache[1][:, :count]
    return cache[:, 0, :count], cache[:, 1, :count]


def has_dynamic_shapes() -> bool:
    """Tell whether each step may attend to another number of positions without being compiled again."""
    return keras.backend.backend() == "torch" or eager.is_without_xla()


def attend_from_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Compute `kmha.core.attention.attend` for a single query, with elementwise products.

    Heads stay behind positions, so that the cache is not transposed. XLA fuses the products with the sums over them.

    Args:
        query: Query (B, 1, H, O), floating point.
        key: Key (B, S, H, O).
        value: Value (B, S, H, O). Its O may differ from the O of query and key.
        mask: Boolean mask that broadcasts to (B, H, 1, S), where True means attend, or `None`.
        scale: Factor of the logits.

    Returns:
        The mixed values (B, 1, H, O), and the scores (B, H, 1, S), both of the query's dtype.
    """
    dtype = keras.backend.standardize_dtype(query.dtype)
    query, key, value = (ops.cast(x, at_least_float32(dtype)) for x in (query, key, value))
    logits = ops.sum(ops.multiply(key, ops.multiply(query, scale)), axis=-1)  # (B, S, H)
    logits = ops.expand_dims(ops.transpose(logits, (0, 2, 1)), 2)  # (B, H, 1, S)
    scores = masked_softmax(logits, mask, elementwise=True)
    factors = ops.transpose(scores, (0, 3, 1, 2))  # (B, S, H, 1)
    mixed = ops.sum(ops.multiply(factors, value), axis=1, keepdims=True)
    return ops.cast(mixed, dtype), ops.cast(scores, dtype)
