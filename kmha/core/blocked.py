"""The four steps of attention on TensorFlow with a gradient of their own: in one piece, or some rows at a time.

Both ways compute what `attention.py` writes out; they differ in what is alive at once. In one piece (`direct`), the
scores are kept for the backward pass. In blocks (`blocked`), the scores of some queries are computed, used and dropped,
and computed again in the backward pass, so that memory grows with T and S and not with T · S (Rabe and Staats 2021,
arXiv 2112.05682; Dao et al. 2022, arXiv 2205.14135). A block only meets the keys that a causal mask or a window lets
its queries see. The files of `core` that need TensorFlow are this one, `looped.py`, `rows.py` and `blocks.py`.

Heads and batch are one axis G = H · B here, heads first, because that is how `projection.py` computes them.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from kmha.core import looped
from kmha.core.blocks import Block, padded, same, sizes_of
from kmha.core.dropout import Dropout
from kmha.core.looped import is_compiled
from kmha.core.rows import Problem

# Blocks of a graph that are written out one after the other; more become a loop, which takes less time to trace.
MOST_UNROLLED = 16

# For XLA, which does not keep to the order: scores of all blocks that may be alive at once.
MOST_COMPILED = 2**26

# Loops for XLA, which must know the number of keys that a loop's blocks see: each has blocks that see about as many.
MOST_GROUPS = 8


def attend(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    bias: Any = None,
    *,
    scale: float,
    causal: bool = False,
    window: int | None = None,
    dropout: Dropout | None = None,
    tiling: tuple[int, int] | None = None,
) -> Any:
    """What `kmha.core.attention.attend` says; with `tiling`, in blocks, else in one piece."""
    batch, length, heads, _ = sizes_of(query)
    sizes = heads, batch, length, sizes_of(key)[1]
    full = batch, heads, *sizes[2:]
    mask = None if mask is None else _heads_first_mask(tf.cast(mask, "bool"), full, known=(2, 3))
    height, alive = tiling or (0, 1)
    problem = Problem(*sizes, scale, causal, window, mask, height=height, alive=alive)
    if dropout is not None:
        seed = tf.cast(tf.convert_to_tensor(dropout.seeds.next()), "int32")
        problem = dataclasses.replace(problem, rate=dropout.rate, seed=seed)
    inputs = [_heads_first(tf.convert_to_tensor(x)) for x in (query, key, value)]
    if bias is not None:
        # Its gradient is summed over axes of one: so all must be known, not those alone that are cut into blocks.
        inputs.append(_heads_first_mask(tf.convert_to_tensor(bias), full, known=(0, 1, 2, 3)))
    mixed = (direct if tiling is None else blocked)(problem, *inputs)
    return tf.transpose(tf.reshape(mixed, (heads, batch, length, value.shape[3])), (1, 2, 0, 3))


def _heads_first(x: Any) -> Any:
    """(B, T, H, O) to (G, T, O). A graph's optimizer cancels the transpose with that at the end of `project_heads`."""
    batch, length, heads, size = sizes_of(x)
    return tf.reshape(tf.transpose(x, (2, 0, 1, 3)), (heads * batch, length, size))


def _heads_first_mask(x: Any, full: tuple[Any, ...], known: tuple[int, ...]) -> Any:
    """What broadcasts to (B, H, T, S) = `full`, for (H, B, T, S); axes in `known` that may be 1 or not become full."""
    x = tf.reshape(x, (1,) * (4 - len(x.shape)) + sizes_of(x))
    unknown = [axis for axis in known if x.shape[axis] is None]
    if unknown:
        x = tf.broadcast_to(x, [full[axis] if axis in unknown else size for axis, size in enumerate(sizes_of(x))])
    return tf.transpose(x, (1, 0, 2, 3))


def direct(problem: Problem, *inputs: Any) -> Any:
    """Attention in one piece; the gradient takes two passes over the scores less than TensorFlow's own.

    Args:
        problem: the masks, the dropout and the sizes.
        *inputs: query (G, T, O), key (G, S, O), value (G, S, O), and a bias (H or 1, B or 1, T or 1, S or 1) if there
            is one, which is added to the logits.

    Returns:
        (G, T, O), of the query's dtype.
    """
    block = Block(0, problem.length, 0, problem.keys)

    @tf.custom_gradient
    def run(*inputs: Any) -> Any:
        piece = problem.piece(block, *inputs)
        scores = piece.scores()
        mixed = piece.mix(scores)
        # Its operations are recorded like any other, so that a gradient of this gradient is right too.
        return mixed, lambda upstream: piece.gradients(scores, mixed, upstream)

    return run(*inputs)


def blocked(problem: Problem, *inputs: Any) -> Any:
    """Attention in blocks; arguments and result are those of `direct`.

    A gradient of its gradient is right too, but takes the memory that `direct` takes.
    """

    @tf.custom_gradient
    def run(*inputs: Any) -> Any:
        # Without `stop_gradient`, an eager tape would record every block, and keep its scores.
        mixed = _forward(problem, *map(tf.stop_gradient, inputs))

        @tf.custom_gradient
        def backward(upstream: Any, *inputs: Any) -> Any:
            stopped = [tf.stop_gradient(x) for x in (upstream, mixed, *inputs)]
            gradients = _backward(problem, *stopped)
            return gradients, lambda *further: _second(problem, upstream, inputs, further)

        return mixed, lambda upstream: backward(upstream, *inputs)

    return run(*inputs)


