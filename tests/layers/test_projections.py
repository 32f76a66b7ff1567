import contextlib

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask
from keras.src.backend.common.variables import AutocastScope

import kmha
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout
from kmha.layers import HeadMerge, HeadProjection
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import difference, is_close, relative

# `model.quantize` warns of every layer that it passes over: inputs, dropout.
pytestmark = [pytest.mark.filterwarnings("ignore:Layer .* does not have a .quantize. method"), pytest.mark.sampled(4)]

WIDE = WIDEST[keras.backend.backend()]
BUILTIN = keras.layers.MultiHeadAttention
B, T, S, H, I, J, O = 2, 3, 5, 7, 16, 12, 8


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


@pytest.mark.parametrize(
    "layer", [HeadProjection(H, O), HeadProjection(H, O, rank=4, use_bias=False, activation="relu")]
)
def test_head_projection_round_trips(layer):
    again = HeadProjection.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.equation == layer.equation


@pytest.mark.parametrize("layer", [HeadMerge(9), HeadMerge((9, 3), rank=5, use_bias=False)])
def test_head_merge_round_trips(layer):
    again = HeadMerge.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.equation == layer.equation


@pytest.mark.parametrize("rank", [3, 4])
def test_float_path_is_that_of_einsum_dense(rank):
    """One product gives the numbers that `EinsumDense` computes from the equation."""
    inputs = np.random.default_rng(0).normal(size=(*(B, T, S, I)[: rank - 1], I)).astype(WIDE)
    layer = HeadProjection(H, O, rank=rank, bias_initializer="random_normal", dtype=WIDE)
    assert is_close(_array(layer(inputs)), _array(keras.layers.EinsumDense.call(layer, inputs)), WIDE)
    merge = HeadMerge((9, 3), rank=rank + 1, bias_initializer="random_normal", dtype=WIDE)
    heads = ops.convert_to_numpy(layer(inputs))
    assert is_close(_array(merge(heads)), _array(keras.layers.EinsumDense.call(merge, heads)), WIDE)


