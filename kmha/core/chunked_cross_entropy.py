"""`cross_entropy.token_cross_entropy` on TensorFlow, in chunks of tokens, with gradients in the forward pass."""

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from kmha.core.dynamic_shapes import is_compiled, maximum, sizes_of
from kmha.core.tensors import Tensor, at_least_float32

if TYPE_CHECKING:
    from kmha.core.cross_entropy import Options

# Maximum number of logits in a chunk: 16 MB in float32, which fits into a processor's cache.
MOST_LOGITS = 2**22

# Minimum number of tokens in a chunk. Each chunk adds to the gradient of the full kernel, which takes time.
FEWEST_TOKENS = 512


def sums(
    options: "Options", gradient: bool, features: Tensor, kernel: Tensor, targets: Tensor, bias: Tensor
) -> tuple[Tensor, ...]:
    """Return loss, negative log-likelihood, correct and count for the arguments of `token_cross_entropy`."""
    inputs = [features, kernel] if bias is None else [features, kernel, bias]
    if not gradient:
        return _ChunkLoop(options, targets, *map(tf.stop_gradient, inputs)).run(False)[0]

    @tf.custom_gradient
    def run(*inputs: Tensor) -> Any:
        # Without `stop_gradient`, an eager tape would record every chunk, and keep its logits.
        results, gradients = _ChunkLoop(options, targets, *map(tf.stop_gradient, inputs)).run(True)
        return results, lambda *upstream: _scaled(upstream[0], gradients, inputs)

    loss, *others = run(*inputs)
    return loss, *map(tf.stop_gradient, others)


def _scaled(upstream: Tensor, gradients: Any, inputs: Any) -> Any:
    @tf.custom_gradient
    def scale(upstream: Tensor, *inputs: Tensor) -> Any:
        def second(*further: Tensor) -> Any:
            raise NotImplementedError(
                "token_cross_entropy computes its gradient in the forward pass. That gradient has no derivative, "
                "and the loss has none in forward mode (tf.autodiff.ForwardAccumulator). If you need either, "
                "compute the logits and use keras.losses.CategoricalCrossentropy."
            )

        return [tf.cast(upstream * tf.cast(d, upstream.dtype), d.dtype) for d in gradients], second

    scaled = scale(upstream, *inputs)
    return [tf.cast(d, x.dtype) for d, x in zip(scaled, inputs, strict=True)]


