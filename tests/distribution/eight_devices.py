"""What `head_parallel` does on eight simulated devices, as JSON. `test_layouts.py` runs it in a process of its own."""

import json
import os
import warnings

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
# Without optimizations for the processor, compiling takes half the time.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"

import jax
import keras
import numpy as np

import kmha
from kmha.bench.collectives import collectives
from kmha.distribution import head_parallel

B, T, S, D, H, O, HIDDEN = 4, 5, 7, 26, 8, 3, 16
RNG = np.random.default_rng(7)
X, Y, MASK = RNG.normal(size=(B, T, D)), RNG.normal(size=(B, S, D + 1)), RNG.random((B, T, S)) < 0.7


def distribution(model=8, batch=1, layouts=head_parallel):
    devices = keras.distribution.list_devices()[: model * batch]
    mesh = keras.distribution.DeviceMesh((batch, model), ("batch", "model"), devices)
    return keras.distribution.ModelParallel(layout_map=layouts(mesh), batch_dim_name="batch")


def for_builtin(mesh):
    """Return a map that splits the heads of the built-in layer."""
    layout_map = keras.distribution.LayoutMap(mesh)
    layout_map["(.*/)?(query|key|value|gate)/kernel"] = (None, "model", None)
    layout_map["(.*/)?(query|key|value|gate)/bias"] = ("model", None)
    layout_map["(.*/)?attention_output/kernel"] = ("model", None, None)
    return layout_map


def make():
    """Return a user's own model: gated cross-attention with a mask, Addons' layer, causal attention, dropout.

    It has no layer normalization, because that of Keras rounds float64 to float32 on JAX.
    """
    x, y, mask = keras.Input((T, D)), keras.Input((S, D + 1)), keras.Input((T, S), dtype="bool")
    attention = kmha.MultiHeadAttention(H, O, value_dim=O + 1, use_gate=True, dropout=0.1, seed=3)
    mixed = x + attention(x, y, attention_mask=mask)
    mixed += kmha.layers.addons.MultiHeadAttention(O, H, output_size=D)([x, y])
    mixed += kmha.MultiHeadAttention(H, O)(mixed, mixed, use_causal_mask=True)
    return keras.Model([x, y, mask], kmha.layers.FeedForward(HIDDEN, D)(mixed))


def train(scope):
    """Return the losses of three steps of Adam, and the outputs after them."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    with scope.scope():
        model = make()
        model.compile(keras.optimizers.Adam(0.01), "mse")
        data = [X, Y, MASK], X[::-1]
        losses = model.fit(*data, batch_size=B, epochs=3, shuffle=False, verbose=0).history["loss"]
        outputs = model.predict(data[0], batch_size=B, verbose=0)
    return losses, outputs.tolist()


class One:
    """A single device without any distribution."""

    scope = staticmethod(warnings.catch_warnings)


def training():
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    found = [train(One), *(train(distribution(*mesh)) for mesh in ((2,), (4,), (8,), (4, 2)))]
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    return found


def program(make, inputs, scope, backward=False):
    """Return the collectives of a layer's forward pass, or of loss and gradients of the weights and all inputs."""
    keras.utils.clear_session()
    with scope.scope():
        layer = make()
        inputs = [keras.ops.cast(x, "float32") for x in inputs]
        layer(*inputs)
        layout = keras.distribution.TensorLayout(("batch", None, None), scope.device_mesh)
        inputs = [keras.distribution.distribute_tensor(x, layout) for x in inputs]
        weights, rest = ([v.value for v in kind] for kind in (layer.trainable_variables, layer.non_trainable_variables))

        def forward(weights, *inputs):
            return jax.tree.leaves(layer.stateless_call(weights, rest, *inputs)[0])[0]

        def loss(weights, *inputs):
            return keras.ops.mean(keras.ops.square(forward(weights, *inputs)))

        function = jax.value_and_grad(loss, tuple(range(1 + len(inputs)))) if backward else forward
        found = collectives(jax.jit(function).lower(weights, *inputs).compile().as_text())
    return [(each.kind, each.size) for each in found]