def _second(problem: Problem, upstream: Any, inputs: Any, further: Any) -> list[Any]:
    """The gradients of the gradients, for `upstream` and the inputs, when `further` come from above."""
    with tf.GradientTape() as outer:
        outer.watch([upstream, *inputs])
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            mixed = _forward(problem, *inputs)
        gradients = inner.gradient(mixed, inputs, output_gradients=upstream)
    if None in gradients:
        raise NotImplementedError(
            "Attention in blocks has no derivative in forward mode (tf.autodiff.ForwardAccumulator). Give the layer "
            "flash_attention=False, or set KMHA_ATTENTION_PATH=direct, for attention in one piece, which has."
        )
    return outer.gradient(gradients, [upstream, *inputs], output_gradients=further)


def _forward(problem: Problem, *inputs: Any) -> Any:
    spans, loops = _spans(problem)
    mixed: list[Any] = []
    for span in spans:
        with _after(mixed[-problem.alive :][:1] if len(mixed) >= problem.alive else [], inputs, loops) as tied:
            if loops:
                mixed.append(looped.forward(problem, span, *tied))
            else:
                piece = problem.piece(span, *tied)
                mixed.append(piece.mix(piece.scores()))
    return _joined(mixed)


def _backward(problem: Problem, upstream: Any, mixed: Any, *inputs: Any) -> list[Any]:
    spans, loops = _spans(problem)
    d_query, d_bias, d_key, d_value, order = [], [], _Sweep(), _Sweep(), [[upstream]] * problem.alive
    for span in spans:
        with _after(order[-problem.alive], inputs, loops) as tied:
            if loops:
                gradients = looped.backward(problem, span, upstream, mixed, *tied)
            else:
                piece = problem.piece(span, *tied)
                gradients = piece.gradients(piece.scores(), span.rows_of(mixed), span.rows_of(upstream))
            d_query.append(gradients[0])
            d_key.add(span, gradients[1])
            d_value.add(span, gradients[2])
            d_bias += [_widened(x, span, problem, like) for x, like in zip(gradients[3:], inputs[3:], strict=True)]
            order.append([d_query[-1], d_key.open, d_value.open, *d_bias[-1:]])
    gradients = [_joined(d_query), d_key.total(problem.keys), d_value.total(problem.keys)]
    return gradients + [_joined_bias(d_bias, x) for x in inputs[3:]]


def _spans(problem: Problem) -> tuple[list[Block], bool]:
    """What is written out one after the other, and whether each is a loop over blocks, and not one block itself."""
    compiled, few = is_compiled(), problem.is_static and problem.length <= problem.height * MOST_UNROLLED
    if compiled:  # it would hold the scores of all blocks
        few = few and isinstance(problem.batch, int) and problem.size <= MOST_COMPILED
    if tf.executing_eagerly() or few:
        return list(problem.blocks(problem.height)) or [problem.block(0, 0)], False
    if compiled and problem.is_static:
        rows = problem.height * max(1, problem.length // (problem.height * MOST_GROUPS))
        return list(problem.blocks(rows)) or [problem.block(0, 0)], True
    return [Block(0, problem.length, 0, problem.keys)], True


@contextlib.contextmanager
def _after(previous: list[Any], inputs: Any, loops: bool) -> Iterator[Any]:
    """Makes what is written inside wait for `previous`: gives the inputs to be used there."""
    if previous and loops and is_compiled():  # XLA does not know control dependencies
        tied = gen_xla_ops.xla_optimization_barrier(input=[*inputs[:1], *previous])
        yield tied[0], *inputs[1:]
    else:
        with tf.control_dependencies(previous):
            yield inputs


class _Sweep:
    """Sums what the blocks give for the keys that they saw.

    Blocks come in order, and the keys they see never move back: so the sums of keys before a block's first are
    finished, and only those of its own span are touched.
    """

    def __init__(self) -> None:
        self.finished: list[Any] = []
        self.open: Any = None
        self.low = self.high = 0

    def add(self, block: Block, gradient: Any) -> None:
        if self.open is None:
            self.open = gradient
        else:
            if block.low > self.low:
                self.finished.append(self.open[:, : block.low - self.low])
                self.open = self.open[:, block.low - self.low :]
            seen = self.high - block.low
            self.open = self.open + gradient[:, :seen]
            if block.high > self.high:
                self.open = tf.concat([self.open, gradient[:, seen:]], axis=1)
        self.low, self.high = block.low, block.high

    def total(self, keys: int) -> Any:
        """(G, S, O)."""
        total = _joined([*self.finished, self.open])
        return total if same(self.high, keys) else padded(total, 1, 0, keys - self.high)


def _joined(pieces: list[Any]) -> Any:
    return tf.concat(pieces, axis=1) if len(pieces) > 1 else pieces[0]


def _widened(gradient: Any, block: Block, problem: Problem, bias: Any) -> Any:
    """A block's gradient of the bias, (H, B, T, S of the block), with zeros where the block has no keys."""
    if bias.shape[3] == 1:
        return gradient
    return padded(gradient, 3, block.low, problem.keys - block.high)


def _joined_bias(pieces: list[Any], bias: Any) -> Any:
    return tf.add_n(pieces) if bias.shape[2] == 1 else tf.concat(pieces, axis=2)
