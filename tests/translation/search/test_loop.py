import numpy as np
import pytest
import tensorflow as tf

from kmha.translation.search.loop import allowed, cache_shapes, largest, log_probability
from kmha.translation.tokenizer import END
from kmha.verify import tolerance

pytestmark = pytest.mark.tensorflow


def test_logits_have_at_least_float32(searching):
    for dtype, expected in (("float64", "float64"), ("float32", "float32"), ("mixed_bfloat16", "float32")):
        model = searching.model(dtype=dtype)
        logits, _ = model.step(np.array([1]), model.start_cache(np.array([[4, END]])))
        assert logits.dtype == expected


def test_cache_shapes_free_what_a_step_makes_longer(searching):
    model = searching.any_model
    before = model.start_cache(np.array([[4, 7, END], [5, END, 0]]))
    _, after = model.step(np.array([1, 1]), before)
    shapes = cache_shapes(before)
    assert shapes.keys() == before.keys() == after.keys()
    for name in ("keys", "values"):
        for free, x, longer in zip(shapes[name], before[name], after[name], strict=True):
            assert free.is_compatible_with(x.shape)
            assert free.is_compatible_with(longer.shape)
    for name in ("cross_keys", "cross_values"):
        assert shapes[name] == [None]
        assert before[name][0].shape == after[name][0].shape


def test_allowed():
    logits = np.random.default_rng(0).normal(size=(3, 7))
    found = allowed(tf.constant(logits)).numpy()
    assert np.all(found[:, :END] == -np.inf)
    assert np.array_equal(found[:, END:], logits[:, END:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_probability(dtype):
    logits = np.random.default_rng(0).normal(0, 9, size=(3, 7)).astype(dtype)
    expected = -np.log(np.exp(logits.astype("float64") - logits.max(1, keepdims=True)).sum(1))
    assert tolerance.is_close(log_probability(tf.constant(logits), logits.argmax(1)), expected, dtype)


@pytest.mark.parametrize(("width", "count"), [(3, 5), (47, 2), (128, 2), (129, 2), (1000, 10), (1000, 99)])
def test_largest(width, count):
    """With blocks, of which the last is not full, and without."""
    numbers = np.random.default_rng(0).permutation(11 * width).reshape(11, width) - 5.0 * width
    values, places = largest(tf.constant(numbers), count)
    expected = np.argsort(-numbers, axis=1)[:, :count]
    assert np.array_equal(places, expected)
    assert np.array_equal(values, np.take_along_axis(numbers, expected, axis=1))
