"""Attention on TensorFlow with its own gradient, in one piece or in blocks.

Both paths compute the numbers of `attention.four_steps`. They differ in what they keep in memory. In one piece
(`direct`), all scores are kept for the backward pass. In blocks (`blocked`), the scores of some queries are computed,
used and discarded. The backward pass computes them again. So memory grows with T and S instead of T · S (Rabe and
Staats 2021, arXiv 2112.05682; Dao et al. 2022, arXiv 2205.14135). A block skips the keys that a causal mask or a window
hides from all of its queries.

A few blocks are unrolled into the graph. Many blocks, or blocks of unknown lengths, become loops in the graph.

Heads and batch are one axis G = H · B here, heads first, as `projection.py` computes them.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from kmha.core.dynamic_shapes import is_compiled, known_equal, maximum, padded, sizes_of
from kmha.core.one_block import AttentionProblem, Block, BlockAttention
from kmha.core.tensors import Tensor

# Maximum number of blocks that a graph unrolls. More blocks become a loop, which takes less time to trace.
MOST_UNROLLED = 16

# Maximum number of scores of all unrolled blocks under XLA, which ignores their order and may keep all scores at once.
MOST_COMPILED = 2**26

# Maximum number of loops under XLA, which must know the number of keys per block. Blocks of a loop see similar numbers.
MOST_LOOPS = 8


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor = None,
    bias: Tensor = None,
    *,
    scale: float,
    causal: bool = False,
    window: int | None = None,
    rate: float = 0.0,
    seed: Tensor = None,
    tiling: tuple[int, int] | None = None,
) -> Tensor:
    """Compute `kmha.core.attention.attend`. With a `tiling` (see `planning.Tiling`), compute it in blocks.

    `rate` and `seed` are the probability and the seed of the dropout. If `seed` is `None`, there is no dropout.
    """
    batch, length, heads, _ = sizes_of(query)
    sizes = heads, batch, length, sizes_of(key)[1]
    full = batch, heads, *sizes[2:]
    mask = None if mask is None else _heads_first_mask(tf.cast(mask, "bool"), full, known=(2, 3))
    height, parallel = tiling or (0, 1)
    problem = AttentionProblem(*sizes, scale, causal, window, mask, height=height, parallel=parallel)
    if seed is not None:
        problem = dataclasses.replace(problem, rate=rate, seed=tf.cast(tf.convert_to_tensor(seed), "int32"))
    inputs = [_heads_first(tf.convert_to_tensor(x)) for x in (query, key, value)]
    if bias is not None:
        # The bias's gradient is summed over axes of size one. So the sizes of all axes must be known, not only T and S.
        inputs.append(_heads_first_mask(tf.convert_to_tensor(bias), full, known=(0, 1, 2, 3)))
    mixed = (direct if tiling is None else blocked)(problem, *inputs)
    return tf.transpose(tf.reshape(mixed, (heads, batch, length, value.shape[3])), (1, 2, 0, 3))


def _heads_first(x: Tensor) -> Tensor:
    """Turn (B, T, H, O) into (G, T, O). A graph's optimizer cancels this transpose with the one in `project_heads`."""
    batch, length, heads, size = sizes_of(x)
    return tf.reshape(tf.transpose(x, (2, 0, 1, 3)), (heads * batch, length, size))


def _heads_first_mask(x: Tensor, full: tuple[Tensor, ...], known: tuple[int, ...]) -> Tensor:
    """Turn a mask or bias that broadcasts to (B, H, T, S) into (H, B, T, S), each size being 1 or the size in `full`.

    Axes in `known` whose size is unknown are broadcast to the size in `full`, so that their size is certain.
    """
    x = tf.reshape(x, (1,) * (4 - len(x.shape)) + sizes_of(x))
    unknown = [axis for axis in known if x.shape[axis] is None]
    if unknown:
        x = tf.broadcast_to(x, [full[axis] if axis in unknown else size for axis, size in enumerate(sizes_of(x))])
    return tf.transpose(x, (1, 0, 2, 3))


