import numpy as np
import pytest
import tensorflow as tf

from kmha.layers import Transformer
from kmha.translation.decoding import (
    Search,
    emitted,
    growing,
    largest,
    log_probability,
    usual_length,
)
from kmha.translation.search import Beam, Greedy, Sampling
from kmha.translation.tokenizer import END
from kmha.verify import tolerance

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("source_ids", "said"),
    [
        ([4, 5, END], r"integers \(B, S\).*\(3,\)"),
        ([[4.0, 5.0, 2.0]], r"integers \(B, S\).*float64"),
        ([[4, 5, END], [END]], "are no array.*Pad the sentences with 0"),
        ([[4, END], [0, 0], [5, END]], r"padding alone in rows \[1\].*Leave such sentences out"),
        ([[]], r"padding alone in rows \[0\]"),
        ([[4, 11, END]], "ids from 0 to 10.*ids from 2 to 11.*tokenizer"),
        ([[4, -1, END]], "ids from 0 to 10.*ids from -1 to 4"),
        ([[4] * 18], r"at most 17 positions.*18 positions.*max_positional_encoding_input"),
    ],
)
def test_source_ids_that_do_not_fit(searching, source_ids, said):
    with pytest.raises(ValueError, match=f"(?s)Greedy received.*`source_ids`.*{said}"):
        Greedy(searching.any_model)(source_ids)


def test_any_integers_are_ids(searching):
    source = np.array([[4, 5, END], [7, END, 0]])
    search = Greedy(searching.any_model, max_length=3)
    expected = search(source.tolist())
    for kind in ("int8", "int32", "int64", "uint16"):
        assert search(source.astype(kind)) == expected
    assert search(tf.constant(source)) == expected


def test_an_empty_batch_has_no_hypotheses(searching):
    assert Greedy(searching.any_model)(np.zeros((0, 5), "int32")) == []


@pytest.mark.parametrize("search", [Greedy, Beam, Sampling])
def test_limits_that_do_not_fit(searching, search):
    for max_length in (0, -3, 2.5, True, "9", None):
        said = f"{search.__name__}.*`max_length`.*positive integer.*max_length={max_length!r}"
        with pytest.raises(ValueError, match=said):
            search(searching.any_model, max_length=max_length)
        with pytest.raises(ValueError, match=f"{said}.*Let the function return"):
            search(searching.any_model, max_length=lambda length: max_length)([[4, END]])  # noqa: B023


def test_models_that_do_not_fit():
    sizes = 1, 6, 2, 7, 11
    with pytest.raises(ValueError, match=r"Greedy.*`model`.*kmha.layers.Transformer.*Received: dict"):
        Greedy({})
    with pytest.raises(ValueError, match=r"Greedy.*`model`.*pad_id=3.*pad_id=0"):
        Greedy(Transformer(*sizes, 9, 17, 13, pad_id=3))
    with pytest.raises(ValueError, match=r"Beam.*`model`.*target_vocab_size=3.*at least 4"):
        Beam(Transformer(*sizes, 3, 17, 13))


def test_an_unbuilt_model_is_built():
    [[found]] = Greedy(Transformer(1, 6, 2, 7, 11, 9, 17, 13), max_length=2)([[4, END]])
    assert len(found.ids) <= 2


def test_usual_length():
    assert [usual_length(length) for length in (1, 2, 5)] == [11, 13, 17]


def test_logits_have_at_least_float32(searching):
    for dtype, expected in (("float64", "float64"), ("float32", "float32"), ("mixed_bfloat16", "float32")):
        model = searching.model(dtype=dtype)
        logits, _ = model.step(np.array([1]), model.start_cache(np.array([[4, END]])))
        assert logits.dtype == expected


def test_growing_frees_what_a_step_makes_longer(searching):
    model = searching.any_model
    before = model.start_cache(np.array([[4, 7, END], [5, END, 0]]))
    _, after = model.step(np.array([1, 1]), before)
    shapes = growing(before)
    assert shapes.keys() == before.keys() == after.keys()
    for name in ("keys", "values"):
        for free, x, longer in zip(shapes[name], before[name], after[name], strict=True):
            assert free.is_compatible_with(x.shape)
            assert free.is_compatible_with(longer.shape)
    for name in ("cross_keys", "cross_values"):
        assert shapes[name] == [None]
        assert before[name][0].shape == after[name][0].shape


def test_a_method_must_say_how_it_searches(searching):
    with pytest.raises(NotImplementedError, match="Search must override `_search`"):
        Search(searching.any_model)([[4, END]])


def test_emitted():
    logits = np.random.default_rng(0).normal(size=(3, 7))
    found = emitted(tf.constant(logits)).numpy()
    assert np.all(found[:, :END] == -np.inf)
    assert np.array_equal(found[:, END:], logits[:, END:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_probability(dtype):
    logits = np.random.default_rng(0).normal(0, 9, size=(3, 7)).astype(dtype)
    expected = -np.log(np.exp(logits.astype("float64") - logits.max(1, keepdims=True)).sum(1))
    assert tolerance.is_close(log_probability(tf.constant(logits), logits.argmax(1)), expected, dtype)


@pytest.mark.parametrize(("width", "count"), [(3, 5), (47, 2), (128, 2), (129, 2), (1000, 10), (1000, 99)])
def test_largest(width, count):
    """In blocks, with a last one that is not full, and in one piece."""
    numbers = np.random.default_rng(0).permutation(11 * width).reshape(11, width) - 5.0 * width
    values, places = largest(tf.constant(numbers), count)
    expected = np.argsort(-numbers, axis=1)[:, :count]
    assert np.array_equal(places, expected)
    assert np.array_equal(values, np.take_along_axis(numbers, expected, axis=1))
