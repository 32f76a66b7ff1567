"""Attention for some of the rows, on TensorFlow: the four steps and their gradient, with masks and dropout sliced.

`blocked.py` puts the rows together.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from kmha.core import masks
from kmha.core.blocks import Block, cut, least, most, same, sizes_of
from kmha.core.precision import at_least_float32

# The generator behind `keras.random.dropout` on TensorFlow. Each count of it makes two float64, or four of other types.
_PHILOX = 1

# Is subtracted from a logit for each position that its key lies outside.
FAR = 1e30


@dataclasses.dataclass(frozen=True)
class Problem:
    """What all blocks of one attention have in common.

    Attributes:
        heads: H.
        batch: B, a number or a scalar tensor, as are the next two.
        length: T.
        keys: S.
        scale: what the logits are multiplied by.
        causal: position t attends to s ≤ t only.
        window: position t attends to |t - s| < window only; `None` is no limit.
        mask: boolean (H or 1, B or 1, T or 1, S or 1), True means attend; or `None`.
        rate: the probability with which a score is dropped.
        seed: two int32, of the dropout; `None` when there is none.
        height: T of a block, 0 for one piece.
        alive: how many blocks may be computed at the same time.
    """

    heads: int
    batch: Any
    length: Any
    keys: Any
    scale: float
    causal: bool = False
    window: int | None = None
    mask: Any = None
    rate: float = 0.0
    seed: Any = None
    height: int = 0
    alive: int = 1

    @property
    def is_static(self) -> bool:
        """Whether T and S are known."""
        return isinstance(self.length, int) and isinstance(self.keys, int)

    @property
    def size(self) -> Any:
        """How many scores there are."""
        return self.heads * self.batch * self.length * self.keys

    def block(self, first: Any, height: Any) -> Block:
        """The block of `height` queries from `first` on, with the keys that they may see."""
        last, low = first + height, 0
        high = self.keys
        if self.window is not None:
            low = least(self.keys, most(0, first - self.window + 1))
            high = high if self.causal else least(high, last + self.window - 1)
        if self.causal:
            high = least(high, last)
        return Block(first, height, low, most(0, high - low))

    def blocks(self, height: int) -> Iterator[Block]:
        """Blocks of `height` queries, the last perhaps of fewer; for known lengths."""
        for first in range(0, self.length, height):
            yield self.block(first, min(height, self.length - first))

    def allowed(self, block: Block) -> Any:
        """Boolean, broadcasts to (H, B, T, S) of the block; `None` when all is allowed."""
        mask = None if self.mask is None else block.both_of(self.mask)
        if self._sees_all(block):
            return mask
        sizes, ahead = block.sizes, block.first - block.low
        causal = masks.causal(*sizes, ahead) if self.causal else None
        window = None if self.window is None else masks.window(*sizes, self.window, ahead)
        return masks.combine(mask, causal, window)

    def hidden(self, block: Block, dtype: Any) -> Any:
        """(T, S) of the block, for the logits: 0 where causality and the window let see, else -1e30 and below.

        Adding numbers is faster than choosing by booleans, most of all where XLA compiles it; no product of a query
        and a key that is of any use comes near. A bias may.
        """
        if self._sees_all(block):
            return None
        row, column = tf.range(block.height)[:, None], tf.range(block.width)[None]
        behind = tf.cast(row - column + (block.first - block.low), dtype)
        room = behind if self.causal else None
        if self.window is not None:
            near = tf.constant(self.window - 1, dtype) - tf.abs(behind)
            room = near if room is None else tf.minimum(room, near)
        return tf.minimum(room, tf.zeros([], dtype)) * tf.constant(FAR, dtype)

    def _sees_all(self, block: Block) -> bool:
        """Whether causality and the window hide nothing in the block, as far as that is known."""
        if not self.causal and self.window is None:
            return True
        if not block.is_static:
            return False
        ahead, behind = block.high - 1 - block.first, block.last - 1 - block.low
        if self.causal and ahead > 0:
            return False
        return self.window is None or (behind < self.window and (self.causal or ahead < self.window))

    def may_be_empty(self, block: Block) -> bool:
        """Whether a row of the block might have nothing to attend to."""
        if self.mask is not None or self._sees_all(block):
            return self.mask is not None
        return self.window is not None and (not block.is_static or block.last - self.window >= self.keys)

    def kept(self, block: Block, dtype: Any) -> Any:
        """Boolean (G, T, S) of the block: the scores that are not dropped; `None` when all are kept.

        It is the part of what `keras.random.dropout` draws for all (B, H, T, S) that belongs to the block: Philox
        numbers its draws, so that any run of them can be drawn alone. (XLA numbers them differently; there the draws
        differ from those of the whole, as Keras' own differ between XLA and graph mode.)
        """
        if self.seed is None:
            return None
        if same(block.height, self.length) and same(block.width, self.keys):
            drawn = tf.random.stateless_uniform((self.batch, self.heads, *block.sizes), self.seed, dtype=dtype)
            kept = tf.transpose(drawn >= tf.constant(self.rate, dtype), (1, 0, 2, 3))
            return tf.reshape(kept, (self.heads * self.batch, *block.sizes))
        group = 2 if dtype == tf.float64 else 4
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=self.seed)
        count = _int64(block.height * self.keys)
        head = tf.range(tf.cast(self.heads, "int64"))[:, None]
        item = tf.range(tf.cast(self.batch, "int64"))[None]
        start = ((item * self.heads + head) * _int64(self.length) + _int64(block.first)) * _int64(self.keys)

        def draw(start: Any) -> Any:
            """One head's rows; a group that they share with what stands before them is drawn and cut."""
            skipped = start % group
            at = counter + tf.cast(tf.stack([start // group, tf.zeros_like(start)]), counter.dtype)
            shape = [count + group - 1]
            drawn = tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=at, alg=_PHILOX, dtype=dtype)
            kept = tf.slice(drawn, [skipped], [count]) >= tf.constant(self.rate, dtype)
            return cut(tf.reshape(kept, (block.height, self.keys)), 1, block.low, block.width)

        return tf.map_fn(draw, tf.reshape(start, [-1]), fn_output_signature=tf.bool, parallel_iterations=1)

    def piece(self, block: Block, query: Any, key: Any, value: Any, bias: Any = None) -> "Piece":
        """The block with its part of (G, T, O), (G, S, O), (G, S, O) and of the bias."""
        query, key, value = block.rows_of(query), block.columns_of(key), block.columns_of(value)
        return Piece(self, block, query, key, value, None if bias is None else block.both_of(bias))


class Piece:
    """One block at work."""

    def __init__(self, problem: Problem, block: Block, query: Any, key: Any, value: Any, bias: Any) -> None:
        self.key, self.value, self.bias = key, value, bias
        self.scale = tf.constant(problem.scale, query.dtype)
        self.query = query * self.scale
        self.wide = tf.as_dtype(at_least_float32(query.dtype))
        self.leading = (problem.heads, problem.batch)
        if bias is None:
            self.mask = None if problem.mask is None else block.both_of(problem.mask)
            self.hidden = problem.hidden(block, self.wide)
        else:  # it may be -inf for what is seen, and then what is hidden would come to the fore
            self.mask, self.hidden = problem.allowed(block), None
        self.kept = problem.kept(block, query.dtype)
        self.raised = tf.constant(1.0 / (1.0 - problem.rate) if problem.rate < 1.0 else 0.0, query.dtype)
        self.open = None
        if problem.may_be_empty(block):
            self.open = tf.reduce_any(problem.allowed(block), axis=-1, keepdims=True)

    def scores(self) -> Any:
        """(G, T, S), in float32 at least. A row with nothing to attend to is uniform; `mix` and `gradients` know."""
        logits = tf.cast(tf.matmul(self.query, self.key, transpose_b=True), self.wide)
        if self.bias is not None:
            logits = self._together(self._apart(logits) + tf.cast(self.bias, self.wide))
        if self.hidden is not None:
            logits = logits + self.hidden
        if self.mask is not None:
            logits = self._together(tf.where(self.mask, self._apart(logits), tf.constant(masks.LOWEST, self.wide)))
        scores = tf.nn.softmax(logits)
        if self.bias is None or self.mask is None:
            return scores
        return self._together(tf.where(self.mask, self._apart(scores), tf.zeros([], self.wide)))

    def mix(self, scores: Any) -> Any:
        """(G, T, O): the values, averaged."""
        mixed = tf.matmul(self._dropped(scores), self.value)
        return self._opened(mixed if self.kept is None else mixed * self.raised)

    def gradients(self, scores: Any, mixed: Any, upstream: Any) -> list[Any]:
        """Those of query, key, value (and bias), when `upstream` (G, T, O) is that of `mixed`."""
        upstream = self._opened(upstream)
        total = tf.reduce_sum(tf.cast(upstream, self.wide) * tf.cast(mixed, self.wide), axis=-1, keepdims=True)
        if self.kept is not None:
            upstream = upstream * self.raised
        d_scores = tf.cast(tf.matmul(upstream, self.value, transpose_b=True), self.wide)
        if self.kept is not None:
            d_scores = tf.where(self.kept, d_scores, tf.zeros([], self.wide))
        if self.wide != self.key.dtype:  # `mixed` was rounded to half precision, and the difference below is small
            total = tf.reduce_sum(d_scores * scores, axis=-1, keepdims=True)
        d_logits = (d_scores - total) * scores
        narrow = tf.cast(d_logits, self.key.dtype)
        d_query = tf.matmul(narrow, self.key) * self.scale
        d_key = tf.matmul(narrow, self.query, transpose_a=True)
        d_value = tf.matmul(self._dropped(scores), upstream, transpose_a=True)
        if self.bias is None:
            return [d_query, d_key, d_value]
        return [d_query, d_key, d_value, tf.cast(_summed_to(self._apart(d_logits), self.bias), self.bias.dtype)]

    def _dropped(self, scores: Any) -> Any:
        """The scores as they multiply the values: in the values' dtype, some of them zero."""
        scores = tf.cast(scores, self.value.dtype)
        return scores if self.kept is None else tf.where(self.kept, scores, tf.zeros([], scores.dtype))

    def _opened(self, x: Any) -> Any:
        """(G, T, O), with zeros in the rows that have nothing to attend to."""
        return x if self.open is None else self._together(tf.where(self.open, self._apart(x), tf.zeros([], x.dtype)))

    def _apart(self, x: Any) -> Any:
        """(G, T, S) to (H, B, T, S)."""
        return tf.reshape(x, (*self.leading, *sizes_of(x)[1:]))

    def _together(self, x: Any) -> Any:
        """(H, B, T, S) to (G, T, S)."""
        sizes = sizes_of(x)
        return tf.reshape(x, (sizes[0] * sizes[1], *sizes[2:]))


def _summed_to(x: Any, like: Any) -> Any:
    """(H, B, T, S), summed over the axes in which `like` has one element for all."""
    axes = [axis for axis, size in enumerate(like.shape) if size == 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


def _int64(x: Any) -> Any:
    return tf.cast(x, "int64")
