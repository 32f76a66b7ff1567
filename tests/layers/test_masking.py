import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.core.folding import Folding
from kmha.layers import create_look_ahead_mask, create_padding_mask, masking
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

WIDE = WIDEST[keras.backend.backend()]
B, T, S, H, I, J, O = 2, 3, 5, 7, 6, 8, 4
PLAIN = Folding.of(3, None)


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _embedded(lengths, positions, width, seed=0):
    """Return random features that carry a mask of these lengths, as those of `Embedding(mask_zero=True)` do."""
    x = ops.convert_to_tensor(np.random.default_rng(seed).normal(size=(len(lengths), positions, width)).astype(WIDE))
    masking.carry(x, ops.convert_to_tensor(_padding(lengths, positions)))
    return x


def _padding(lengths, positions):
    return np.arange(positions)[None] < np.array(lengths)[:, None]


def _plain(x):
    return _array(x).astype(WIDE)


def _layer(**arguments):
    return kmha.MultiHeadAttention(H, O, **arguments)


@pytest.mark.parametrize("return_scores", [True, False])
def test_carried_masks_are_those_that_could_be_given(return_scores):
    query, value, key = _embedded([2, 3], T, I), _embedded([5, 1], S, J, 1), _embedded([4, 2], S, J, 2)
    layer = _layer()
    carried = layer(query, value, key, return_attention_scores=return_scores)
    mask = _padding([2, 3], T)[:, :, None] & (_padding([5, 1], S) & _padding([4, 2], S))[:, None]
    arrays = _plain(query), _plain(value), _plain(key)
    given = layer(*arrays, attention_mask=mask, return_attention_scores=return_scores)
    by_name = layer(
        *arrays,
        query_mask=_padding([2, 3], T),
        value_mask=_padding([5, 1], S),
        key_mask=_padding([4, 2], S),
        return_attention_scores=return_scores,
    )
    for one, two, three in zip(*map(ops.convert_to_numpy, (carried[0], given[0], by_name[0])), strict=True):
        assert is_close(one, two, WIDE)
        assert is_close(one, three, WIDE)


def test_the_output_carries_the_querys_mask():
    query, value = _embedded([2, 3], T, I), _embedded([5, 1], S, J)
    output = _layer()(query, value)
    assert np.array_equal(_array(masking.carried(output)), _padding([2, 3], T))
    output, _ = _layer()(query, value, return_attention_scores=True)
    assert np.array_equal(_array(masking.carried(output)), _padding([2, 3], T))
    assert masking.carried(_layer()(_plain(query), value)) is None


def test_an_explicit_query_mask_is_joined_with_the_carried_one():
    query, value = _embedded([2, 3], T, I), _embedded([5, 5], S, J)
    given = np.array([[False, True, True], [True, True, False]])
    output, scores = _layer()(query, value, query_mask=given, return_attention_scores=True)
    both = given & _padding([2, 3], T)
    assert np.array_equal(_array(masking.carried(output)), both)
    assert np.array_equal(_array(scores).any(axis=(1, 3)), both)


def test_a_query_mask_of_lower_rank_is_joined_by_the_first_axes():
    """(B, T) given, (B, T, U) carried: b = 0 and t = 1 masked out must not become t = 0 and u = 1."""
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 2, 2, I)).astype(WIDE))
    carried = np.array([[[True, False], [True, True]], [[True, True], [True, True]]])
    masking.carry(x, ops.convert_to_tensor(carried))
    given = np.array([[True, False], [True, True]])
    output, scores = _layer()(x, x, query_mask=given, return_attention_scores=True)
    expected = carried & given[:, :, None]
    assert np.array_equal(_array(masking.carried(output)), expected)
    assert np.array_equal(_array(scores).any(axis=(1, 4, 5)), expected)


def test_masks_may_be_lists():
    query, value = _plain(_embedded([3, 3], T, I)), _plain(_embedded([5, 5], S, J))
    mask = np.tril(np.ones((T, S), bool))
    layer = _layer()
    assert np.array_equal(
        _array(layer(query, value, attention_mask=mask)), _array(layer(query, value, attention_mask=mask.tolist()))
    )


def test_the_callers_tensors_keep_their_masks():
    x = _embedded([2, 3], T, I)
    layer = _layer()
    first, second = _array(layer(x, x)), _array(layer(x, x))
    assert np.array_equal(first, second)
    assert np.array_equal(_array(masking.carried(x)), _padding([2, 3], T))


def test_masks_are_taken_off_as_by_the_built_in_if_asked_for(monkeypatch):
    monkeypatch.setenv("KMHA_INPUT_MASKS", "remove")
    embed = keras.layers.Embedding(9, 4, mask_zero=True)
    for layer in (keras.layers.MultiHeadAttention(3, 5), kmha.MultiHeadAttention(3, 5)):
        query, value, key = (embed(np.array([[1, 2, 0]])) for _ in range(3))
        output = layer(query, value, key)
        assert [masking.get_keras_mask(x) for x in (query, value, key)] == [None] * 3
        assert ops.convert_to_numpy(masking.get_keras_mask(output)).tolist() == [[True, True, False]]
    monkeypatch.setenv("KMHA_INPUT_MASKS", "off")
    with pytest.raises(ValueError, match=r'KMHA_INPUT_MASKS must be "keep" or "remove"\. Received: "off"'):
        layer(query, value)


