"""The blocks as a loop of the graph, on TensorFlow: for lengths that are not known, or blocks that are many."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from kmha.core.blocks import Block, most, padded, sizes_of
from kmha.core.rows import Piece, Problem


def is_compiled() -> bool:
    """Whether what is being traced will be compiled by XLA, where sizes cannot depend on a loop's counter."""
    return not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def forward(problem: Problem, span: Block, *inputs: Any) -> Any:
    """`span`'s rows of the result, (G, T, O); see `blocked.blocked`."""
    loop = _Loop(problem, span, inputs)

    def body(index: Any, rows: Any) -> Any:
        piece = loop.piece(loop.block(index))
        return index + 1, rows.write(index, piece.mix(piece.scores()))

    return loop.joined(loop.run(body, loop.rows_array(inputs[2]))[0])


def backward(problem: Problem, span: Block, upstream: Any, mixed: Any, *inputs: Any) -> list[Any]:
    """The gradients of `span`'s rows of the query, of its keys and values, and of its part of the bias."""
    loop = _Loop(problem, span, inputs)
    upstream, mixed = loop.padded(upstream, 1), loop.padded(mixed, 1)
    key, value, bias = span.columns_of(inputs[1]), span.columns_of(inputs[2]), [span.both_of(x) for x in inputs[3:]]

    def body(index: Any, d_query: Any, d_key: Any, d_value: Any, *d_bias: Any) -> Any:
        block = loop.block(index)
        piece = loop.piece(block)
        gradients = piece.gradients(piece.scores(), block.rows_of(mixed), block.rows_of(upstream))
        d_key, d_value = d_key + loop.widened(block, gradients[1], 1), d_value + loop.widened(block, gradients[2], 1)
        state = [index + 1, d_query.write(index, gradients[0]), d_key, d_value]
        for total, more, like in zip(d_bias, gradients[3:], bias, strict=True):
            more = more if like.shape[3] == 1 else loop.widened(block, more, 3)
            state.append(total + more if isinstance(total, tf.Tensor) else total.write(index, more))
        return state

    d_bias = [tf.zeros_like(x) if x.shape[2] == 1 else loop.array(*x.shape[:2], loop.height, x.shape[3]) for x in bias]
    start = loop.rows_array(key), tf.zeros_like(key), tf.zeros_like(value), *d_bias
    d_query, d_key, d_value, *d_bias = loop.run(body, *start)
    d_bias = [x if isinstance(x, tf.Tensor) else loop.joined(x, 2) for x in d_bias]
    return [loop.joined(d_query), d_key, d_value, *d_bias]


class _Loop:
    """The blocks of a span, all of one height: rows are padded to a multiple of it, and the padding is cut off again.

    The padding is harmless in the backward pass, too, because what comes from above is padded with zeros.
    """

    def __init__(self, problem: Problem, span: Block, inputs: Any) -> None:
        height = problem.height
        self.height, self.span, self.compiled = height, span, is_compiled()
        self.count = most(1, -(-span.height // height))
        self.dtype = inputs[0].dtype
        # Only the last span may be no multiple of the height.
        self.missing = most(1, -(-problem.length // height)) * height - problem.length
        query, key, value, *bias = inputs
        self.inputs = [self.padded(query, 1), key, value, *(self.padded(x, 2) for x in bias)]
        mask = None if problem.mask is None else self.padded(problem.mask, 2)
        self.problem = dataclasses.replace(problem, mask=mask)

    def padded(self, x: Any, axis: int) -> Any:
        """With zeros after the rows, up to a multiple of the height; an axis of one for all stays."""
        if axis == 2 and x.shape[2] == 1:
            return x
        return padded(x, axis, 0, self.missing)

    def block(self, index: Any) -> Block:
        first = self.span.first + index * self.height
        if self.compiled:  # XLA must know the number of keys before it runs
            return Block(first, self.height, self.span.low, self.span.width)
        return self.problem.block(first, self.height)

    def piece(self, block: Block) -> Piece:
        return self.problem.piece(block, *self.inputs)

    def widened(self, block: Block, gradient: Any, axis: int) -> Any:
        """A block's gradient with zeros for those keys of the span that the block did not see."""
        if self.compiled:
            return gradient
        shape = gradient.shape.as_list()
        shape[axis] = self.span.width if isinstance(self.span.width, int) else None
        wide = padded(gradient, axis, block.low - self.span.low, self.span.high - block.high)
        return tf.ensure_shape(wide, shape)

    def array(self, *sizes: Any) -> Any:
        """Of one entry for each block, of these sizes, where they are known."""
        shape = [size if isinstance(size, int) else None for size in sizes]
        return tf.TensorArray(self.dtype, self.count, element_shape=shape)

    def rows_array(self, like: Any) -> Any:
        """Of blocks (G, height, O), with the O of `like`."""
        return self.array(like.shape[0], self.height, like.shape[2])

    def run(self, body: Callable[..., Any], *state: Any) -> Any:
        """What `state` is after all blocks; `body` takes and gives the number of the next block and the state."""
        start, alive = (tf.constant(0), *state), self.problem.alive
        return tf.while_loop(lambda index, *_: index < self.count, body, start, parallel_iterations=alive)[1:]

    def joined(self, rows: Any, axis: int = 1) -> Any:
        """The blocks' rows as one tensor, (G, T, O), or (H, B, T, S) for `axis` 2."""
        stacked = rows.stack()
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(stacked.shape))]
        moved = tf.transpose(stacked, order)
        sizes = list(sizes_of(moved))
        sizes[axis : axis + 2] = [self.count * self.height]
        whole = tf.reshape(moved, sizes)
        return whole[(slice(None),) * axis + (slice(self.span.height),)]
