"""How important each head is for a model: by turning it off, or by the derivative of the loss."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from kmha.core.gradients import gradients
from kmha.core.tensors import Tensor
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.pruning import check_layer, without_heads


def ablation_importance(
    layers: Sequence[MultiHeadAttention], measure: Callable[[], Any], done: Callable[[], Any] = lambda: None
) -> list[np.ndarray]:
    """Return by how much a measure changes if one head is off, for each head (Michel et al. 2019, section 3.2).

    Args:
        layers: Built layers of a model.
        measure: Function that returns a loss or a score of the model, without dropout. A loss that rises without a head
            gives a positive change, and a score that falls gives a negative one.
        done: Function to call after each head, for instance to show the progress.

    Returns:
        An array (H,) for each layer, the measure without the head minus the measure of the whole model, float64.

    Raises:
        TypeError: A layer is not a `kmha.MultiHeadAttention`.
        ValueError: A layer is not built, or is quantized.

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> x = keras.random.normal((2, 7, 4), seed=1)
    >>> target = layer(x, x)
    >>> [changes] = ablation_importance([layer], lambda: keras.ops.mean((layer(x, x) - target) ** 2))
    >>> changes.shape, bool((changes > 0).all())
    ((3,), True)
    """
    for layer in layers:
        check_layer("ablation_importance", layer)
    whole = _number(measure())
    changes = []
    for layer in layers:
        changes.append(np.zeros(layer.num_heads))
        for head in range(layer.num_heads):
            with without_heads(layer, head):
                changes[-1][head] = _number(measure()) - whole
            done()
    return changes


def gradient_importance(
    layers: Sequence[MultiHeadAttention], loss: Callable[[], Tensor], batch_size: int
) -> list[np.ndarray]:
    """Return how strongly a loss depends on a gate at each head: the mean of |∂loss/∂gate| over the items of a batch.

    The gate ξ multiplies what the head gives to the output projection. It is 1, so it changes nothing. This is the
    importance of Michel et al. 2019 (arXiv 1905.10650, equation 2). One backward pass gives it for all heads.

    Args:
        layers: Built layers of a model.
        loss: Function that calls the model, without dropout, and returns the sum of the losses of the items, a scalar.
        batch_size: Number of items in the batch (B). Each item has gates of its own.

    Returns:
        An array (H,) for each layer.

    Raises:
        TypeError: A layer is not a `kmha.MultiHeadAttention`.
        ValueError: A layer is not built, is quantized, is given twice, is called with another batch size, or is not
            called by the loss.

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> x = keras.random.normal((2, 7, 4), seed=1)
    >>> output = layer(x, x)
    >>> [importance] = gradient_importance([layer], lambda: keras.ops.sum(layer(x, x) ** 2), batch_size=2)
    >>> importance.shape, bool((importance > 0).all())
    ((3,), True)
    """
    for layer in layers:
        check_layer("gradient_importance", layer)
        if sum(other is layer for other in layers) > 1:
            raise ValueError(
                f"gradient_importance: expected different layers. Received: {layer.name!r} twice. Give it once: its "
                "importance counts all its calls."
            )
    dtypes = ["float64" if layer.variable_dtype == "float64" else "float32" for layer in layers]
    gates = [np.ones((batch_size, layer.num_heads), dtype) for layer, dtype in zip(layers, dtypes, strict=True)]

    def gated(tensors: list[Tensor]) -> Tensor:
        with contextlib.ExitStack() as stack:
            calls = [stack.enter_context(_gated(*pair)) for pair in zip(layers, tensors, strict=True)]
            total = loss()
        for layer, shapes in zip(layers, calls, strict=True):
            if not shapes:
                raise ValueError(
                    f"gradient_importance: expected a loss that calls the layer {layer.name!r}. Received: a loss that "
                    "does not call it, or only in a function that was compiled before, such as that of `predict`. Call "
                    "the model itself, `model(x, training=False)`, and do not compile the loss."
                )
        return total

    return [np.abs(found).mean(axis=0) for found in gradients(gated, gates)]


def _number(value: Any) -> float:
    """Return a number or a scalar tensor as a float."""
    return float(ops.convert_to_numpy(value))


@contextlib.contextmanager
def _gated(layer: MultiHeadAttention, gate: Tensor) -> Iterator[list[Any]]:
    """Multiply the inputs of the layer's output projection, (B, T, H, O), by a gate (B, H). Yield their shapes."""
    dense = layer.output_dense
    call, own = dense.call, "call" in vars(dense)
    shapes: list[Any] = []

    def gated(mixed: Tensor, **kwargs: Any) -> Tensor:
        if mixed.shape[0] != gate.shape[0]:
            raise ValueError(
                f"gradient_importance: expected calls of {layer.name!r} with B = {gate.shape[0]}, the `batch_size`. "
                f"Received: B = {mixed.shape[0]}."
            )
        shapes.append(mixed.shape)
        shape = gate.shape[0], *[1] * (len(mixed.shape) - 3), gate.shape[1], 1
        return call(ops.multiply(mixed, ops.cast(ops.reshape(gate, shape), mixed.dtype)), **kwargs)

    vars(dense)["call"] = gated  # without Keras' tracking
    try:
        yield shapes
    finally:
        if own:
            vars(dense)["call"] = call
        else:
            del vars(dense)["call"]