def test_a_given_value_mask_replaces_the_carried_one_as_in_keras():
    query, value = _plain(_embedded([3, 3], T, I)), _embedded([5, 1], S, J)
    layer = _layer()
    _, scores = layer(query, value, value_mask=_padding([1, 4], S), return_attention_scores=True)
    assert np.array_equal(_array(scores).any(axis=(1, 2)), _padding([1, 4], S))


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_masks_of_zeros_and_ones_are_read_as_booleans(dtype):
    query, value = _plain(_embedded([3, 3], T, I)), _plain(_embedded([5, 5], S, J))
    mask, padding = np.tril(np.ones((T, S), bool)), _padding([4, 2], S)
    layer = _layer()
    output = layer(query, value, attention_mask=mask, value_mask=padding)
    assert np.array_equal(
        _array(output), _array(layer(query, value, attention_mask=mask.astype(dtype), value_mask=padding.astype(dtype)))
    )


SHAPES = [
    (T, S),
    (1, S),
    (T, 1),
    (B, T, S),
    (1, T, S),
    (B, 1, S),
    (B, 1, T, S),
    (1, H, T, S),
    (B, H, 1, S),
    (1, 1, 1, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_padding", [True, False])
def test_every_broadcastable_mask(shape, with_padding):
    query, value = _plain(_embedded([3, 3], T, I)), _plain(_embedded([5, 5], S, J))
    mask = np.random.default_rng(len(shape)).random(shape) < 0.7
    full = mask if mask.ndim == 4 else (mask[:, None] if mask.ndim == 3 else mask[None, None])
    padding = _padding([4, 2], S)
    arguments = {"value_mask": padding} if with_padding else {}
    _, scores = _layer()(query, value, attention_mask=mask, return_attention_scores=True, **arguments)
    expected = np.broadcast_to(full, (B, H, T, S)) & (padding[:, None, None] if with_padding else True)
    assert np.array_equal(_array(scores) > 0, expected)


@pytest.mark.parametrize(
    ("axes", "rows", "columns"), [((2,), (4, T), (4, S)), ((1,), (T, 4), (S, 4)), (None, (4, T), (2, S))]
)
def test_padding_masks_with_attention_axes(axes, rows, columns):
    rng = np.random.default_rng(0)
    query, value = rng.normal(size=(B, *rows, I)).astype(WIDE), rng.normal(size=(B, *columns, J)).astype(WIDE)
    query_mask, value_mask = rng.random((B, *rows)) < 0.7, rng.random((B, *columns)) < 0.7
    _, scores = _layer(attention_axes=axes)(
        query, value, query_mask=query_mask, value_mask=value_mask, return_attention_scores=True
    )
    attended = _array(scores) > 0
    for index in np.ndindex(*attended.shape):
        b, *rest = index
        if axes == (2,):
            between, _, t, s = rest
            expected = query_mask[b, between, t] and value_mask[b, between, s]
        elif axes == (1,):
            between, _, t, s = rest
            expected = query_mask[b, t, between] and value_mask[b, s, between]
        else:
            _, t, u, s, v = rest
            expected = query_mask[b, t, u] and value_mask[b, s, v]
        assert attended[index] == expected


def test_a_mask_without_the_axis_between_is_joined_with_padding():
    """(B, T, S) stands for (B, 1, 1, T, S): its B must not become the axis between, of the same size."""
    rng = np.random.default_rng(0)
    query, value = rng.normal(size=(B, B, T, I)).astype(WIDE), rng.normal(size=(B, B, S, J)).astype(WIDE)
    mask, padding = rng.random((B, T, S)) < 0.7, rng.random((B, B, S)) < 0.7
    layer = _layer(attention_axes=2)
    _, scores = layer(query, value, attention_mask=mask, value_mask=padding, return_attention_scores=True)
    expected = mask[:, None, None] & padding[:, :, None, None]
    assert np.array_equal(_array(scores) > 0, np.broadcast_to(expected, scores.shape))


@pytest.mark.parametrize("axes", [(1,), (2,), None])
@pytest.mark.parametrize("window", [None, 2])
def test_causal_and_window_run_along_the_attention_axes(axes, window):
    x = np.random.default_rng(0).normal(size=(B, T, S, I)).astype(WIDE)
    _, scores = _layer(attention_axes=axes, sliding_window=window)(
        x, x, use_causal_mask=True, return_attention_scores=True
    )
    positions = {(1,): T, (2,): S, None: T * S}[axes]
    flat = _array(scores).reshape(-1, positions, positions) > 0  # several axes count in the order of their elements
    expected = [[s <= t and (window is None or t - s < window) for s in range(positions)] for t in range(positions)]
    assert np.array_equal(flat, np.broadcast_to(expected, flat.shape))


@pytest.mark.parametrize("dtype", ["float64", "float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("return_scores", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_empty_rows_give_the_output_bias(dtype, return_scores, dropout):
    query, value = _plain(_embedded([3, 3], T, I)), _plain(_embedded([5, 5], S, J))
    mask = np.ones((B, T, S), bool)
    mask[1, 2] = False
    layer = _layer(dtype=dtype, dropout=dropout, bias_initializer="ones")
    output = layer(query, value, attention_mask=mask, return_attention_scores=return_scores, training=True)
    output = _array(output[0] if return_scores else output)
    assert np.array_equal(output[1, 2], np.ones(I))
    assert not np.array_equal(output[1, 1], np.ones(I))


def test_joined_is_none_without_masks():
    x = np.ones((B, T, I))
    assert masking.join("layer", PLAIN, x, x, H) == (None, None)


def test_create_padding_mask():
    ids = np.array([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
    mask = ops.convert_to_numpy(create_padding_mask(ids))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, (ids != 0)[:, None])
    np.testing.assert_array_equal(ops.convert_to_numpy(create_padding_mask(ids, pad_id=3)), (ids != 3)[:, None])


def test_create_look_ahead_mask():
    np.testing.assert_array_equal(ops.convert_to_numpy(create_look_ahead_mask(4)), np.tril(np.ones((4, 4), bool)))
