"""The projection to the vocabulary together with its loss, label-smoothed cross-entropy.

With N tokens and a vocabulary of V, the logits (N, V) are by far the largest tensor of a translation model, and the
loss only needs a few sums of them. So on TensorFlow (`kmha.core.chunked_cross_entropy`) the logits are computed, used
and discarded for some tokens at a time, and are never all in memory.
"""

import dataclasses
import math
from typing import NamedTuple

import keras
from keras import ops

from kmha.core.tensors import Tensor, at_least_float32


class Sums(NamedTuple):
    """Scalars over all tokens that are not padding. They are float32, or float64 if the features are float64.

    Attributes:
        loss: Loss to train on. It is the only one of the four with a gradient.
        negative_log_likelihood: Σ -log p(target) without smoothing, from which the perplexity is computed.
        correct: Number of tokens where the target has the largest logit.
        count: Number of tokens.
    """

    loss: Tensor
    negative_log_likelihood: Tensor
    correct: Tensor
    count: Tensor


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of `token_cross_entropy` that are not tensors."""

    transposed: bool
    smoothing: float
    consistency: float
    pad_id: int
    chunk: int | None


def token_cross_entropy(
    features: Tensor,
    kernel: Tensor,
    targets: Tensor,
    *,
    bias: Tensor = None,
    transposed: bool,
    smoothing: float = 0.0,
    consistency: float = 0.0,
    chunk: int | None = None,
    pad_id: int = 0,
    gradient: bool = True,
) -> Sums:
    """Return Σ over tokens of -Σ over v of q(v) · log p(v), with p = softmax(features · kernel + bias).

    q is the smoothed label of the target: (1 - ε) · onehot(target) + ε / V (Szegedy et al. 2016, arXiv 1512.00567,
    section 7; the convention of `keras.losses.CategoricalCrossentropy(label_smoothing=ε)`). The logits are computed in
    the features' dtype, and the rest in float32 at least.

    With `consistency`, the tokens are those of two passes of a model over the same text, one after the other, which
    differ by their dropout: token i and token i + N / 2 belong together. The loss also has α · ½ (KL(p₁ ‖ p₂) +
    KL(p₂ ‖ p₁)) for each two of them (R-Drop, Liang et al. 2021, arXiv 2106.14448, equation 4).

    The upstream gradient of a sum is a single number. On TensorFlow, the gradients are therefore computed in the
    forward pass, while the logits are in memory. The backward pass only scales them (as in Liger Kernel, Hsu et al.
    2024, arXiv 2410.10989). So the loss has no second derivative, and cannot be differentiated in forward mode.

    Args:
        features: Inputs (N, D) of the projection, floating point, for N tokens.
        kernel: Kernel (D, V), or (V, D) if `transposed`, of the features' dtype.
        targets: Token ids (N,), integers, which are below V except for padding.
        bias: Bias (V,) of the features' dtype, or `None`.
        transposed: Take a kernel (V, D), such as a tied embedding.
        smoothing: ε of the label smoothing, at least 0 and below 1.
        consistency: α, at least 0. Above 0, the second half of the targets must be the same as the first.
        chunk: Number of tokens at a time on TensorFlow. `None` means as many as fit into a processor's cache.
        pad_id: Target of padding tokens, which do not count.
        gradient: Prepare the gradients. `False` saves this work if the loss is not differentiated, as in validation.

    Returns:
        `Sums`.

    Raises:
        ValueError: If shapes or dtypes do not match, or if `smoothing`, `consistency` or `chunk` is out of range.

    >>> import numpy as np
    >>> sums = token_cross_entropy(np.eye(3), 2 * np.eye(3), np.array([2, 1, 0]), transposed=False)
    >>> [round(float(x), 3) for x in sums]  # the second of two tokens is right; -log p is 2.24 and 0.24
    [2.479, 2.479, 1.0, 2.0]
    """
    features, kernel, targets = (ops.convert_to_tensor(x) for x in (features, kernel, targets))
    bias = None if bias is None else ops.convert_to_tensor(bias)
    options = Options(transposed, smoothing, consistency, pad_id, chunk)
    _check(options, features, kernel, targets, bias)
    if keras.backend.backend() == "tensorflow":
        from kmha.core import chunked_cross_entropy

        return Sums(*chunked_cross_entropy.sums(options, gradient, features, kernel, targets, bias))
    return Sums(*_in_one_piece(options, features, kernel, targets, bias))


def _in_one_piece(
    options: Options, features: Tensor, kernel: Tensor, targets: Tensor, bias: Tensor
) -> tuple[Tensor, ...]:
    smoothing = options.smoothing
    logits = ops.matmul(features, ops.transpose(kernel) if options.transposed else kernel)  # (N, V)
    logits = logits if bias is None else ops.add(logits, bias)
    wide = at_least_float32(logits.dtype)
    losses = ops.negative(ops.log_softmax(ops.cast(logits, wide)))
    counted = ops.not_equal(targets, options.pad_id)
    weights, targets = ops.cast(counted, wide), ops.where(counted, targets, 0)
    nll = ops.sum(weights * ops.take_along_axis(losses, targets[:, None], axis=1)[:, 0])
    loss = (1 - smoothing) * nll + smoothing * ops.sum(weights * ops.sum(losses, axis=1)) / logits.shape[1]
    if options.consistency:
        one, other = ops.split(losses, 2)
        apart = ops.sum((ops.exp(-one) - ops.exp(-other)) * (other - one), axis=1)  # KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)
        loss = loss + options.consistency / 2 * ops.sum(ops.split(weights, 2)[0] * apart)
    correct = ops.sum(weights * ops.cast(ops.equal(ops.argmax(logits, axis=1), targets), wide))
    return loss, ops.stop_gradient(nll), correct, ops.sum(weights)


def _check(options: Options, features: Tensor, kernel: Tensor, targets: Tensor, bias: Tensor) -> None:
    transposed, chunk = options.transposed, options.chunk
    shapes = {"features": features, "kernel": kernel, "targets": targets, "bias": bias}
    received = ", ".join(f"{name} {tuple(x.shape)} {x.dtype}" for name, x in shapes.items() if x is not None)
    expected = f"features (N, D), kernel {'(V, D)' if transposed else '(D, V)'}, targets (N,) and bias (V,) or None"
    ranks = len(features.shape), len(kernel.shape), len(targets.shape), 1 if bias is None else len(bias.shape)
    expects = "token_cross_entropy expects"
    if ranks != (2, 2, 1, 1):
        raise ValueError(f"{expects} {expected}. Received: {received}. Fold batch and positions into N.")
    if len({x.dtype for x in (features, kernel, bias) if x is not None}) > 1:
        raise ValueError(f"{expects} features, kernel and bias of the same dtype. Received: {received}.")
    width, vocabulary = reversed(kernel.shape) if transposed else kernel.shape
    if features.shape[1] != width or (bias is not None and bias.shape[0] != vocabulary):
        raise ValueError(
            f"{expects} {expected}, with the same D and V everywhere. Received: {received}, with "
            f"transposed={transposed}. An embedding's table is (V, D) and needs transposed=True; the kernel of a Dense "
            "layer is (D, V)."
        )
    if None not in (features.shape[0], targets.shape[0]) and features.shape[0] != targets.shape[0]:
        raise ValueError(f"{expects} one target for each of the N tokens. Received: {received}.")
    if not 0 <= options.smoothing < 1:
        raise ValueError(f"{expects} 0 <= smoothing < 1. Received: smoothing={options.smoothing}.")
    if not 0 <= options.consistency < math.inf:
        raise ValueError(f"{expects} 0 <= consistency. Received: consistency={options.consistency}.")
    if options.consistency and (targets.shape[0] or 0) % 2:
        raise ValueError(f"{expects} the tokens of two passes with consistency. Received: {received}.")
    if chunk is not None and chunk < 1:
        raise ValueError(f"{expects} a chunk of at least one token, or None. Received: chunk={chunk}.")