def direct(problem: AttentionProblem, *inputs: Tensor) -> Tensor:
    """Compute attention in one piece. The gradient takes two fewer passes over the scores than TensorFlow's own.

    Args:
        problem: Sizes, masks and dropout of the call.
        *inputs: Query (G, T, O), key (G, S, O), value (G, S, O), and optionally a bias (H or 1, B or 1, T or 1,
            S or 1), which is added to the logits.

    Returns:
        The mixed values (G, T, O), of the query's dtype.
    """
    block = Block(0, problem.length, 0, problem.keys)

    @tf.custom_gradient
    def run(*inputs: Tensor) -> Any:
        attention = problem.attention(block, *inputs)
        scores = attention.scores()
        mixed = attention.mix(scores)
        # TensorFlow records the operations of the gradient like any others, so that second derivatives are correct too.
        return mixed, lambda upstream: attention.gradients(scores, mixed, upstream)

    return run(*inputs)


def blocked(problem: AttentionProblem, *inputs: Tensor) -> Tensor:
    """Compute attention in blocks, with the arguments and the result of `direct`.

    Second derivatives are correct too, but take as much memory as in `direct`.
    """

    @tf.custom_gradient
    def run(*inputs: Tensor) -> Any:
        # Without `stop_gradient`, an eager tape would record every block, and keep its scores.
        mixed = _forward(problem, *map(tf.stop_gradient, inputs))

        @tf.custom_gradient
        def backward(upstream: Tensor, *inputs: Tensor) -> Any:
            stopped = [tf.stop_gradient(x) for x in (upstream, mixed, *inputs)]
            gradients = _backward(problem, *stopped)
            return gradients, lambda *further: _second_gradients(problem, upstream, inputs, further)

        return mixed, lambda upstream: backward(upstream, *inputs)

    return run(*inputs)


def _second_gradients(problem: AttentionProblem, upstream: Tensor, inputs: Any, further: Any) -> list[Tensor]:
    """Return the gradients of `upstream` and the inputs, given the gradients `further` of the first gradients."""
    with tf.GradientTape() as outer:
        outer.watch([upstream, *inputs])
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            mixed = _forward(problem, *inputs)
        gradients = inner.gradient(mixed, inputs, output_gradients=upstream)
    if None in gradients:
        raise NotImplementedError(
            "Attention in blocks has no derivative in forward mode (tf.autodiff.ForwardAccumulator). Attention in one "
            "piece has one: give the layer flash_attention=False, or set KMHA_ATTENTION_PATH=direct."
        )
    return outer.gradient(gradients, [upstream, *inputs], output_gradients=further)


def _forward(problem: AttentionProblem, *inputs: Tensor) -> Tensor:
    spans, loops = _spans(problem)
    mixed: list[Tensor] = []
    for span in spans:
        earlier = mixed[-problem.parallel :][:1] if len(mixed) >= problem.parallel else []
        with _after(earlier, inputs, loops) as tied:
            if loops:
                mixed.append(_forward_loop(problem, span, *tied))
            else:
                attention = problem.attention(span, *tied)
                mixed.append(attention.mix(attention.scores()))
    return _concatenated(mixed)


def _backward(problem: AttentionProblem, upstream: Tensor, mixed: Tensor, *inputs: Tensor) -> list[Tensor]:
    spans, loops = _spans(problem)
    d_query, d_bias, d_key, d_value = [], [], _KeyGradient(), _KeyGradient()
    order = [[upstream]] * problem.parallel
    for span in spans:
        with _after(order[-problem.parallel], inputs, loops) as tied:
            if loops:
                gradients = _backward_loop(problem, span, upstream, mixed, *tied)
            else:
                attention = problem.attention(span, *tied)
                gradients = attention.gradients(attention.scores(), span.rows_of(mixed), span.rows_of(upstream))
            d_query.append(gradients[0])
            d_key.add(span, gradients[1])
            d_value.add(span, gradients[2])
            d_bias += [_widened(x, span, problem, like) for x, like in zip(gradients[3:], inputs[3:], strict=True)]
            order.append([d_query[-1], d_key.current, d_value.current, *d_bias[-1:]])
    gradients = [_concatenated(d_query), d_key.total(problem.keys), d_value.total(problem.keys)]
    return gradients + [_joined_bias(d_bias, x) for x in inputs[3:]]


