import inspect

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import masking
from kmha.layers.addons import MultiHeadAttention
from kmha.verify import reference
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

WIDE = WIDEST[keras.backend.backend()]
B, C, T, S, H, O = 2, 4, 3, 5, 7, 11
WIDTHS = 6, 8, 9  # of query, key and value


def _inputs(*batch):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(*batch, n, w)).astype(WIDE) for n, w in zip((T, S, S), WIDTHS, strict=True)]


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _expected(layer, inputs, mask=None):
    """Return the results of the reference's loops, for inputs with one batch axis."""
    query, key, value = inputs if len(inputs) == 3 else (*inputs, inputs[1])
    names = "query/kernel", "key/kernel", "value/kernel", "attention_output/kernel", "attention_output/bias"
    weights = dict(zip(names, map(ops.convert_to_numpy, layer.weights), strict=False))
    allowed = None if mask is None else np.broadcast_to(mask, (query.shape[0], H, T, S))
    return reference.attention(query, key, value, weights, allowed)


def test_signature_is_that_of_addons():
    """tensorflow_addons.layers.MultiHeadAttention, version 0.23."""
    parameters = inspect.signature(MultiHeadAttention.__init__).parameters
    assert {name: p.default for name, p in parameters.items() if name not in ("self", "kwargs")} == {
        "head_size": inspect.Parameter.empty,
        "num_heads": inspect.Parameter.empty,
        "output_size": None,
        "dropout": 0.0,
        "use_projection_bias": True,
        "return_attn_coef": False,
        "kernel_initializer": "glorot_uniform",
        "kernel_regularizer": None,
        "kernel_constraint": None,
        "bias_initializer": "zeros",
        "bias_regularizer": None,
        "bias_constraint": None,
    }
    assert list(inspect.signature(MultiHeadAttention.call).parameters) == ["self", "inputs", "training", "mask"]


@pytest.mark.parametrize("bias", [True, False])
def test_weights_have_the_names_order_and_shapes_of_addons(bias):
    layer = MultiHeadAttention(O, H, 13, use_projection_bias=bias)
    layer(_inputs(B))
    expected = [
        ("query_kernel", (H, 6, O)),
        ("key_kernel", (H, 8, O)),
        ("value_kernel", (H, 9, O)),
        ("projection_kernel", (H, O, 13)),
        ("projection_bias", (13,)),
    ]
    assert [(w.name, tuple(w.shape)) for w in layer.weights] == expected[: 5 if bias else 4]


def test_initial_scale_is_that_of_addons():
    """Drawn directly into (H, I, O), H counts as a convolution window: fans of H·I and H·O."""
    layer = MultiHeadAttention(64, 8, 512)
    layer([_x := np.ones((1, 3, 512), "float32"), _x])
    limit = np.sqrt(6 / (8 * 512 + 8 * 64))
    for kernel in layer.weights[:3]:
        assert abs(np.std(_array(kernel)) / (limit / np.sqrt(3)) - 1) < 0.01


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("output_size", [None, 13])
def test_values_are_the_references(count, output_size):
    inputs = _inputs(B)[:count]
    layer = MultiHeadAttention(O, H, output_size, return_attn_coef=True, bias_initializer="ones", dtype=WIDE)
    output, coefficients = layer(inputs)
    for mine, expected in zip((output, coefficients), _expected(layer, inputs), strict=True):
        assert is_close(_array(mine), expected, WIDE)
    assert output.shape[-1] == (output_size or inputs[-1].shape[-1])


