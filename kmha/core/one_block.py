"""Attention on TensorFlow within one block, which is some queries and the keys that they may see.

`BlockAttention` computes the four steps and their gradient. `AttentionProblem` slices masks and dropout for it.
`blocked.py` joins the blocks. Batch and heads are one axis G = H · B here, heads first.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from kmha.core import masks
from kmha.core.dynamic_shapes import cut, is_compiled, known_equal, maximum, minimum, sizes_of
from kmha.core.tensors import Tensor, at_least_float32

# The generator behind `keras.random.dropout` on TensorFlow. One step draws two float64 numbers, or four of other types.
_PHILOX = 1

# Number subtracted from a logit for each position by which its key lies outside of the causal mask or the window.
FAR = 1e30


@dataclasses.dataclass(frozen=True)
class Block:
    """`height` queries from `first` on, and the `width` keys from `low` on that they may see.

    The fields are Python numbers if the lengths are known, and otherwise scalar tensors.
    """

    first: Tensor
    height: Tensor
    low: Tensor
    width: Tensor

    last = property(lambda self: self.first + self.height)  # exclusive, as is `high`
    high = property(lambda self: self.low + self.width)

    @property
    def sizes(self) -> tuple[Tensor, Tensor]:
        """The numbers of queries and keys in the block (its T and S)."""
        return self.height, self.width

    @property
    def is_static(self) -> bool:
        return all(isinstance(x, int) for x in (self.first, self.height, self.low, self.width))

    def rows_of(self, x: Tensor) -> Tensor:
        """Return the rows of `x` (G, T, O) for the block's queries."""
        return cut(x, 1, self.first, self.height)

    def columns_of(self, x: Tensor) -> Tensor:
        """Return the rows of `x` (G, S, O) for the block's keys."""
        return cut(x, 1, self.low, self.width)

    def both_of(self, x: Tensor) -> Tensor:
        """Slice `x` (H, B, T or 1, S or 1) to the block's queries and keys. Axes of size one stay."""
        x = x if x.shape[2] == 1 else cut(x, 2, self.first, self.height)
        return x if x.shape[3] == 1 else cut(x, 3, self.low, self.width)


