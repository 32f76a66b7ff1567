"""Layer normalization against float64 NumPy and against Keras, with its gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.core.normalization import normalize
from kmha.verify import tolerance
from kmha.verify.comparing.running import WIDEST

WIDE = WIDEST[keras.backend.backend()]


def _numbers(*shape):
    generator = np.random.default_rng(0)
    return 3 + generator.normal(size=shape), generator.normal(size=shape[-1]), generator.normal(size=shape[-1])


@pytest.mark.parametrize("shape", [(2, 3, 5), (7, 4), (2, 3, 4, 6)])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_it_is_the_formula(shape, epsilon):
    x, gamma, beta = _numbers(*shape)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta
    got = normalize(*(ops.convert_to_tensor(each, WIDE) for each in (x, gamma, beta)), epsilon)
    assert tolerance.is_close(ops.convert_to_numpy(got), expected, WIDE)


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("second", [False, True])
def test_gradients_are_those_of_the_formula(mode, second):
    """Keras' own second gradient lacks a term, because its variance treats the mean as a constant."""
    import tensorflow as tf

    def formula(x, gamma, beta):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        return centred / tf.sqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 0.1) * gamma + beta

    given = [tf.constant(each) for each in _numbers(2, 3, 5)]
    upstream = tf.constant(np.random.default_rng(1).normal(size=(2, 3, 5)))

    def gradients(function):
        def run(*inputs):
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    loss = tf.reduce_sum(upstream * function(*inputs))
                first = inner.gradient(loss, inputs)
                again = sum(tf.reduce_sum(tf.sin(each)) for each in first)
            return outer.gradient(again, inputs, unconnected_gradients="zero") if second else first

        run = run if mode == "eager" else tf.function(run, autograph=False, jit_compile=mode == "xla")
        return [each.numpy() for each in run(*given)]

    ours = gradients(lambda *inputs: normalize(*inputs, 0.1))
    for one, other in zip(ours, gradients(formula), strict=True):
        assert tolerance.is_close(one, other, "float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    x, gamma, beta = (ops.cast(ops.convert_to_tensor(each, "float32"), dtype) for each in _numbers(2, 3, 5))
    x = ops.multiply(x, ops.cast(300.0, dtype))  # the squares overflow in float16
    got = normalize(x, gamma, beta, 1e-6)
    assert keras.backend.standardize_dtype(got.dtype) == dtype
    wide = normalize(*(ops.cast(each, "float32") for each in (x, gamma, beta)), 1e-6)
    got = ops.convert_to_numpy(ops.cast(got, "float32"))
    assert tolerance.is_close(got, ops.convert_to_numpy(wide), dtype)