MASKS = [(T, S), (B, T, S), (1, T, S), (B, H, T, S), (1, 1, T, S)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("dtype", ["bool", "float32", "int32"])
def test_masks(shape, dtype):
    mask = np.random.default_rng(1).random(shape) < 0.6
    inputs = _inputs(B)
    layer = MultiHeadAttention(O, H, return_attn_coef=True, dtype=WIDE)
    output, coefficients = layer(inputs, mask=mask.astype(dtype))
    full = mask[:, None] if mask.ndim == 3 else mask
    for mine, expected in zip((output, coefficients), _expected(layer, inputs, full), strict=True):
        assert is_close(_array(mine), expected, WIDE)


@pytest.mark.parametrize("shape", [None, (T, S), (H, T, S)])
def test_inputs_without_a_batch_axis(shape):
    mask = None if shape is None else np.random.default_rng(1).random(shape) < 0.6
    layer = MultiHeadAttention(O, H, return_attn_coef=True, dtype=WIDE)
    inputs = _inputs()
    output, coefficients = layer(inputs, mask=mask)
    assert tuple(output.shape) == (T, 9)
    assert tuple(coefficients.shape) == (H, T, S)
    full = mask[None] if mask is not None and mask.ndim == 3 else mask
    for mine, expected in zip((output, coefficients), _expected(layer, [x[None] for x in inputs], full), strict=True):
        assert is_close(_array(mine), expected[0], WIDE)


def test_inputs_with_two_batch_axes():
    layer = MultiHeadAttention(O, H, return_attn_coef=True, dtype=WIDE)
    inputs = _inputs(B, C)
    output, coefficients = layer(inputs)
    flat = [x.reshape(-1, *x.shape[2:]) for x in inputs]
    for mine, expected in zip((output, coefficients), _expected(layer, flat), strict=True):
        assert is_close(_array(mine).reshape(expected.shape), expected, WIDE)


@pytest.mark.parametrize("batch", [(), (B,), (B, C)])
@pytest.mark.parametrize("coefficients", [True, False])
@pytest.mark.parametrize("count", [2, 3])
def test_output_shapes(batch, coefficients, count):
    inputs = _inputs(*batch)[:count]
    layer = MultiHeadAttention(O, H, return_attn_coef=coefficients)
    shapes = layer.compute_output_shape([x.shape for x in inputs])
    outputs = layer(inputs)
    if coefficients:
        assert shapes == tuple(tuple(x.shape) for x in outputs)
    else:
        assert shapes == tuple(outputs.shape)


def test_config_round_trips():
    layer = MultiHeadAttention(O, H, 13, 0.1, False, True, kernel_regularizer="l2", name="attention")
    config = layer.get_config()
    assert MultiHeadAttention.from_config(config).get_config() == config
    assert config["dropout"] == 0.1


def test_dropout_only_in_training():
    layer = MultiHeadAttention(O, H, dropout=0.5, return_attn_coef=True)
    inputs = _inputs(B)
    quiet, first = layer(inputs)
    dropped, second = layer(inputs, training=True)
    assert np.array_equal(_array(first), _array(second))  # they are taken before the dropout
    assert not np.allclose(_array(quiet), _array(dropped))


def test_carried_masks():
    """Keras passes them as a list, on which Addons fails."""
    inputs = [ops.convert_to_tensor(x) for x in _inputs(B)]
    padding = np.array([[True] * S, [True, True, False, False, False]])
    masking.carry(inputs[1], ops.convert_to_tensor(padding))
    rows = np.array([[True, True, False], [True] * T])
    masking.carry(inputs[0], ops.convert_to_tensor(rows))
    output, coefficients = MultiHeadAttention(O, H, return_attn_coef=True)(inputs)
    expected = np.broadcast_to(padding[:, None, None] & rows[:, None, :, None], (B, H, T, S))
    assert np.array_equal(_array(coefficients) > 0, expected)
    assert np.array_equal(_array(masking.carried(output)), rows)


def test_an_explicit_mask_does_not_go_on_with_the_output():
    output = MultiHeadAttention(O, H)(_inputs(B), mask=np.ones((B, T, S), bool))
    assert masking.carried(output) is None


def test_a_row_with_nothing_to_attend_to_is_the_bias():
    mask = np.ones((T, S), bool)
    mask[1] = False
    output = _array(MultiHeadAttention(O, H, bias_initializer="ones")(_inputs(B), mask=mask))
    assert np.array_equal(output[:, 1], np.ones((B, 9)))


def test_trains_as_the_other_layer_does():
    """The same kernels give the same outputs and gradients, because both layers use the same core."""
    inputs = keras.Input((T, 6)), keras.Input((S, 8))
    theirs = MultiHeadAttention(O, H, 6)
    ours = kmha.MultiHeadAttention(H, O)
    models = [keras.Model(inputs, theirs(list(inputs))), keras.Model(inputs, ours(*inputs))]
    kernels = [ops.convert_to_numpy(w) for w in theirs.weights]
    zero = np.zeros((H, O), "float32")
    ours.set_weights([kernels[0], zero, kernels[1], zero, kernels[2], zero, *kernels[3:]])
    for projection in (ours.query_dense, ours.key_dense, ours.value_dense):
        projection.bias.trainable = False
    x, y = _inputs(B)[:2], np.ones((B, T, 6))
    losses = []
    for model in models:
        model.compile(keras.optimizers.SGD(0.1), "mse")
        losses.append(model.fit(x, y, epochs=4, verbose=0).history["loss"])
    assert is_close(*losses, "float32")
