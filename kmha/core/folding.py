"""How attention over any axes becomes attention over one: the other axes join the batch, and back."""

import dataclasses
import math
from typing import Any

from keras import ops


@dataclasses.dataclass(frozen=True)
class Folding:
    """Turns attention over any axes of a tensor into attention over one, and back.

    The other axes are folded into B, the attention axes into T (or S), in the order given; a rank-3 tensor with
    attention over its only position axis stays as it is.

    Attributes:
        batch_axes: the axes that are not attended over, the batch axis first.
        attention_axes: the axes that are.
    """

    batch_axes: tuple[int, ...]
    attention_axes: tuple[int, ...]

    @classmethod
    def of(cls, rank: int, attention_axes: tuple[int, ...] | None) -> "Folding":
        """The folding of an input with `rank` axes (B, …, I); `None` attends over all axes but the first and last.

        Raises:
            ValueError: an axis is the batch or the feature axis, is not there, or is named twice.
        """
        if attention_axes is None:
            axes = tuple(range(1, rank - 1))
        else:
            axes = tuple(axis if axis >= 0 else rank + axis for axis in attention_axes)
        if not axes or len(set(axes)) < len(axes) or not set(axes) <= set(range(1, rank - 1)):
            raise ValueError(
                "`attention_axes` must name different axes between the batch axis (0) and the feature axis "
                f"({rank - 1}) of an input with {rank} axes. Received: attention_axes={attention_axes}. Name some of "
                f"{list(range(1, rank - 1))}, or leave it out to attend over all of them."
            )
        return cls(tuple(axis for axis in range(rank - 1) if axis not in axes), axes)

    @property
    def is_plain(self) -> bool:
        """Whether tensors are already (B, T, …)."""
        return self.batch_axes == (0,) and self.attention_axes == (1,)

    @property
    def scores_rank(self) -> int:
        """How many axes the unfolded scores have: batch axes, H, attention axes of the query and of the key."""
        return len(self.batch_axes) + 1 + 2 * len(self.attention_axes)

    def fold(self, x: Any) -> Any:
        """(B, …, H, O), with the axes in the input's order, to (B, T, H, O)."""
        if self.is_plain:
            return x
        order = self.batch_axes + self.attention_axes
        shape = ops.shape(x)
        rest = tuple(range(len(order), len(shape)))
        batch = math.prod(shape[axis] for axis in self.batch_axes)
        moved = ops.transpose(x, order + rest)
        return ops.reshape(moved, (batch, math.prod(self.positions(x)), *shape[len(order) :]))

    def unfold(self, x: Any, like: Any) -> Any:
        """(B, T, H, O), folded as `like` would be, back to the axes of `like` (B, …, H, O)."""
        if self.is_plain:
            return x
        order = self.batch_axes + self.attention_axes
        shape = ops.shape(like)
        rest = tuple(range(len(order), len(shape)))
        x = ops.reshape(x, tuple(shape[axis] for axis in order) + tuple(ops.shape(x)[2:]))
        back = sorted(range(len(order)), key=order.__getitem__)
        return ops.transpose(x, tuple(back) + rest)

    def unfold_scores(self, scores: Any, query: Any, key: Any) -> Any:
        """(B, H, T, S) to (batch axes, H, attention axes of `query`, attention axes of `key`)."""
        if self.is_plain:
            return scores
        return ops.reshape(scores, self.scores_shape(ops.shape(query), ops.shape(key), ops.shape(scores)[1]))

    def scores_shape(self, query_shape: Any, key_shape: Any, num_heads: Any) -> tuple[Any, ...]:
        """The shape of the unfolded scores; symbolic when the shapes are."""
        batch = tuple(query_shape[axis] for axis in self.batch_axes)
        rows = tuple(query_shape[axis] for axis in self.attention_axes)
        columns = tuple(key_shape[axis] for axis in self.attention_axes)
        return (*batch, num_heads, *rows, *columns)

    def fold_mask(self, mask: Any, query: Any, key: Any) -> Any:
        """A mask that broadcasts to the unfolded scores, with or without H, to one that broadcasts to (B, H, T, S).

        As in Keras, axes that are missing stand before the attention axes: (T, S) and (B, T, S) both work.
        """
        mask = self.with_missing_axes(mask, self.scores_rank)
        if self.is_plain:
            return mask
        # An axis can only be merged with its neighbours when all of them have their full size, or none has.
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

    def with_missing_axes(self, mask: Any, rank: int) -> Any:
        """A mask over scores with axes of one in front of its attention axes, up to `rank`."""
        while len(mask.shape) < rank:
            mask = ops.expand_dims(mask, -2 * len(self.attention_axes) - 1)
        return mask

    def align_rows(self, mask: Any) -> Any:
        """A mask over the query's positions (B, …) as one over scores without H; `None` stays `None`."""
        return self._aligned(mask, -1)

    def align_columns(self, mask: Any) -> Any:
        """A mask over the key's positions (B, …) as one over scores without H; `None` stays `None`."""
        return self._aligned(mask, len(self.batch_axes))

    def _aligned(self, mask: Any, room: int) -> Any:
        """The mask's axes in the order of the scores', with axes of one at `room` for the other side's positions."""
        if mask is None:
            return None
        mask = ops.transpose(mask, self.batch_axes + self.attention_axes)
        for _ in self.attention_axes:
            mask = ops.expand_dims(mask, room)
        return mask

    def positions(self, x: Any) -> tuple[Any, ...]:
        """The sizes of the attention axes of `x`."""
        shape = ops.shape(x)
        return tuple(shape[axis] for axis in self.attention_axes)
