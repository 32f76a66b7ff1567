"""Rows: derivatives, transformations of programs, several devices, and code that extends or replaces the layer."""

import contextlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from kmha.patch import patch_keras
from kmha.verify.comparing.ecosystem.row import JAX, TENSORFLOW, TORCH, row
from kmha.verify.comparing.ecosystem.small import E, H, I, O, T, array, data, finite, fit, model, must, same


def _function(layer: Any) -> tuple[Any, Any]:
    """Return a function of one item (T, I) and the item."""
    made = model(layer)
    return lambda x: made(x[None])[0], ops.convert_to_tensor(data()[0][0])


@row("Jacobian", apart=True)
def jacobian(layer: Any, folder: Path) -> Any:
    function, x = _function(layer)
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = function(x)
                total = ops.sum(y)
            expected, found = array(tape.gradient(total, x)), array(tape.jacobian(y, x))
            same(found.sum(axis=(0, 1)), expected, "the sum of its rows")
            return found
        case "jax":
            import jax

            return finite(jax.jacrev(function)(x))
    import torch

    return finite(torch.autograd.functional.jacobian(function, x))


@row("second derivative")
def second_derivative(layer: Any, folder: Path) -> Any:
    function, x = _function(layer)
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = ops.sum(function(x) ** 2)
                first = ops.sum(inner.gradient(y, x) ** 2)
            return array(outer.gradient(first, x))
        case "jax":
            import jax

            first = jax.grad(lambda x: ops.sum(function(x) ** 2))
            return array(jax.grad(lambda x: ops.sum(first(x) ** 2))(x))
    import torch

    x.requires_grad_()
    [first] = torch.autograd.grad(torch.sum(function(x) ** 2), x, create_graph=True)
    return array(torch.autograd.grad(torch.sum(first**2), x)[0])


@row("forward-mode derivative")
def forward_mode(layer: Any, folder: Path) -> Any:
    function, x = _function(layer)
    direction = ops.ones_like(x)
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            with tf.autodiff.ForwardAccumulator(x, direction) as accumulator:
                y = function(x)
            return array(accumulator.jvp(y))
        case "jax":
            import jax

            return array(jax.jvp(function, (x,), (direction,))[1])
    import torch

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the fused kernel has no such derivative
        return array(torch.func.jvp(function, (x,), (direction,))[1])


@row("vectorized over items (vmap)", apart=True)
def vectorized(layer: Any, folder: Path) -> Any:
    function, _ = _function(layer)
    x = ops.convert_to_tensor(data()[0])
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            expected = np.stack([array(function(item)) for item in x])
            return same(array(tf.vectorized_map(function, x)), expected, "tf.vectorized_map")
        case "jax":
            import jax

            return finite(jax.vmap(function)(x))
    import torch

    with torch.no_grad():
        return finite(torch.func.vmap(function)(x))


