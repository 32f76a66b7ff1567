import inspect

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout
from kmha.verify import Case, expect, run
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

BUILTIN = keras.layers.MultiHeadAttention
WIDE = WIDEST[keras.backend.backend()]
B, T, S, H, I, J, O, E = 2, 3, 5, 7, 6, 8, 4, 9  # J is the width of value


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(WIDE)


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _seeded(layer_class, *args, seed=11, **kwargs):
    """Return a layer and its output at a given seed."""
    keras.utils.set_random_seed(seed)
    layer = layer_class(H, O, name="attention", **kwargs)
    return layer, layer(*args)


@pytest.mark.parametrize("method", ["__init__", "call"])
def test_signature_is_the_built_ins(method):
    """Names, order and defaults are equal, and only a cache, as in KerasHub, comes after them.

    This fails if the installed Keras has an argument that kmha lacks.
    """
    ours = inspect.signature(getattr(kmha.MultiHeadAttention, method)).parameters
    theirs = inspect.signature(getattr(BUILTIN, method)).parameters
    ours, theirs = ([(p.name, p.default, p.kind) for p in one.values()] for one in (ours, theirs))
    assert ours[: len(theirs)] == theirs
    assert [name for name, *_ in ours[len(theirs) :]] == {"call": ["cache", "cache_update_index"]}.get(method, [])


INNER = [name for name, value in vars(BUILTIN).items() if name.startswith("_") and inspect.isfunction(value)]


@pytest.mark.parametrize("method", ["build", "compute_output_shape", *(x for x in INNER if not x.startswith("__"))])
def test_methods_take_what_the_built_ins_take(method):
    theirs = list(inspect.signature(getattr(BUILTIN, method)).parameters)
    assert list(inspect.signature(getattr(kmha.MultiHeadAttention, method)).parameters)[: len(theirs)] == theirs


def test_public_names_are_the_built_ins():
    assert [
        name for name in dir(BUILTIN) if not name.startswith("_") and not hasattr(kmha.MultiHeadAttention, name)
    ] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"use_bias": False, "value_dim": 10, "dropout": 0.1},
        {"use_gate": True, "output_shape": (E, 3), "dropout": 0.3},
        {"kernel_initializer": "he_normal", "bias_initializer": "random_normal"},
        {"kernel_initializer": "orthogonal", "use_gate": True},
        {"kernel_initializer": keras.initializers.RandomNormal(seed=3)},
        {"kernel_initializer": keras.initializers.VarianceScaling(seed=3, mode="fan_out")},
        {"dropout": 0.3, "seed": 5},
    ],
)
def test_same_seed_same_weights(arguments):
    query, value, key = _x(B, T, I), _x(B, S, J), _x(B, S, 10)
    ours, output = _seeded(kmha.MultiHeadAttention, query, value, key, **arguments)
    theirs, expected = _seeded(BUILTIN, query, value, key, **arguments)
    assert [w.path for w in ours.weights] == [w.path for w in theirs.weights]
    converted = keras_layout.from_builtin(canonical.read(theirs))
    for name, array in canonical.read(ours).items():
        assert np.array_equal(array, converted[name]), name
    assert is_close(_array(output), _array(expected), "float32")


def test_initial_scale_is_the_built_ins():
    """Drawn directly into (H, I, O), glorot_uniform gives 0.0208 instead of 0.0442 at these sizes."""
    layer = kmha.MultiHeadAttention(8, 64)
    layer.build((None, 10, 512), (None, 10, 512))
    for projection in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        assert abs(np.std(_array(projection.kernel)) - 0.0442) < 0.0005


@pytest.mark.tensorflow
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_same_seed_same_dropout(rank, dtype):
    x = _x(B, T, S, I)[:, 0] if rank == 3 else _x(B, T, S, I)
    layers = [
        _seeded(layer_class, x, x, dropout=0.5, dtype=dtype, attention_axes=(rank - 2,))[0]
        for layer_class in (kmha.MultiHeadAttention, BUILTIN)
    ]
    for _ in range(3):  # the random state advances from call to call
        ours, theirs = (layer(x, x, training=True) for layer in layers)
        assert is_close(_array(ours), _array(theirs), dtype)


