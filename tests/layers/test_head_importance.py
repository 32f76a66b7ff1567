import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import ablation_importance, gradient_importance, without_heads
from kmha.verify import tolerance

BATCH, LENGTH, WIDTH, SIZE = 3, 7, 11, 2
HEADS = 4, 5


@pytest.fixture
def made():
    """A model of two layers with different numbers of heads, its input, and its target (both of BATCH items)."""
    layers = [kmha.MultiHeadAttention(heads, SIZE, dtype="float64", dropout=0.5) for heads in HEADS]
    inputs = keras.Input((LENGTH, WIDTH), dtype="float64")
    x = layers[0](inputs, inputs)
    model = keras.Model(inputs, layers[1](x, x, use_causal_mask=True))
    numbers = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(numbers.normal(size=weight.shape))
    shape = BATCH, LENGTH, WIDTH
    return layers, model, *(ops.convert_to_tensor(numbers.normal(size=shape), "float64") for _ in range(2))


def _losses(model, x, y):
    """Return the loss of each item, (B,)."""
    return ops.sum(ops.square(ops.subtract(model(x, training=False), y)), axis=(1, 2))


def _numbers(x):
    return ops.convert_to_numpy(x)


def test_gradients_are_those_of_differences(made):
    """For each item and head, against central differences of the output kernel's rows, which a gate scales."""
    layers, model, x, y = made
    # On torch, Keras multiplies matrices of float64 in float32.
    step, close = (1e-4, 1e-2) if keras.backend.backend() == "torch" else (1e-5, 1e-5)
    found = gradient_importance(layers, lambda: ops.sum(_losses(model, x, y)), BATCH)
    for layer, importance in zip(layers, found, strict=True):
        kernel = layer.output_dense.kernel
        before = _numbers(kernel).copy()
        expected = []
        for head in range(layer.num_heads):
            ends = []
            for sign in (1, -1):
                changed = before.copy()
                changed[head] *= 1 + sign * step
                kernel.assign(changed)
                output = _numbers(model(x, training=False))
                ends.append(np.square(output - _numbers(y)).sum((1, 2)))
            expected.append(np.abs(ends[0] - ends[1]).mean() / (2 * step))
        kernel.assign(before)
        assert importance.shape == (layer.num_heads,)
        np.testing.assert_allclose(importance, expected, rtol=close)


def test_gradients_leave_the_model_as_it_is(made):
    layers, model, x, y = made
    before = _numbers(model(x))
    gradient_importance(layers, lambda: ops.sum(_losses(model, x, y)), BATCH)
    np.testing.assert_array_equal(_numbers(model(x)), before)
    with pytest.raises(ValueError, match=r"expected calls of .* with B = 5, the `batch_size`. Received: B = 3"):
        gradient_importance(layers, lambda: ops.sum(_losses(model, x, y)), 5)
    np.testing.assert_array_equal(_numbers(model(x)), before)


def test_the_loss_must_call_each_layer(made):
    layers, model, x, y = made
    other = kmha.MultiHeadAttention(4, SIZE, name="unused")
    other.build((BATCH, LENGTH, WIDTH), (BATCH, LENGTH, WIDTH))
    with pytest.raises(ValueError, match=r"expected a loss that calls the layer 'unused'.*model\(x, training=False\)"):
        gradient_importance([layers[0], other], lambda: ops.sum(_losses(model, x, y)), BATCH)
    model.predict(_numbers(x), verbose=0)
    if keras.backend.backend() == "tensorflow":  # whose compiled function has the layer's calls already
        with pytest.raises(ValueError, match=f"calls the layer '{layers[0].name}'.*such as that of `predict`"):
            gradient_importance(layers, lambda: ops.sum(model.predict(_numbers(x), verbose=0)), BATCH)


def test_a_layer_given_twice(made):
    layers, model, x, y = made
    with pytest.raises(ValueError, match=f"different layers. Received: '{layers[1].name}' twice. Give it once"):
        gradient_importance([*layers, layers[1]], lambda: ops.sum(_losses(model, x, y)), BATCH)


def test_a_call_of_the_instance_comes_back(made):
    layers, model, x, y = made
    dense = layers[0].output_dense
    before = dense.call
    own = vars(dense)["call"] = lambda *args, **kwargs: ops.multiply(before(*args, **kwargs), 2)
    output = _numbers(model(x))
    gradient_importance(layers, lambda: ops.sum(_losses(model, x, y)), BATCH)
    assert vars(dense)["call"] is own
    np.testing.assert_array_equal(_numbers(model(x)), output)


def test_a_head_without_weights_has_no_importance(made):
    layers, model, x, y = made
    with without_heads(layers[1], 2):
        of_gradient = gradient_importance(layers, lambda: ops.sum(_losses(model, x, y)), BATCH)
        of_ablation = ablation_importance(layers, lambda: ops.sum(_losses(model, x, y)))
    for found in (of_gradient, of_ablation):
        assert found[1][2] == 0
        assert np.count_nonzero(np.concatenate(found)) == sum(HEADS) - 1


def test_ablation_is_the_change_without_each_head(made):
    layers, model, x, y = made
    calls = []
    found = ablation_importance(layers, lambda: ops.sum(_losses(model, x, y)), lambda: calls.append(1))
    assert len(calls) == sum(HEADS)
    whole = _numbers(_losses(model, x, y)).sum()
    for layer, changes in zip(layers, found, strict=True):
        expected = []
        for head in range(layer.num_heads):
            with without_heads(layer, head):
                expected.append(_numbers(_losses(model, x, y)).sum() - whole)
        assert tolerance.is_close(changes, expected, "float64")


def test_attention_over_two_axes():
    layer = kmha.MultiHeadAttention(4, SIZE, attention_axes=(1, 2), dtype="float64")
    x = ops.convert_to_tensor(np.random.default_rng(3).normal(size=(BATCH, 2, LENGTH, WIDTH)))
    layer(x, x)

    def loss():
        return ops.sum(layer(x, x))

    [found] = gradient_importance([layer], loss, BATCH)
    items = [
        gradient_importance([layer], lambda row=x[n : n + 1]: ops.sum(layer(row, row)), 1)[0] for n in range(BATCH)
    ]
    assert tolerance.is_close(found, np.mean(items, axis=0), "float64")


def test_wrong_layers():
    for function, more in ((ablation_importance, ()), (gradient_importance, (2,))):
        with pytest.raises(
            TypeError, match=f"{function.__name__}: expected a kmha.MultiHeadAttention. Received: keras.*Dense"
        ):
            function([keras.layers.Dense(3)], lambda: 0.0, *more)
        with pytest.raises(ValueError, match="no weights before it is built"):
            function([kmha.MultiHeadAttention(2, 3)], lambda: 0.0, *more)


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_float16"])
def test_half_precision(dtype):
    layer = kmha.MultiHeadAttention(4, SIZE, dtype=dtype)
    x = np.random.default_rng(3).normal(size=(BATCH, LENGTH, WIDTH))
    layer(x, x)
    same = kmha.MultiHeadAttention(4, SIZE, dtype="float64")
    same(x, x)
    same.set_weights([ops.convert_to_numpy(ops.cast(weight, "float64")) for weight in layer.weights])
    found, expected = (
        gradient_importance([one], lambda one=one: ops.sum(one(x, x)), BATCH)[0] for one in (layer, same)
    )
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.1)
