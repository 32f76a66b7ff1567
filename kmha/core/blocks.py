"""Parts of tensors, on TensorFlow: some queries and the keys that they may see, of known sizes or not."""

import dataclasses
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Block:
    """`height` queries from `first` on, and the `width` keys from `low` on that they may see.

    Python numbers where the lengths are known, else scalar tensors.
    """

    first: Any
    height: Any
    low: Any
    width: Any

    last = property(lambda self: self.first + self.height)  # exclusive, as is `high`
    high = property(lambda self: self.low + self.width)

    @property
    def sizes(self) -> tuple[Any, Any]:
        """T and S of the block."""
        return self.height, self.width

    @property
    def is_static(self) -> bool:
        return all(isinstance(x, int) for x in (self.first, self.height, self.low, self.width))

    def rows_of(self, x: Any) -> Any:
        """(G, T, O) to (G, T of the block, O)."""
        return cut(x, 1, self.first, self.height)

    def columns_of(self, x: Any) -> Any:
        """(G, S, O) to (G, S of the block, O)."""
        return cut(x, 1, self.low, self.width)

    def both_of(self, x: Any) -> Any:
        """(H, B, T or 1, S or 1) to what of it the block needs; axes of one stay."""
        x = x if x.shape[2] == 1 else cut(x, 2, self.first, self.height)
        return x if x.shape[3] == 1 else cut(x, 3, self.low, self.width)


def sizes_of(x: Any) -> tuple[Any, ...]:
    """The shape, with scalar tensors where it is not known."""
    shape = tf.shape(x)
    return tuple(shape[axis] if size is None else size for axis, size in enumerate(x.shape))


def cut(x: Any, axis: int, start: Any, size: Any) -> Any:
    """`size` elements of `x` from `start` on, along `axis`."""
    if isinstance(start, int) and isinstance(size, int):
        return x[(slice(None),) * axis + (slice(start, start + size),)]
    begin, sizes = [0] * len(x.shape), list(sizes_of(x))
    begin[axis], sizes[axis] = start, size  # XLA wants every size as a number
    return tf.slice(x, begin, sizes)


def padded(x: Any, axis: int, before: Any, after: Any) -> Any:
    """`x` with so many zeros before and after it along `axis`: the way back from `cut`."""
    return tf.pad(x, [[before, after] if at == axis else [0, 0] for at in range(len(x.shape))])


def least(x: Any, y: Any) -> Any:
    """The smaller one, of numbers or scalar tensors."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else tf.minimum(x, y)


def most(x: Any, y: Any) -> Any:
    """The larger one, of numbers or scalar tensors."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else tf.maximum(x, y)


def same(x: Any, y: Any) -> bool:
    """Whether two sizes are known to be the same."""
    return x is y or (isinstance(x, int) and isinstance(y, int) and x == y)