def _spans(problem: AttentionProblem) -> tuple[list[Block], bool]:
    """Return the parts that the graph unrolls, and True if each is a loop over blocks, False if each is one block."""
    compiled, unrolled = is_compiled(), problem.is_static and problem.length <= problem.height * MOST_UNROLLED
    if compiled:  # XLA would hold the scores of all unrolled blocks
        unrolled = unrolled and isinstance(problem.batch, int) and problem.size <= MOST_COMPILED
    if tf.executing_eagerly() or unrolled:
        return list(problem.blocks(problem.height)) or [problem.block(0, 0)], False
    if compiled and problem.is_static:
        rows = problem.height * max(1, problem.length // (problem.height * MOST_LOOPS))
        return list(problem.blocks(rows)) or [problem.block(0, 0)], True
    return [Block(0, problem.length, 0, problem.keys)], True


@contextlib.contextmanager
def _after(previous: list[Tensor], inputs: Any, loops: bool) -> Iterator[Any]:
    """Yield the inputs. Inside the context, computations that use them wait until `previous` has been computed."""
    if previous and loops and is_compiled():  # XLA ignores control dependencies
        tied = gen_xla_ops.xla_optimization_barrier(input=[*inputs[:1], *previous])
        yield tied[0], *inputs[1:]
    else:
        with tf.control_dependencies(previous):
            yield inputs


class _KeyGradient:
    """The gradient of keys or values, as a sum over the blocks that saw them.

    Blocks come in order, and the first key that they see never moves back. So the sums for keys before a block's first
    key are final, and adding a block only changes the sums for its own keys.
    """

    def __init__(self) -> None:
        self.finished: list[Tensor] = []
        self.current: Tensor = None
        self.low = self.high = 0

    def add(self, block: Block, gradient: Tensor) -> None:
        if self.current is None:
            self.current = gradient
        else:
            if block.low > self.low:
                self.finished.append(self.current[:, : block.low - self.low])
                self.current = self.current[:, block.low - self.low :]
            seen = self.high - block.low
            self.current = self.current + gradient[:, :seen]
            if block.high > self.high:
                self.current = tf.concat([self.current, gradient[:, seen:]], axis=1)
        self.low, self.high = block.low, block.high

    def total(self, keys: int) -> Tensor:
        """Return the whole gradient (G, S, O)."""
        total = _concatenated([*self.finished, self.current])
        return total if known_equal(self.high, keys) else padded(total, 1, 0, keys - self.high)


def _concatenated(parts: list[Tensor]) -> Tensor:
    return tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]


def _widened(gradient: Tensor, block: Block, problem: AttentionProblem, bias: Tensor) -> Tensor:
    """Pad a block's gradient of the bias, (H, B, T, S of the block), with zeros for the keys outside of the block."""
    if bias.shape[3] == 1:
        return gradient
    return padded(gradient, 3, block.low, problem.keys - block.high)


def _joined_bias(parts: list[Tensor], bias: Tensor) -> Tensor:
    return tf.add_n(parts) if bias.shape[2] == 1 else tf.concat(parts, axis=2)


def _forward_loop(problem: AttentionProblem, span: Block, *inputs: Tensor) -> Tensor:
    """Return the mixed values (G, T, O) for the queries of `span`."""
    loop = _BlockLoop(problem, span, inputs)

    def body(index: Tensor, rows: Any) -> Any:
        attention = loop.attention(loop.block(index))
        return index + 1, rows.write(index, attention.mix(attention.scores()))

    return loop.concatenated(loop.run(body, loop.rows_array(inputs[2]))[0])


