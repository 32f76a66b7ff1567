"""Attention over any axes as attention over one axis, by folding the other axes into the batch."""

import dataclasses
import math
from typing import Any

from keras import ops

from kmha.core import masks
from kmha.core.tensors import Tensor


@dataclasses.dataclass(frozen=True)
class Folding:
    """Folds tensors so that attention over any axes becomes attention over one axis, and unfolds the results.

    The attention axes are folded into T (or S) in the given order, and the remaining axes into B. A rank-3 tensor with
    attention over its only position axis stays as it is.

    Attributes:
        batch_axes: Axes that are not attended over, the batch axis first.
        attention_axes: Axes that are attended over.
    """

    batch_axes: tuple[int, ...]
    attention_axes: tuple[int, ...]

    @classmethod
    def of(cls, rank: int, attention_axes: tuple[int, ...] | None) -> "Folding":
        """Return the folding for inputs (B, …, I) with `rank` axes.

        Args:
            rank: Number of axes of the input, including batch and features.
            attention_axes: Axes to attend over. `None` means all axes but the first and the last.

        Raises:
            ValueError: If an axis is the batch or the feature axis, does not exist, or is repeated.
        """
        if attention_axes is None:
            axes = tuple(range(1, rank - 1))
        else:
            axes = tuple(axis if axis >= 0 else rank + axis for axis in attention_axes)
        if not axes or len(set(axes)) < len(axes) or not set(axes) <= set(range(1, rank - 1)):
            raise ValueError(
                "`attention_axes` must name different axes between the batch axis (0) and the feature axis "
                f"({rank - 1}) of an input with {rank} axes. Received: attention_axes={attention_axes}. Choose from "
                f"{list(range(1, rank - 1))}, or leave the argument out to attend over all of them."
            )
        return cls(tuple(axis for axis in range(rank - 1) if axis not in axes), axes)

    @property
    def is_plain(self) -> bool:
        """Tell whether tensors have the shape (B, T, …) before they are folded, so that folding changes nothing."""
        return self.batch_axes == (0,) and self.attention_axes == (1,)

    @property
    def rank(self) -> int:
        """The number of axes of the input, including batch and features."""
        return len(self.batch_axes) + len(self.attention_axes) + 1

    @property
    def scores_rank(self) -> int:
        """The number of axes of the unfolded scores: batch axes, H, attention axes of the query and of the key."""
        return len(self.batch_axes) + 1 + 2 * len(self.attention_axes)

    def fold(self, x: Tensor) -> Tensor:
        """Fold (B, …, H, O), with the axes in the input's order, into (B, T, H, O)."""
        if self.is_plain:
            return x
        order = self.batch_axes + self.attention_axes
        shape = ops.shape(x)
        rest = tuple(range(len(order), len(shape)))
        batch = math.prod(shape[axis] for axis in self.batch_axes)
        moved = ops.transpose(x, order + rest)
        return ops.reshape(moved, (batch, self.length(x), *shape[len(order) :]))

    def unfold(self, x: Tensor, like: Tensor) -> Tensor:
        """Unfold (B, T, H, O) into the axes of `like` (B, …, H, O), as the inverse of `fold`."""
        if self.is_plain:
            return x
        order = self.batch_axes + self.attention_axes
        shape = ops.shape(like)
        rest = tuple(range(len(order), len(shape)))
        x = ops.reshape(x, tuple(shape[axis] for axis in order) + tuple(ops.shape(x)[2:]))
        back = sorted(range(len(order)), key=order.__getitem__)
        return ops.transpose(x, tuple(back) + rest)

    def unfold_scores(self, scores: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Unfold (B, H, T, S) into (batch axes, H, attention axes of `query`, attention axes of `key`)."""
        if self.is_plain:
            return scores
        return ops.reshape(scores, self.scores_shape(ops.shape(query), ops.shape(key), ops.shape(scores)[1]))

    def scores_shape(self, query_shape: Any, key_shape: Any, num_heads: Any) -> tuple[Any, ...]:
        """Return the shape of the unfolded scores, with `None` for sizes that are unknown in the given shapes."""
        batch = tuple(query_shape[axis] for axis in self.batch_axes)
        rows = tuple(query_shape[axis] for axis in self.attention_axes)
        columns = tuple(key_shape[axis] for axis in self.attention_axes)
        return (*batch, num_heads, *rows, *columns)

    def fold_mask(self, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Fold a mask that broadcasts to the unfolded scores, with or without H, into a mask for (B, H, T, S).

        As in Keras, missing axes are inserted before the attention axes: (T, S) and (B, T, S) both work.
        """
        mask = self.with_missing_axes(mask, self.scores_rank)
        if self.is_plain:
            return mask
        # Axes can only be merged if all of them have full size, or all have size one.
        full = self.scores_shape(ops.shape(query), ops.shape(key), mask.shape[len(self.batch_axes)])
        batch = slice(0, len(self.batch_axes))
        rows = slice(batch.stop + 1, batch.stop + 1 + len(self.attention_axes))
        columns = slice(rows.stop, self.scores_rank)
        shape = list(ops.shape(mask))
        for group in (batch, rows, columns):
            if any(size != 1 for size in mask.shape[group]):
                shape[group] = full[group]
        mask = ops.broadcast_to(mask, tuple(shape))
        merged = (math.prod(shape[batch]), shape[batch.stop], math.prod(shape[rows]), math.prod(shape[columns]))
        return ops.reshape(mask, merged)

    def with_missing_axes(self, mask: Tensor, rank: int) -> Tensor:
        """Insert axes of size one before the attention axes of a mask, so that it has `rank` axes."""
        axis = -2 * len(self.attention_axes) - 1
        while len(mask.shape) < rank:  # on torch, Keras' operation takes longer than the kernel of a small call
            mask = mask.unsqueeze(axis) if hasattr(mask, "unsqueeze") else ops.expand_dims(mask, axis)
        return mask

    def combine(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the mask of what two masks of scores allow. A mask, or the result, is `None` if it allows everything.

        Both get the same rank first, so that no axis is broadcast against a different axis.
        """
        if one is not None and other is not None:
            rank = max(len(one.shape), len(other.shape))
            one, other = self.with_missing_axes(one, rank), self.with_missing_axes(other, rank)
        return masks.combine(one, other)

    def align_pairs(self, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Turn a mask (T, S) of folded positions into a mask of scores without H. `None` stays `None`."""
        if mask is None:
            return None
        return ops.reshape(mask, ((1,) * len(self.batch_axes) + self.positions(query) + self.positions(key)))

    def align(self, mask: Tensor, *, of_keys: bool) -> Tensor:
        """Turn a mask (B, …) of the query's or key's positions into a mask of scores without H. `None` stays `None`.

        Its axes get the order of the scores' axes, with axes of size one for the positions of the other tensor.
        """
        if mask is None:
            return None
        mask = ops.transpose(mask, self.batch_axes + self.attention_axes)
        for _ in self.attention_axes:
            mask = ops.expand_dims(mask, len(self.batch_axes) if of_keys else -1)
        return mask

    def positions(self, x: Tensor) -> tuple[Any, ...]:
        """Return the sizes of the attention axes of `x`."""
        shape = ops.shape(x)
        return tuple(shape[axis] for axis in self.attention_axes)

    def length(self, x: Tensor) -> Any:
        """Return the number of folded positions of `x`, which is T or S."""
        return math.prod(self.positions(x))