@dataclasses.dataclass(frozen=True)
class AttentionProblem:
    """Sizes, masks and dropout that are the same for all blocks of one call of `attend`.

    Attributes:
        heads: Number of heads (H).
        batch: Batch size (B). Like `length` and `keys`, it is a number or a scalar tensor.
        length: Number of query positions (T).
        keys: Number of key positions (S).
        scale: Factor of the logits.
        causal: Position t attends only to positions s ≤ t.
        window: Position t attends only to positions s with |t - s| < window. `None` means no limit.
        mask: Boolean mask (H or 1, B or 1, T or 1, S or 1), where True means attend, or `None`.
        rate: Dropout probability.
        seed: Seed of the dropout, two int32 numbers. `None` means no dropout.
        height: Number of queries in a block. 0 means one block for all queries.
        parallel: Number of blocks that may be computed at the same time.
    """

    heads: int
    batch: Tensor
    length: Tensor
    keys: Tensor
    scale: float
    causal: bool = False
    window: int | None = None
    mask: Tensor = None
    rate: float = 0.0
    seed: Tensor = None
    height: int = 0
    parallel: int = 1

    @property
    def is_static(self) -> bool:
        """Tell whether T and S are known."""
        return isinstance(self.length, int) and isinstance(self.keys, int)

    @property
    def size(self) -> Tensor:
        """The total number of scores."""
        return self.heads * self.batch * self.length * self.keys

    def block(self, first: Tensor, height: Tensor) -> Block:
        """Return the block of `height` queries from `first` on, with the keys that they may see."""
        last, low = first + height, 0
        high = self.keys
        if self.window is not None:
            low = minimum(self.keys, maximum(0, first - self.window + 1))
            high = high if self.causal else minimum(high, last + self.window - 1)
        if self.causal:
            high = minimum(high, last)
        return Block(first, height, low, maximum(0, high - low))

    def blocks(self, height: int) -> Iterator[Block]:
        """Yield blocks of `height` queries, for known lengths. The last block may have fewer."""
        for first in range(0, self.length, height):
            yield self.block(first, min(height, self.length - first))

    def allowed(self, block: Block) -> Tensor:
        """Return a boolean mask that broadcasts to the block's (H, B, T, S), or `None` if everything is allowed."""
        mask = None if self.mask is None else block.both_of(self.mask)
        if self._sees_all(block):
            return mask
        return masks.combine(
            mask, masks.structured(*block.sizes, self.causal, self.window, ahead=block.first - block.low)
        )

    def penalty(self, block: Block, dtype: Any) -> Tensor:
        """Return numbers (T, S) to add to the block's logits, or `None` if causality and the window hide nothing.

        They are 0 where attention is allowed, and at most -1e30 elsewhere. Adding numbers is faster than selecting by
        booleans, most of all under XLA. No useful product of a query and a key is as large as 1e30, but a bias may be.
        """
        if self._sees_all(block):
            return None
        row, column = tf.range(block.height)[:, None], tf.range(block.width)[None]
        behind = tf.cast(row - column + (block.first - block.low), dtype)
        margin = behind if self.causal else None
        if self.window is not None:
            near = tf.constant(self.window - 1, dtype) - tf.abs(behind)
            margin = near if margin is None else tf.minimum(margin, near)
        return tf.minimum(margin, tf.zeros([], dtype)) * tf.constant(FAR, dtype)

    def _sees_all(self, block: Block) -> bool:
        """Tell whether causality and the window are known to hide nothing in the block."""
        if not self.causal and self.window is None:
            return True
        if not block.is_static:
            return False
        ahead, behind = block.high - 1 - block.first, block.last - 1 - block.low
        if self.causal and ahead > 0:
            return False
        return self.window is None or (behind < self.window and (self.causal or ahead < self.window))

    def may_have_empty_rows(self, block: Block) -> bool:
        """Tell whether a query of the block might have nothing to attend to."""
        if self.mask is not None or self._sees_all(block):
            return self.mask is not None
        return self.window is not None and (not block.is_static or block.last - self.window >= self.keys)

    def keep_mask(self, block: Block, dtype: Any) -> Tensor:
        """Return a mask (G, T, S) of the block, True for the scores to keep, or `None` without dropout.

        It is the block's part of what `keras.random.dropout` draws for all (B, H, T, S). Philox numbers its draws, so
        that any range of numbers can be drawn alone. (XLA numbers the draws differently. There a block's draws differ
        from those for all scores, just as Keras' own draws differ between XLA and graph mode.)
        """
        if self.seed is None:
            return None
        if known_equal(block.height, self.length) and known_equal(block.width, self.keys):
            drawn = tf.random.stateless_uniform((self.batch, self.heads, *block.sizes), self.seed, dtype=dtype)
            keep = tf.transpose(drawn >= tf.constant(self.rate, dtype), (1, 0, 2, 3))
            return tf.reshape(keep, (self.heads * self.batch, *block.sizes))
        group = 2 if dtype == tf.float64 else 4
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=self.seed)
        count = _int64(block.height * self.keys)
        head = tf.range(tf.cast(self.heads, "int64"))[:, None]
        item = tf.range(tf.cast(self.batch, "int64"))[None]
        start = ((item * self.heads + head) * _int64(self.length) + _int64(block.first)) * _int64(self.keys)

        def draw(start: Tensor) -> Tensor:
            """Draw the rows of one head. The first group may contain draws of earlier rows, which are cut off."""
            skipped = start % group
            at = counter + tf.cast(tf.stack([start // group, tf.zeros_like(start)]), counter.dtype)
            shape = [count + group - 1]
            drawn = tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=at, alg=_PHILOX, dtype=dtype)
            keep = tf.slice(drawn, [skipped], [count]) >= tf.constant(self.rate, dtype)
            return cut(tf.reshape(keep, (block.height, self.keys)), 1, block.low, block.width)

        return tf.map_fn(draw, tf.reshape(start, [-1]), fn_output_signature=tf.bool, parallel_iterations=1)

    def attention(
        self, block: Block, query: Tensor, key: Tensor, value: Tensor, bias: Tensor = None
    ) -> "BlockAttention":
        """Return the attention of a block, with its slices of query, key, value and bias."""
        query, key, value = block.rows_of(query), block.columns_of(key), block.columns_of(value)
        return BlockAttention(self, block, query, key, value, None if bias is None else block.both_of(bias))


@functools.cache
def softmax_rounds_once() -> bool:
    """Return True if TensorFlow's softmax of bfloat16 computes in float32 and rounds only its result, as oneDNN's does.

    Then it takes a third of the time that casts and a softmax in float32 take, with the same result. On processors
    without oneDNN's kernel, TensorFlow rounds each step to bfloat16.
    """
    with tf.init_scope():
        if not tf.executing_eagerly():
            return False
        logits = tf.cast(4.0 * tf.random.stateless_normal((7, 257), (1, 2)), tf.bfloat16)
        wide = tf.nn.softmax(tf.cast(logits, tf.float32))
        return bool(tf.reduce_all(tf.nn.softmax(logits) == tf.cast(wide, tf.bfloat16)))


class BlockAttention:
    """Computes the forward and the backward pass of attention for one block."""

    def __init__(
        self, problem: AttentionProblem, block: Block, query: Tensor, key: Tensor, value: Tensor, bias: Tensor
    ) -> None:
        self.key, self.value, self.bias = key, value, bias
        self.scale = tf.constant(problem.scale, query.dtype)
        self.query = query * self.scale
        self.wide = tf.as_dtype(at_least_float32(query.dtype))
        rounds_once = bias is None and query.dtype == tf.bfloat16 and not is_compiled() and softmax_rounds_once()
        self.of_scores = query.dtype if rounds_once else self.wide
        self.leading = (problem.heads, problem.batch)
        if bias is None:
            self.mask = None if problem.mask is None else block.both_of(problem.mask)
            self.penalty = problem.penalty(block, self.wide)
        else:  # a bias of -inf on all visible keys would let the keys with a penalty win
            self.mask, self.penalty = problem.allowed(block), None
        self.keep = problem.keep_mask(block, query.dtype)
        self.keep_scale = tf.constant(1.0 / (1.0 - problem.rate) if problem.rate < 1.0 else 0.0, query.dtype)
        self.nonempty = None
        if problem.may_have_empty_rows(block):
            self.nonempty = tf.reduce_any(problem.allowed(block), axis=-1, keepdims=True)

    def scores(self) -> Tensor:
        """Return the scores (G, T, S), in float32 or rounded from it. `mix` and `gradients` zero the empty rows."""
        logits = tf.cast(tf.matmul(self.query, self.key, transpose_b=True), self.of_scores)
        if self.bias is not None:
            logits = self._grouped(self._by_head(logits) + tf.cast(self.bias, self.wide))
        if self.penalty is not None:
            logits = logits + tf.cast(self.penalty, self.of_scores)
        if self.mask is not None:
            lowest = tf.constant(masks.LOWEST, self.of_scores)
            logits = self._grouped(tf.where(self.mask, self._by_head(logits), lowest))
        scores = tf.nn.softmax(logits)
        if self.bias is None or self.mask is None:
            return scores
        return self._grouped(tf.where(self.mask, self._by_head(scores), tf.zeros([], self.wide)))

    def mix(self, scores: Tensor) -> Tensor:
        """Return the mixed values (G, T, O), which are averages of the values weighted by the scores."""
        mixed = tf.matmul(self._dropped(scores), self.value)
        return self._without_empty_rows(mixed if self.keep is None else mixed * self.keep_scale)

    def gradients(self, scores: Tensor, mixed: Tensor, upstream: Tensor) -> list[Tensor]:
        """Return the gradients of query, key, value (and bias), given the gradient `upstream` (G, T, O) of `mixed`."""
        upstream, weights = self._without_empty_rows(upstream), tf.cast(scores, self.wide)
        total = tf.reduce_sum(tf.cast(upstream, self.wide) * tf.cast(mixed, self.wide), axis=-1, keepdims=True)
        if self.keep is not None:
            upstream = upstream * self.keep_scale
        d_scores = tf.cast(tf.matmul(upstream, self.value, transpose_b=True), self.wide)
        if self.keep is not None:
            d_scores = tf.where(self.keep, d_scores, tf.zeros([], self.wide))
        if self.wide != self.key.dtype:  # `mixed` was rounded to half precision, and the difference below is small
            total = tf.reduce_sum(d_scores * weights, axis=-1, keepdims=True)
        d_logits = (d_scores - total) * weights
        narrow = tf.cast(d_logits, self.key.dtype)
        d_query = tf.matmul(narrow, self.key) * self.scale
        d_key = tf.matmul(narrow, self.query, transpose_a=True)
        d_value = tf.matmul(self._dropped(scores), upstream, transpose_a=True)
        if self.bias is None:
            return [d_query, d_key, d_value]
        return [d_query, d_key, d_value, tf.cast(_summed_to(self._by_head(d_logits), self.bias), self.bias.dtype)]

    def _dropped(self, scores: Tensor) -> Tensor:
        """Return the scores that multiply the values, in the values' dtype, after dropout but without its scale."""
        scores = tf.cast(scores, self.value.dtype)
        return scores if self.keep is None else tf.where(self.keep, scores, tf.zeros([], scores.dtype))

    def _without_empty_rows(self, x: Tensor) -> Tensor:
        """Return `x` (G, T, O) with zeros in the rows that have nothing to attend to."""
        if self.nonempty is None:
            return x
        return self._grouped(tf.where(self.nonempty, self._by_head(x), tf.zeros([], x.dtype)))

    def _by_head(self, x: Tensor) -> Tensor:
        """Turn (G, T, S) into (H, B, T, S)."""
        return tf.reshape(x, (*self.leading, *sizes_of(x)[1:]))

    def _grouped(self, x: Tensor) -> Tensor:
        """Turn (H, B, T, S) into (G, T, S)."""
        sizes = sizes_of(x)
        return tf.reshape(x, (sizes[0] * sizes[1], *sizes[2:]))


def _summed_to(x: Tensor, like: Tensor) -> Tensor:
    """Sum (H, B, T, S) over the axes in which `like` has size one."""
    axes = [axis for axis, size in enumerate(like.shape) if size == 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


def _int64(x: Tensor) -> Tensor:
    return tf.cast(x, "int64")