class _ChunkLoop:
    """A loop over the chunks of one call, all of one height. The last chunk is padded with tokens of weight zero."""

    def __init__(
        self, options: "Options", targets: Tensor, features: Tensor, kernel: Tensor, bias: Tensor = None
    ) -> None:
        self.options, self.features, self.kernel, self.bias = options, features, kernel, bias
        self.vocabulary = kernel.shape[0 if options.transposed else 1]
        self.wide = tf.as_dtype(at_least_float32(features.dtype))
        self._uniform = options.smoothing / self.vocabulary
        self._sum_of_kernel = tf.reduce_sum(tf.cast(kernel, self.wide), axis=0 if options.transposed else 1)  # (D,)
        self.passes = 2 if options.consistency else 1
        targets = tf.cast(targets, tf.int32)
        self._behind = sizes_of(targets)[0] // self.passes  # a token of the second pass is so far behind its first
        targets = targets[: self._behind]
        counted = targets != options.pad_id
        if is_compiled():  # XLA must know the number of tokens before it runs
            self.tokens, weights = tf.range(self._behind), tf.cast(counted, self.wide)
        else:
            self.tokens = tf.cast(tf.where(counted)[:, 0], tf.int32)
            weights = tf.ones_like(self.tokens, self.wide)
        total = sizes_of(self.tokens)[0]
        height = options.chunk or max(FEWEST_TOKENS, MOST_LOGITS // self.vocabulary)
        height = min(height, 2**31 // self.vocabulary)  # an int32 counts the logits
        height = max(1, height // self.passes)
        self.chunks = maximum(1, -(-total // height))
        height = -(-total // self.chunks)  # chunks of almost equal heights
        missing = self.chunks * height - total
        rows = tf.reshape(tf.pad(self.tokens, [[0, missing]]), (self.chunks, height))
        weights = tf.reshape(tf.pad(weights, [[0, missing]]), (self.chunks, height))
        # Each chunk has the same tokens of all passes, one pass after the other.
        self.height = self.passes * height
        self.rows = tf.concat([rows + number * self._behind for number in range(self.passes)], axis=1)
        self.weights = tf.concat([weights] * self.passes, axis=1)
        self.targets = tf.concat([tf.gather(tf.where(counted, targets, 0), rows)] * self.passes, axis=1)

    def run(self, gradient: bool) -> tuple[tuple[Tensor, ...], list[Tensor]]:
        """Return the four results and, if `gradient` is true, the gradients of features, kernel and bias."""
        zero, width = tf.zeros((), self.wide), self.features.shape[1]
        state = [zero, zero, zero, zero, tf.zeros((width,), self.wide)]
        if gradient:
            shape = [self.height if isinstance(self.height, int) else None, width]
            state += [tf.TensorArray(self.features.dtype, self.chunks, element_shape=shape)]
            state += [tf.zeros(x.shape, self.wide) for x in (self.kernel, self.bias) if x is not None]

        def body(index: Tensor, *state: Any) -> Any:
            return index + 1, *self._chunk(index, *state)

        start = (tf.constant(0), *state)
        state = tf.while_loop(lambda index, *_: index < self.chunks, body, start, parallel_iterations=1)[1:]
        return self._results(*state[:5]), self._gradients(*state[4:]) if gradient else []

    def _chunk(
        self,
        index: Tensor,
        normalizers: Tensor,
        logits_of_targets: Tensor,
        correct: Tensor,
        apart: Tensor,
        sum_of_features: Tensor,
        *d: Any,
    ) -> list[Any]:
        """Return the state after one more chunk."""
        features = tf.gather(self.features, self.rows[index])
        targets, weights = self.targets[index], self.weights[index]
        logits = tf.matmul(features, self.kernel, transpose_b=self.options.transposed)  # (chunk, V)
        logits = tf.cast(logits if self.bias is None else tf.nn.bias_add(logits, self.bias), self.wide)
        p = tf.nn.softmax(logits)
        of_target = tf.gather_nd(logits, tf.stack([tf.range(self.height), targets], axis=1))
        best, p_of_best = tf.reduce_max(logits, axis=1), tf.reduce_max(p, axis=1)  # a third of the time of tf.argmax
        # log Σ exp(logits), computed at the largest p, which is at least 1 / V and so has no large rounding error.
        normalizer = best - tf.math.log(p_of_best)
        weighted = tf.cast(weights[:, None], features.dtype) * features
        used = [p_of_best]
        if self.passes > 1:
            more, d_more = self._inconsistency(p, logits - normalizer[:, None], weights)
            apart, used = apart + more, [p_of_best, d_more]
        state = [
            normalizers + tf.reduce_sum(weights * normalizer),
            logits_of_targets + tf.reduce_sum(weights * of_target),
            correct + tf.reduce_sum(weights * tf.cast(of_target == best, self.wide)),
            apart,
            sum_of_features + tf.reduce_sum(tf.cast(weighted, self.wide), axis=0),
        ]
        if d:
            with tf.control_dependencies(used):  # all other reads of p are done
                error = _add_at_targets(p, targets, self.options.smoothing - 1)
            error = error + d_more if self.passes > 1 else error
            state += self._add_gradients(index, error, weights, weighted, *d)
        return state

    def _inconsistency(self, p: Tensor, log_p: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the consistency adds to the loss, and its gradient in the logits (chunk, V), without weights."""
        one, other = tf.split(p, 2)
        ratio = tf.subtract(*tf.split(log_p, 2))  # log p₁ - log p₂
        difference = one - other
        forward, backward = (tf.reduce_sum(part * ratio, axis=1, keepdims=True) for part in (one, other))
        loss = tf.reduce_sum(tf.split(weights, 2)[0] * (forward - backward)[:, 0])  # KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)
        d_one, d_other = one * (ratio - forward) + difference, other * (backward - ratio) - difference
        half = self.options.consistency / 2
        return half * loss, half * tf.concat([d_one, d_other], axis=0)

    def _add_gradients(
        self, index: Tensor, error: Tensor, weights: Tensor, weighted: Tensor, rows: Any, *sums: Tensor
    ) -> list[Any]:
        """Return the gradients after one more chunk, where `error` (chunk, V) is its p - (1 - ε) · onehot."""
        dtype, transposed = self.features.dtype, self.options.transposed
        narrow = tf.cast(error, dtype)
        d_features = tf.matmul(narrow, self.kernel, transpose_b=not transposed)  # (chunk, D)
        d_features = weights[:, None] * (tf.cast(d_features, self.wide) - self._uniform * self._sum_of_kernel)
        left, right = (narrow, weighted) if transposed else (weighted, narrow)
        added = [tf.matmul(left, right, transpose_a=True)]
        if self.bias is not None:
            added.append(tf.linalg.matvec(error, weights, transpose_a=True))
        added = [total + tf.cast(more, self.wide) for total, more in zip(sums, added, strict=True)]
        return [rows.write(index, tf.cast(d_features, dtype)), *added]

    def _results(
        self, normalizers: Tensor, logits_of_targets: Tensor, correct: Tensor, apart: Tensor, sum_of_features: Tensor
    ) -> Any:
        """Return the four results. The sum of the logits over v is computed as features · Σ kernel + Σ bias."""
        count = tf.reduce_sum(self.weights)
        logits = tf.reduce_sum(sum_of_features * self._sum_of_kernel)
        if self.bias is not None:
            logits += count * tf.reduce_sum(tf.cast(self.bias, self.wide))
        nll = normalizers - logits_of_targets
        uniform = normalizers - logits / self.vocabulary
        loss = (1 - self.options.smoothing) * nll + self.options.smoothing * uniform + apart
        return loss, nll, correct, count

    def _gradients(self, sum_of_features: Tensor, rows: Any, d_kernel: Tensor, *d_bias: Tensor) -> list[Tensor]:
        """Finish the gradients. Put the rows in their places, and subtract ε / V, which is the same for all v."""
        total, width = sizes_of(self.tokens)[0], self.features.shape[1]
        of_passes = (tf.reshape(one, (-1, width))[:total] for one in tf.split(rows.stack(), self.passes, axis=1))
        places, shape = self.tokens[:, None], (self._behind, width)
        d_features = tf.concat([tf.scatter_nd(places, one, shape) for one in of_passes], axis=0)
        uniform = self._uniform * sum_of_features
        d_kernel -= uniform if self.options.transposed else uniform[:, None]
        return [d_features, d_kernel, *(d - self._uniform * tf.reduce_sum(self.weights) for d in d_bias)]


def _add_at_targets(p: Tensor, targets: Tensor, number: float) -> Tensor:
    """Return `p` (chunk, V) with a number added at each token's target. This overwrites `p`, so do not use `p` again.

    Under XLA, only `tf.tensor_scatter_nd_add` is possible, which copies `p` and takes as long as the softmax.
    """
    chunk, vocabulary = sizes_of(p)
    number = tf.constant(number, p.dtype)
    if is_compiled():
        at = tf.stack([tf.range(chunk), targets], axis=1)
        return tf.tensor_scatter_nd_add(p, at, tf.fill((chunk,), number))
    at = tf.range(chunk) * vocabulary + targets
    flat = tf.reshape(p, (chunk * vocabulary, 1))
    return tf.reshape(tf.raw_ops.InplaceAdd(x=flat, i=at, v=tf.fill((chunk, 1), number)), (chunk, vocabulary))