def _backward_loop(
    problem: AttentionProblem, span: Block, upstream: Tensor, mixed: Tensor, *inputs: Tensor
) -> list[Tensor]:
    """Return the gradients of the queries, keys and values of `span`, and of its part of the bias."""
    loop = _BlockLoop(problem, span, inputs)
    upstream, mixed = loop.padded(upstream, 1), loop.padded(mixed, 1)
    key, value, bias = span.columns_of(inputs[1]), span.columns_of(inputs[2]), [span.both_of(x) for x in inputs[3:]]

    def body(index: Tensor, d_query: Any, d_key: Tensor, d_value: Tensor, *d_bias: Any) -> Any:
        block = loop.block(index)
        attention = loop.attention(block)
        gradients = attention.gradients(attention.scores(), block.rows_of(mixed), block.rows_of(upstream))
        d_key, d_value = d_key + loop.widened(block, gradients[1], 1), d_value + loop.widened(block, gradients[2], 1)
        state = [index + 1, d_query.write(index, gradients[0]), d_key, d_value]
        for total, more, like in zip(d_bias, gradients[3:], bias, strict=True):
            more = more if like.shape[3] == 1 else loop.widened(block, more, 3)
            state.append(total + more if isinstance(total, tf.Tensor) else total.write(index, more))
        return state

    d_bias = [tf.zeros_like(x) if x.shape[2] == 1 else loop.array(*x.shape[:2], loop.height, x.shape[3]) for x in bias]
    start = loop.rows_array(key), tf.zeros_like(key), tf.zeros_like(value), *d_bias
    d_query, d_key, d_value, *d_bias = loop.run(body, *start)
    d_bias = [x if isinstance(x, tf.Tensor) else loop.concatenated(x, 2) for x in d_bias]
    return [loop.concatenated(d_query), d_key, d_value, *d_bias]


class _BlockLoop:
    """A loop in the graph over the blocks of a span, which all have the same height.

    Rows are padded to a multiple of the height, and the padding is removed at the end. The padding does not change the
    gradients either, because the upstream gradient is padded with zeros.
    """

    def __init__(self, problem: AttentionProblem, span: Block, inputs: Any) -> None:
        height = problem.height
        self.height, self.span, self.compiled = height, span, is_compiled()
        self.count = maximum(1, -(-span.height // height))
        self.dtype = inputs[0].dtype
        # Only the last span can have a length that is not a multiple of the height.
        self.missing = maximum(1, -(-problem.length // height)) * height - problem.length
        query, key, value, *bias = inputs
        self.inputs = [self.padded(query, 1), key, value, *(self.padded(x, 2) for x in bias)]
        mask = None if problem.mask is None else self.padded(problem.mask, 2)
        self.problem = dataclasses.replace(problem, mask=mask)

    def padded(self, x: Tensor, axis: int) -> Tensor:
        """Pad the rows with zeros to a multiple of the height. An axis of size one, which is for all rows, stays."""
        if axis == 2 and x.shape[2] == 1:
            return x
        return padded(x, axis, 0, self.missing)

    def block(self, index: Tensor) -> Block:
        first = self.span.first + index * self.height
        if self.compiled:  # XLA must know the number of keys before it runs
            return Block(first, self.height, self.span.low, self.span.width)
        return self.problem.block(first, self.height)

    def attention(self, block: Block) -> BlockAttention:
        return self.problem.attention(block, *self.inputs)

    def widened(self, block: Block, gradient: Tensor, axis: int) -> Tensor:
        """Pad a block's gradient with zeros for the keys of the span that the block did not see."""
        if self.compiled:
            return gradient
        shape = gradient.shape.as_list()
        shape[axis] = self.span.width if isinstance(self.span.width, int) else None
        wide = padded(gradient, axis, block.low - self.span.low, self.span.high - block.high)
        return tf.ensure_shape(wide, shape)

    def array(self, *sizes: Any) -> Any:
        """Return a `TensorArray` with one entry of these sizes for each block."""
        shape = [size if isinstance(size, int) else None for size in sizes]
        return tf.TensorArray(self.dtype, self.count, element_shape=shape)

    def rows_array(self, like: Tensor) -> Any:
        """Return a `TensorArray` of blocks (G, height, O), with the O of `like`."""
        return self.array(like.shape[0], self.height, like.shape[2])

    def run(self, body: Callable[..., Any], *state: Any) -> Any:
        """Return the state after all blocks. `body` maps a block's index and the state to the next index and state."""
        start, parallel = (tf.constant(0), *state), self.problem.parallel
        return tf.while_loop(lambda index, *_: index < self.count, body, start, parallel_iterations=parallel)[1:]

    def concatenated(self, rows: Any, axis: int = 1) -> Tensor:
        """Return the blocks' rows as one tensor: (G, T, O), or (H, B, T, S) if `axis` is 2."""
        stacked = rows.stack()
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(stacked.shape))]
        moved = tf.transpose(stacked, order)
        sizes = list(sizes_of(moved))
        sizes[axis : axis + 2] = [self.count * self.height]
        rows_of_all = tf.reshape(moved, sizes)
        return rows_of_all[(slice(None),) * axis + (slice(self.span.height),)]