def _projection(**options):
    layer = HeadProjection(H, O, bias_initializer="random_normal", **options)
    layer.build((None, None, I))
    return layer


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("given", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("within", [None, "float32", "bfloat16"])
def test_a_call_without_keras_preparations_gives_what_keras_gives(dtype, given, within):
    """Inputs, weights and an autocast scope of other dtypes are converted as in any layer of Keras."""
    layer, inputs = _projection(dtype=dtype), ops.cast(_x(B, T, I), given)
    with contextlib.ExitStack() as stack:
        if within:
            stack.enter_context(AutocastScope(within))
        found, expected = layer(inputs), keras.layers.Layer.__call__(layer, inputs)
    assert found.dtype == expected.dtype
    assert np.array_equal(_array(found), _array(expected))


@pytest.mark.parametrize("change", ["call", "mask", "regularizer", "hook"])
def test_what_others_add_to_a_projection_still_happens(change):
    """Wrapped methods (as in GPTQ), masks, losses, and hooks of torch."""
    layer, inputs, seen = _projection(), ops.convert_to_tensor(_x(B, T, I)), []
    expected = _array(layer(inputs))
    if change == "call":
        call = layer.call
        layer.call = lambda *args, **kwargs: seen.append(1) or call(*args, **kwargs)
    elif change == "mask":
        set_keras_mask(inputs, ops.ones((B, T), "bool"))
        seen += [1] if get_keras_mask(layer(inputs)) is not None else []
    elif change == "regularizer":
        layer.activity_regularizer = keras.regularizers.L2(1.0)
        layer(inputs)
        seen += layer.losses
    elif keras.backend.backend() != "torch":
        pytest.skip("only torch has hooks")
    else:
        layer.register_forward_hook(lambda *args: seen.append(1))
    assert np.array_equal(_array(layer(inputs)), expected)
    assert seen


def test_a_subclass_is_told_whether_it_is_trained():
    seen = []

    class Told(HeadProjection):
        def call(self, inputs, training=None):
            seen.append(training)
            return super().call(inputs)

    class Outer(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = Told(H, O)

        def call(self, inputs, training=None):
            return self.inner(inputs)

    outer = Outer()
    for training in (True, False):
        outer(ops.ones((B, T, I)), training=training)
    assert seen[-2:] == [True, False]


@pytest.mark.filterwarnings("ignore")  # of quantization
def test_a_quantized_projection_is_told_whether_it_is_trained():
    """Without that, float8 never learned its scales."""
    layer, seen = kmha.MultiHeadAttention(H, O), []
    layer.build((B, T, I), (B, T, I))
    layer.query_dense.quantize("float8")
    call = layer.query_dense.quantized_call
    layer.query_dense.quantized_call = lambda x, training=None: seen.append(training) or call(x, training=training)
    for training in (True, False):
        layer(ops.ones((B, T, I)), ops.ones((B, T, I)), training=training)
    assert seen == [True, False]


def test_a_shape_that_a_projection_refuses_is_still_refused():
    layer = _projection()
    layer.input_spec = keras.layers.InputSpec(ndim=3)
    layer(ops.ones((B, T, I)))
    with pytest.raises(ValueError, match="ndim"):
        layer(ops.ones((B, T, 1, I)))


def test_outside_of_a_graph_a_projection_is_called_without_keras_preparations(monkeypatch):
    if keras.backend.backend() == "jax":
        pytest.skip("JAX traces calls, or starts few operations at a time")
    prepared = []
    call = keras.layers.Layer.__call__
    monkeypatch.setattr(
        keras.layers.Layer, "__call__", lambda self, *a, **k: prepared.append(self) or call(self, *a, **k)
    )
    layer, x = kmha.MultiHeadAttention(H, O), ops.convert_to_tensor(_x(B, T, I))
    layer(x, x)
    prepared.clear()
    layer(x, x)
    assert [type(each).__name__ for each in prepared if not isinstance(each, keras.layers.Dropout)] == [
        "MultiHeadAttention"
    ]


def _model(layer_class, lora="", mode=None):
    """Return a model with one layer, with LoRA and quantization in either order, at the same seed."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((T, I)), keras.Input((S, J))
    layer = layer_class(H, O, use_gate=True, name="attention")
    model = keras.Model(inputs, layer(*inputs))
    if lora == "before":
        _adapt(layer)
    if mode:
        model.quantize(mode)
    if lora == "after":
        _adapt(layer)
    return model, layer


def _adapt(layer):
    for projection in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        projection.enable_lora(3)
        projection.lora_kernel_b.assign(0.1 * np.ones(projection.lora_kernel_b.shape))


MODES = [
    ("before", None),
    ("", "int8"),
    ("before", "int8"),
    ("after", "int8"),
    ("", "int4"),
    ("before", "int4"),
    ("after", "int4"),
    ("", "float8"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
@pytest.mark.parametrize(("lora", "mode"), MODES)
def test_lora_and_quantization_are_the_built_ins(lora, mode, tmp_path):
    query, value = _x(B, T, I), _x(B, S, J, seed=1)
    (ours, layer), (theirs, builtin) = (_model(c, lora, mode) for c in (kmha.MultiHeadAttention, BUILTIN))
    assert is_close(_array(ours([query, value])), _array(theirs([query, value])), "float32")
    assert len(layer.trainable_weights) == len(builtin.trainable_weights)
    losses = []
    for model in (ours, theirs):
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)  # XLA takes many seconds here
        losses.append(model.fit([query, value], np.ones((B, T, I)), epochs=3, verbose=0).history["loss"])
    assert is_close(losses[0], losses[1], "float32")
    ours.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    # Saving merges LoRA into the kernel, which is rounded again if it is quantized.
    apart = np.abs(_array(again([query, value])) - _array(ours([query, value]))).max()
    assert apart <= (0.1 if lora and mode == "int4" else 0.01 if lora and mode else 1e-6)


def test_lora_starts_from_the_built_ins_numbers():
    (_, layer), (_, builtin) = (_model(c) for c in (kmha.MultiHeadAttention, BUILTIN))
    for projection, peer in ((layer.key_dense, builtin.key_dense), (layer.output_dense, builtin.output_dense)):
        for one in (projection, peer):
            keras.utils.set_random_seed(4)
            one.enable_lora(3)
    assert np.array_equal(_array(layer.key_dense.lora_kernel_a), _array(builtin.key_dense.lora_kernel_a).swapaxes(0, 1))
    assert np.array_equal(_array(layer.output_dense.lora_kernel_a), _array(builtin.output_dense.lora_kernel_a))


def test_lora_is_merged_into_the_weights_that_are_saved(tmp_path):
    model, _ = _model(kmha.MultiHeadAttention, lora="before")
    model.save_weights(tmp_path / "model.weights.h5")
    plain, _ = _model(kmha.MultiHeadAttention)
    plain.load_weights(tmp_path / "model.weights.h5")
    query, value = _x(B, T, I), _x(B, S, J, seed=1)
    assert is_close(_array(plain([query, value])), _array(model([query, value])), "float32")


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:Invalid quantization mode")  # of the embedding
@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_calibrated_quantization_is_the_built_ins(method):
    """GPTQ and AWQ read rows and columns from a kernel (I, H, O), so kmha's kernel is transposed before."""
    outputs = []
    for layer_class in (kmha.MultiHeadAttention, BUILTIN):
        keras.utils.set_random_seed(1)
        embedding = keras.layers.Embedding(20, I)
        block = Block(layer_class)
        ids = keras.Input((S,), dtype="int32")
        model = keras.Model(ids, block(embedding(ids)))
        common = {
            "dataset": np.random.default_rng(0).integers(0, 20, size=(8, 1, S)).astype("int32"),
            "tokenizer": str.split,  # not called: the dataset is ids already
            "num_samples": 8,
            "sequence_length": S,
            "group_size": 8,
            "quantization_layer_structure": {"pre_block_layers": [embedding], "sequential_blocks": [block]},
        }
        config = {"gptq": keras.quantizers.GPTQConfig, "awq": keras.quantizers.AWQConfig}[method](**common)
        model.quantize(method, config=config)
        outputs.append(_array(model(np.arange(B * S).reshape(B, S) % 20)))
    assert np.abs(outputs[1]).max() > 0.01
    assert is_close(outputs[0], outputs[1], "float32")


class Block(keras.layers.Layer):
    """A sequential block in the sense of `quantization_layer_structure`."""

    def __init__(self, layer_class):
        super().__init__()
        self.attention = layer_class(2, O)

    def build(self, shape):
        self.attention.build(shape, shape)

    def call(self, x):
        return self.attention(x, x)

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("kmha_tests")
class _Columns(keras.regularizers.Regularizer):
    """A regularizer with an axis: the fourth powers of the norms along the first axis."""

    def __call__(self, x):
        return 0.01 * ops.sum(ops.square(ops.sum(ops.square(x), axis=0)))

    def get_config(self):
        return {}


AXIS_CONSTRAINTS = [
    keras.constraints.UnitNorm(axis=0),
    keras.constraints.MaxNorm(0.3, axis=1),
    keras.constraints.MinMaxNorm(0.1, 0.2, rate=0.5, axis=(0, 1)),
    keras.constraints.UnitNorm(axis=(1, 2)),
]


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
@pytest.mark.parametrize("constraint", AXIS_CONSTRAINTS, ids=lambda constraint: type(constraint).__name__)
def test_constraints_and_regularizers_with_an_axis_train_as_in_the_built_in(constraint, tmp_path):
    """Also in a model that was loaded from a file."""
    query, value = _x(B, T, I), _x(B, S, J, seed=1)
    trained = []
    for layer_class in (kmha.MultiHeadAttention, BUILTIN):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((T, I)), keras.Input((S, J))
        arguments = {"kernel_constraint": constraint, "kernel_regularizer": _Columns(), "use_gate": True}
        if isinstance(constraint.axis, int):
            arguments |= {"bias_constraint": keras.constraints.MaxNorm(0.01, axis=0), "bias_regularizer": "l2"}
        model = keras.Model(inputs, layer_class(H, O, name="attention", **arguments)(*inputs))
        for name in ("first.keras", "second.keras"):
            model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=False)
            model.fit([query, value], np.ones((B, T, I)), epochs=2, verbose=0)
            model.save(tmp_path / name)
            model = keras.models.load_model(tmp_path / name)
        trained.append([_array(weight) for weight in model.get_layer("attention").weights])
    for one, other in zip(*trained, strict=True):
        other = other if one.shape == other.shape else other.swapaxes(0, 1)
        # The gradient of the key's bias is zero up to rounding, so its numbers are compared with those of all weights.
        assert difference(one, other, 1.0)[1] <= relative("float32")


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
def test_a_regularizer_sees_lora_as_in_the_built_in(mode):
    losses = []
    for layer_class in (kmha.MultiHeadAttention, BUILTIN):
        keras.utils.set_random_seed(1)
        layer = layer_class(H, O, kernel_regularizer=_Columns())
        layer.build((None, T, I), (None, S, J))
        layer.key_dense.enable_lora(3)
        if mode:
            layer.key_dense.quantize(mode)
        losses.append(sorted(float(_array(loss)) for loss in layer.key_dense.losses))
    assert len(losses[0]) == len(losses[1]) > 0
    assert is_close(np.stack(losses[0]), np.stack(losses[1]), "float32")


def test_the_kernels_of_a_copied_layer():
    theirs, ours = BUILTIN(H, O), kmha.MultiHeadAttention(H, O)
    for layer in (theirs, ours):
        layer.build((None, T, I), (None, S, J))
    canonical.write(ours, keras_layout.from_builtin(canonical.read(theirs)))
    for h in range(H):
        assert np.array_equal(_array(ours.key_dense.kernel)[h], _array(theirs.key_dense.kernel)[:, h])


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="only torch has tensors whose numbers lie in another order"
)
def test_the_numbers_of_kernels_lie_in_their_own_order():
    """Models that were exported to LiteRT from torch gave wrong numbers."""
    layer = kmha.MultiHeadAttention(3, 4)
    layer(np.zeros((2, 5, 6), "float32"), np.zeros((2, 7, 6), "float32"))
    assert all(variable.value.is_contiguous() for variable in layer.weights)