class SelfAttention(kmha.MultiHeadAttention):
    """Attention from x to x, optionally with LoRA."""

    def __init__(self, lora=0):
        super().__init__(H, O)
        self.lora = lora

    def build(self, shape):
        super().build(shape, shape)
        if self.lora:
            self._query_dense.enable_lora(self.lora)

    def call(self, x):
        return super().call(x, x)


def all_collectives():
    sizes = {"embedding_dim": D - 2, "num_heads": H, "fully_connected_dim": HIDDEN}
    makers = {
        "attention": (SelfAttention, [X]),
        "LoRA": (lambda: SelfAttention(lora=2), [X]),
        "feed-forward": (lambda: kmha.layers.FeedForward(HIDDEN, D), [X]),
        "encoder": (lambda: kmha.layers.EncoderLayer(**sizes, norm="pre"), [X[..., 2:]]),
        "decoder": (lambda: kmha.layers.DecoderLayer(**sizes), [X[..., 2:], Y[..., 3:]]),
    }
    found = {
        name: [program(*make, distribution(), backward) for backward in (False, True)] for name, make in makers.items()
    }
    return found


def shards():
    """Return path, shape and the shape on one device of the weights of a layer with LoRA and of a quantized one."""
    found = []
    for change in (lambda layer: layer.enable_lora(2), lambda layer: layer.quantize("int8")):
        keras.utils.clear_session()
        with distribution().scope():
            attention = kmha.MultiHeadAttention(H, O)
            attention(X, X)
            ffn = kmha.layers.FeedForward(HIDDEN, D)
            ffn(X)
            dense = attention.query_dense, attention.output_dense, ffn.dense1, ffn.dense2
            for layer in dense:
                change(layer)
            attention(X, X), ffn(X)
            values = [(v.path, v.shape, v.value.sharding.shard_shape(v.shape)) for d in dense for v in d.variables]
            found.append({path: [shape, shard] for path, shape, shard in values})
    return found


def large():
    """Return the start of a kernel that is large enough for Keras to initialize it on all devices at once."""
    kernels = []
    for scope in (One, distribution()):
        keras.utils.set_random_seed(1)
        with scope.scope():
            layer = kmha.layers.HeadProjection(H, 1024, name="query")
            layer.build((None, None, 1024))
        kernels.append(np.array(layer.kernel.value[:, :2, :2]).tolist())
    return kernels, layer.kernel.value.sharding.shard_shape(layer.kernel.shape)


def messages():
    """Return what is warned of, and the errors."""
    keras.utils.clear_session()
    found = {}

    def say(name, function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                function()
                found[name] = [str(each.message) for each in caught]
            except (ValueError, RuntimeError) as error:
                found[name] = f"{type(error).__name__}: {error}"

    def build(layouts=head_parallel, heads=H, make=kmha.MultiHeadAttention, **kwargs):
        with distribution(layouts=layouts).scope():
            make(heads, O, **kwargs)(X[..., 2:], X[..., 2:])

    def apart(mesh):
        layout_map = keras.distribution.LayoutMap(mesh)
        layout_map[".*kernel"] = (None, "batch", None)
        return layout_map

    def hidden():
        with distribution().scope():
            kmha.layers.FeedForward(HIDDEN + 1, D)(X)

    say("right", build)
    say("the built-in's", lambda: build(for_builtin, name="mha"))
    say("the built-in's layer", lambda: build(for_builtin, make=keras.layers.MultiHeadAttention))
    say("stored apart", lambda: build(apart))
    say("heads", lambda: build(heads=6, name="mha"))
    say("hidden", hidden)
    say("mesh", lambda: head_parallel(8))
    say("axis", lambda: head_parallel(distribution().device_mesh, "heads"))
    say("one axis", lambda: head_parallel(keras.distribution.DeviceMesh((8,), ("model",))))
    return found


if __name__ == "__main__":
    parts = training, all_collectives, shards, large, messages
    print(json.dumps({part.__name__: part() for part in parts}))