@pytest.mark.parametrize("initializer", [lambda shape, dtype=None: ops.ones(shape, dtype), "zeros"])
def test_initializers_without_a_seed(initializer):
    layer = kmha.MultiHeadAttention(H, O, kernel_initializer=initializer)
    layer.build((None, T, I), (None, S, J))
    assert np.unique(_array(layer.key_dense.kernel)).size == 1


@pytest.mark.parametrize("key_dim", [3, 4, 5, 6, 7, 11])
def test_every_head_size_is_exact(key_dim):
    case = Case(key_dim=key_dim, heads=2, use_causal_mask=True, return_scores=True, dtype=WIDE)
    ours = run(kmha.MultiHeadAttention, case)
    for name, array in expect(case).items():
        assert is_close(ours[name], array, WIDE) or name == "d key/bias", name
    assert np.abs(ours["d key/bias"]).max() < 1e-4  # exactly zero in theory: a constant does not change a softmax


@pytest.mark.parametrize("query_shape", [(B, T, I), (B, 4, T, I), (B, 2, 4, T, I)])
@pytest.mark.parametrize("output_shape", [None, E, (E, 3)])
@pytest.mark.parametrize("axes", [None, (-2,), (1,)])
def test_shapes_are_computed(query_shape, output_shape, axes):
    value_shape = (*query_shape[:-1], J)
    layer = kmha.MultiHeadAttention(H, O, output_shape=output_shape, attention_axes=axes)
    output, scores = layer(_x(*query_shape), _x(*value_shape), return_attention_scores=True)
    specs = keras.Input(batch_shape=query_shape), keras.Input(batch_shape=value_shape)
    symbolic = layer.compute_output_spec(*specs, return_attention_scores=True)
    assert layer.compute_output_shape(list(query_shape), list(value_shape)) == tuple(output.shape) == symbolic[0].shape
    assert tuple(scores.shape) == symbolic[1].shape
    unbuilt = kmha.MultiHeadAttention(H, O, output_shape=output_shape, attention_axes=axes)
    assert unbuilt.compute_output_spec(*specs).shape == tuple(output.shape)


@pytest.mark.parametrize("dtype", ["float32", WIDE, "float16", "mixed_float16", "mixed_bfloat16"])
def test_dtype_policies(dtype):
    layer = kmha.MultiHeadAttention(H, O, dtype=dtype)
    output, scores = layer(_x(B, T, I), _x(B, S, J), return_attention_scores=True)
    for x in (output, scores):
        assert keras.backend.standardize_dtype(x.dtype) == layer.compute_dtype == dtype.removeprefix("mixed_")
    symbolic = layer(keras.Input((T, I)), keras.Input((S, J)), return_attention_scores=True)
    assert {x.dtype for x in symbolic} == {layer.compute_dtype}
    assert {w.dtype for w in layer.weights} == {layer.variable_dtype}


def test_config_round_trips():
    given = {
        "num_heads": 3,
        "key_dim": 4,
        "value_dim": 5,
        "dropout": 0.1,
        "use_bias": False,
        "output_shape": (6, 7),
        "attention_axes": (1,),
        "sliding_window": 2,
        "flash_attention": False,
        "use_gate": True,
        "seed": 8,
        "kernel_regularizer": keras.regularizers.L2(0.5),
        "kernel_constraint": keras.constraints.NonNeg(),
        "name": "attention",
    }
    config = kmha.MultiHeadAttention(**given).get_config()
    again = kmha.MultiHeadAttention.from_config(config)
    assert again.get_config() == config
    assert {name: config[name] for name in given if "kernel" not in name} == {
        name: value for name, value in given.items() if "kernel" not in name
    }
    assert set(BUILTIN(3, 4).get_config()) <= set(config)


@pytest.mark.parametrize("given", [True, False, None])
def test_flash_attention_round_trips(given):
    config = kmha.MultiHeadAttention(3, 4, flash_attention=given).get_config()
    assert config["flash_attention"] is given
    assert kmha.MultiHeadAttention.from_config(config).get_config()["flash_attention"] is given