@row("tf.function, unknown shapes", TENSORFLOW)
def traced(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    attention, x = layer(H, O), data()[0]
    attention.build(x.shape, x.shape)
    function = tf.function(lambda x: attention(x, x, use_causal_mask=True), [tf.TensorSpec((None, None, I))])
    return array(function(x))


@row("tf.while_loop, tf.map_fn", TENSORFLOW)
def looped(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    function, _ = _function(layer)
    return array(tf.function(lambda x: tf.map_fn(function, x))(data()[0]))


@row("jax.jit, jax.grad, jax.checkpoint", JAX)
def jax_transformed(layer: Any, folder: Path) -> Any:
    import jax

    function, x = _function(layer)
    return array(jax.jit(jax.grad(jax.checkpoint(lambda x: ops.sum(function(x) ** 2))))(x))


@row("torch.compile", TORCH)
def torch_compiled(layer: Any, folder: Path) -> Any:
    import torch

    attention, x = layer(H, O), torch.tensor(data()[0])
    attention.build(x.shape, x.shape)
    with torch.no_grad():
        return array(torch.compile(lambda x: attention(x, x), backend="aot_eager")(x))


@row("torch.func.functional_call", TORCH)
def functional_call(layer: Any, folder: Path) -> Any:
    import torch

    made, x = model(layer), torch.tensor(data()[0])
    halved = {name: weight.detach() / 2 for name, weight in made.named_parameters()}
    return array(torch.func.functional_call(made, halved, (x,)))


@row("torch.utils.checkpoint", TORCH)
def torch_checkpoint(layer: Any, folder: Path) -> Any:
    import torch
    from torch.utils.checkpoint import checkpoint

    made, x = model(layer), torch.tensor(data()[0], requires_grad=True)
    torch.sum(checkpoint(made, x, use_reentrant=False) ** 2).backward()
    return array(x.grad)


@row("MirroredStrategy, 2 devices", TENSORFLOW)
def mirrored(layer: Any, folder: Path) -> Any:
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        made = model(layer)
        made.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
        return np.array(made.fit(*data(), batch_size=4, shuffle=False, verbose=0).history["loss"])


@row("keras.distribution.DataParallel, 2 devices", JAX)
def data_parallel(layer: Any, folder: Path) -> Any:
    return _distributed(layer, keras.distribution.DataParallel(devices=keras.distribution.list_devices()))


@row("keras.distribution.ModelParallel, 2 devices", JAX)
def model_parallel(layer: Any, folder: Path) -> Any:
    mesh = keras.distribution.DeviceMesh((1, 2), ("batch", "model"), keras.distribution.list_devices())
    layout = keras.distribution.LayoutMap(mesh)
    heads = ("model", None, None) if layer is not keras.layers.MultiHeadAttention else (None, "model", None)
    layout[".*(query|key|value)/kernel"] = heads  # the built-in's kernels are (I, H, O)
    layout[".*attention_output/kernel"] = ("model", None, None)
    return _distributed(layer, keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))


def _distributed(layer: Any, distribution: Any) -> Any:
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(distribution)
    try:
        return fit(model(layer), optimizer="sgd")
    finally:
        keras.distribution.set_distribution(before)


def _subclass(layer: Any) -> Any:
    """Return a subclass with a mask, a softmax and an attention of its own, as KerasHub's models write them."""

    class Subclass(layer):
        def _compute_causal_mask(self, query: Any, value: Any = None) -> Any:
            return ops.expand_dims(ops.tril(ops.ones((T, T), dtype="bool"), k=1), 0)

        def _masked_softmax(self, attention_scores: Any, attention_mask: Any = None) -> Any:
            return super()._masked_softmax(2.0 * attention_scores, attention_mask)

        def _compute_attention(self, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            return super()._compute_attention(query + 1.0, key, value, *args, **kwargs)

    return Subclass


@row("subclass: own mask, softmax, attention")
def overridden(layer: Any, folder: Path) -> Any:
    x = data()[0]
    return [array(y) for y in _subclass(layer)(H, O)(x, x, use_causal_mask=True, return_attention_scores=True)]


@row("subclass: own call from the projections")
def own_call(layer: Any, folder: Path) -> Any:
    class Own(layer):
        def call(self, query: Any, value: Any, key: Any = None, **kwargs: Any) -> Any:
            heads = self._query_dense(query), self._key_dense(value), self._value_dense(value)
            return self._output_dense(self._compute_attention(*heads)[0])

    return fit(model(Own))


@row("KerasHub: BertBackbone", needs={"keras_hub": "bench"})
def bert(layer: Any, folder: Path) -> Any:
    from keras_hub.models import BertBackbone

    with _as_built_in(layer):
        backbone = BertBackbone(20, 2, 2, 8, 12, dropout=0.0)
    must(sum(isinstance(part, layer) for part in backbone._flatten_layers()) == 2, "the backbone has other layers")
    tokens = np.arange(2 * T).reshape(2, T)
    given = {"token_ids": tokens, "segment_ids": tokens % 2, "padding_mask": tokens % 4 != 3}
    return [array(y) for y in backbone(given).values()]


@row("KerasHub: TransformerEncoder", needs={"keras_hub": "bench"})
def hub_block(layer: Any, folder: Path) -> Any:
    from keras_hub.layers import TransformerEncoder

    with _as_built_in(layer):
        block = TransformerEncoder(9, 2)
        return array(block(data()[0], padding_mask=data()[0][..., 0] > 0))


def _as_built_in(layer: Any) -> Any:
    return contextlib.nullcontext() if layer is keras.layers.MultiHeadAttention else patch_keras()


@row("a block of Keras layers, in a custom layer")
def block(layer: Any, folder: Path) -> Any:
    class Block(keras.layers.Layer):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.attention = layer(H, O)
            self.norms = [keras.layers.LayerNormalization() for _ in range(2)]
            self.dense = keras.layers.Dense(I, "gelu")

        def build(self, shape: Any) -> None:
            self.attention.build(shape, shape)
            for part in (*self.norms, self.dense):
                part.build(shape)

        def call(self, x: Any) -> Any:
            x = x + self.attention(self.norms[0](x), self.norms[0](x))
            return x + self.dense(self.norms[1](x))

    inputs = keras.Input((T, I))
    return fit(keras.Model(inputs, keras.layers.Dense(E)(Block()(Block()(inputs)))))


ROWS = (
    jacobian,
    second_derivative,
    forward_mode,
    vectorized,
    traced,
    looped,
    jax_transformed,
    torch_compiled,
    functional_call,
    torch_checkpoint,
    mirrored,
    data_parallel,
    model_parallel,
    overridden,
    own_call,
    block,
    bert,
    hub_block,
)
