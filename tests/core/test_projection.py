from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from kmha.core import axes
from kmha.core.projection import merge_heads, project_heads
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

WIDE = WIDEST[keras.backend.backend()]

B, T, U, H, I, O, E, F = 2, 3, 5, 7, 11, 13, 17, 19


def _random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


@pytest.fixture(params=["eager", "graph", "xla"] if keras.backend.backend() == "tensorflow" else ["eager"])
def run(request: pytest.FixtureRequest) -> Any:
    """A function that calls another one in one of TensorFlow's modes, whose projections differ."""
    if request.param == "eager":
        return lambda function, *arguments: function(*arguments)
    import tensorflow as tf

    return lambda function, *arguments: tf.function(function, jit_compile=request.param == "xla")(*arguments)


@pytest.mark.parametrize("positions", [(T,), (T, U)])
@pytest.mark.parametrize("bias", [None, _random(H, O)])
def test_project_heads_is_the_equation(run, positions, bias):
    inputs, kernel = _random(B, *positions, I), _random(H, I, O)
    expected = np.einsum(axes.for_rank(axes.PROJECT, 2 + len(positions)), inputs, kernel)
    heads = run(project_heads, inputs, kernel, bias)
    assert is_close(ops.convert_to_numpy(heads), expected if bias is None else expected + bias, WIDE)


@pytest.mark.parametrize("positions", [(T,), (T, U)])
@pytest.mark.parametrize("outputs", [(E,), (E, F)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_merge_heads_is_the_equation(run, positions, outputs, with_bias):
    heads, kernel = _random(B, *positions, H, O), _random(H, O, *outputs)
    bias = _random(*outputs) if with_bias else None
    expected = np.einsum(axes.for_rank(axes.MERGE, 2 + len(positions), len(outputs)), heads, kernel)
    merged = run(merge_heads, heads, kernel, bias)
    assert is_close(ops.convert_to_numpy(merged), expected if bias is None else expected + bias, WIDE)


@pytest.mark.tensorflow
@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("batch", [B, None, O, 0])
def test_the_gradients_are_those_of_the_equation(batch, xla):
    # Few rows (B, T = 2, 3), many (O, T = 13, 3) and an unknown number have gradients of their own.
    import tensorflow as tf

    def gradients(inputs, kernel, upstream, project=project_heads):
        with tf.GradientTape() as tape:
            tape.watch([inputs, kernel])
            loss = tf.reduce_sum(project(inputs, kernel) * upstream)
        return tape.gradient(loss, [inputs, kernel])

    items = B if batch is None else batch
    arrays = _random(items, T, I), _random(H, I, O), _random(items, T, H, O)
    specs = [
        tf.TensorSpec((batch, T, I), "float64"),
        tf.TensorSpec((H, I, O), "float64"),
        tf.TensorSpec((batch, T, H, O), "float64"),
    ]
    found = tf.function(gradients, input_signature=specs, jit_compile=xla)(*arrays)
    expected = gradients(*map(tf.constant, arrays), lambda inputs, kernel: tf.einsum(axes.PROJECT, inputs, kernel))
    for name, one, other in zip(("inputs", "kernel"), found, expected, strict=True):
        assert is_close(one.numpy(), other.numpy(), "float64"), name


@pytest.mark.tensorflow
@pytest.mark.parametrize(("items", "copied"), [(B, False), (O, True)])
def test_xla_copies_no_kernel_for_few_rows(items, copied):
    import tensorflow as tf

    project = tf.function(project_heads, jit_compile=True)
    program = project.experimental_get_compiler_ir(_random(items, T, I), _random(H, I, O), None)(stage="optimized_hlo")
    assert (f"[{I},{H * O}]" in program) == copied


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="sizes with names are JAX's")
def test_few_rows_on_jax_can_be_differentiated_forwards_mapped_and_of_a_symbolic_number():
    import jax

    inputs, kernel = _random(B, 1, I), _random(H, I, O)
    expected = np.einsum(axes.PROJECT, inputs, kernel)
    derivative = jax.jvp(lambda x: project_heads(x, kernel), (inputs,), (inputs,))[1]
    mapped = jax.vmap(lambda x: project_heads(x[None], kernel)[0])(inputs)
    specification = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("b"), 1, I), inputs.dtype)
    exported = jax.export.export(jax.jit(lambda x: project_heads(x, kernel)))(specification)
    for found in (derivative, mapped, exported.call(inputs)):
        assert is_close(np.asarray(found), expected, WIDE)


def test_an_empty_batch_stays_empty(run):
    assert tuple(run(project_heads, np.ones((0, T, I)), np.ones((H, I, O))).shape) == (0, T, H, O)
    assert tuple(run(merge_heads, np.ones((0, T, H, O)), np.ones((H, O, E))).shape) == (0, T, E)