def test_an_override_of_compute_attention_gets_every_mask():
    seen = {}

    class Windowed(kmha.MultiHeadAttention):
        def _compute_attention(
            self, query, key, value, attention_mask=None, training=None, return_attention_scores=False
        ):
            seen["mask"] = _array(attention_mask)
            return super()._compute_attention(query, key, value, attention_mask, training, return_attention_scores)

    x = _x(B, S, I)
    layer = Windowed(H, O, sliding_window=2)
    layer(x, x, use_causal_mask=True)
    expected = [[[s <= t and t - s < 2 for s in range(S)] for t in range(S)]]
    assert np.array_equal(seen["mask"], expected)  # (1, T, S), as in the built-in: `mask[:, None]` makes room for H
    value_mask = np.array([[True] * S, [True, True] + [False] * (S - 2)])
    output = layer(x, x, value_mask=value_mask, use_causal_mask=True)
    expected = [[[s <= t and t - s < 2 and value_mask[b, s] for s in range(S)] for t in range(S)] for b in range(B)]
    assert np.array_equal(seen["mask"], expected)
    plain = kmha.MultiHeadAttention(H, O, sliding_window=2)
    plain.build(x.shape, x.shape)
    plain.set_weights(layer.get_weights())
    assert is_close(_array(output), _array(plain(x, x, value_mask=value_mask, use_causal_mask=True)), "float32")


def test_regularizers_give_the_built_ins_losses():
    arguments = {name: keras.regularizers.L2(0.1) for name in ("kernel_regularizer", "activity_regularizer")}
    x = _x(B, 4, T, I)
    ours, theirs = (_seeded(c, x, x, use_gate=True, **arguments)[0] for c in (kmha.MultiHeadAttention, BUILTIN))
    assert len(ours.losses) == len(theirs.losses) == 10
    for mine, expected in zip(ours.losses, theirs.losses, strict=True):
        assert is_close(_array(mine), _array(expected), "float32")


def test_widths_may_be_unknown_once_the_layer_is_built():
    layer = kmha.MultiHeadAttention(H, O)
    layer.build((None, T, I), (None, S, J))
    assert layer.compute_output_shape((B, T, None), (B, S, None)) == (B, T, None)
    assert layer(keras.Input((None, None)), keras.Input((None, None))).shape == (None, None, None)


def test_zero_sized_batch():
    assert kmha.MultiHeadAttention(H, O)(_x(0, T, I), _x(0, S, J)).shape == (0, T, I)


@pytest.mark.sampled(2)
@pytest.mark.tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_flash_attention_trains_as_without_and_drops_the_same(jit_compile):
    """On TensorFlow it means blocks. With XLA, blocks draw other numbers, so nothing is dropped there."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 150, 6)).astype("float32"), rng.normal(size=(4, 150, 6)).astype("float32")
    padded = np.where(np.arange(150)[None, :, None] < rng.integers(100, 150, size=(4, 1, 1)), x, 0.0)
    losses, models = [], []
    for flash in (True, False):
        keras.utils.set_random_seed(5)
        inputs = keras.Input((150, 6))
        layer = kmha.MultiHeadAttention(2, 3, dropout=0.0 if jit_compile else 0.2, flash_attention=flash, seed=1)
        masked = keras.layers.Masking()(inputs)
        model = keras.Model(inputs, layer(masked, masked, use_causal_mask=True))
        model.compile("sgd", "mse", jit_compile=jit_compile)
        losses.append(model.fit(padded, y, epochs=2, batch_size=2, shuffle=False, verbose=0).history["loss"])
        models.append(model)
    assert np.allclose(*losses, rtol=1e-6, atol=0)
    assert np.allclose(*(model.predict(padded, verbose=0) for model in models), rtol=1e-5, atol=1e-6)


@pytest.mark.tensorflow
@pytest.mark.parametrize("flash", [None, True])
def test_vectorized_maps_and_jacobians_are_right(flash):
    import tensorflow as tf

    layer = kmha.MultiHeadAttention(2, 4, flash_attention=flash)
    x = tf.constant(_x(3, 2, 9, I), "float32")
    expected = tf.stack([layer(one, one, use_causal_mask=True) for one in x])
    mapped = tf.function(lambda x: tf.vectorized_map(lambda one: layer(one, one, use_causal_mask=True), x))(x)
    assert is_close(_numpy(mapped), _numpy(expected), "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        output = layer(x[0], x[0])[:, :2]
    looped = tape.jacobian(output, x, experimental_use_pfor=False)
    assert is_close(_numpy(tape.jacobian(output, x)), _numpy(looped), "float32")


def _numpy(x):
    return ops.convert_to_numpy(x)
