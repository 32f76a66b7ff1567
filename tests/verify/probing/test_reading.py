import keras
import numpy as np
import pytest

import kmha
from kmha.verify.probing.reading import read

IDS = np.array([[3, 4, 0], [5, 6, 7]])


def reading(thing, *args, mask=None, pad_id=None, **kwargs):
    return read(thing, args, kwargs, mask, pad_id, np.random.default_rng(0))


def test_one_array_passed_twice_is_one(x):
    layer = kmha.MultiHeadAttention(2, 3)
    for inputs in (reading(layer, x, x), reading(layer, x), reading(layer, (3, 7, 8)), reading(layer, x, value=x)):
        assert [slot.names for slot in inputs.slots] == [("query", "value")]
        args, kwargs = inputs.filled(lambda slot, array, carried: array)
        assert len(args) + len(kwargs) == 2
    assert [slot.names for slot in reading(layer, x, x.copy()).slots] == [("query",), ("value",)]
    shape = (3, 7, 8)
    assert [slot.names for slot in reading(layer, shape, shape).slots] == [("query",), ("value",)]


@pytest.mark.parametrize(
    ("given", "shape", "dtype"),
    [
        ((4, 5, 6), (4, 5, 6), "float32"),
        ((None, None, 6), (3, 7, 6), "float32"),
        (lambda: keras.Input((None, 6)), (3, 7, 6), "float32"),
        (lambda: keras.Input((5,), dtype="int32"), (3, 5), "int32"),
        (IDS.tolist(), (2, 3), "int64"),
        (keras.ops.ones, (2, 3, 4), "float32"),
    ],
    ids=["shape", "open shape", "Input", "ids", "lists", "tensor"],
)
def test_generated_arrays(given, shape, dtype):
    given = given((2, 3, 4)) if given is keras.ops.ones else given() if callable(given) else given
    (array,) = reading(keras.layers.Dense(3), given).arrays
    assert (array.shape, str(array.dtype)) == (shape, dtype)
    assert dtype != "int32" or (array.min() >= 1 and array.max() < 10)


def test_structures_and_their_names():
    inputs = reading(
        lambda pair, ids, bias: None, [np.ones((2, 3, 4)), np.ones((2, 5, 4))], {"source": IDS}, None, gain=2
    )
    assert [slot.name for slot in inputs.slots] == ["pair[0]", "pair[1]", "source"]
    (pair, ids, bias), named = inputs.filled(lambda slot, array, carried: slot.name)
    assert (pair, ids, bias, named) == (["pair[0]", "pair[1]"], {"source": "source"}, None, {"gain": 2})


def test_roles():
    call = {"attention_mask": np.tri(3), "keep": np.ones((2, 3), bool), "table": np.ones((9, 4)), "rate": np.float32(1)}
    inputs = reading(lambda ids, **_: None, IDS, **call)
    roles = {slot.name: (slot.role, slot.batched) for slot in inputs.slots}
    assert roles == {
        "ids": ("input", True),
        "attention_mask": ("mask", False),
        "keep": ("mask", True),
        "table": ("other", False),
        "rate": ("other", False),
    }


@pytest.mark.parametrize(
    ("layers", "pad_id", "pad", "assumed"),
    [
        ([keras.layers.Embedding(11, 4)], None, 0, True),
        ([keras.layers.Embedding(11, 4, mask_zero=True)], None, 0, False),
        ([keras.layers.Embedding(11, 4)], 5, 5, False),
    ],
)
def test_the_id_of_padding(layers, pad_id, pad, assumed):
    (slot,) = reading(keras.Sequential(layers), IDS, pad_id=pad_id).slots
    assert (slot.pad, slot.assumed) == (pad, assumed)
    assert slot.vocabulary == 11


def test_the_id_of_padding_that_a_layer_has():
    encoder = kmha.layers.Encoder(1, 6, 3, 7, 11, 13, pad_id=7)
    (slot,) = reading(encoder, IDS).slots
    assert (slot.pad, slot.assumed) == (7, False)


def test_ids_that_are_not_padding():
    segments = np.array([[0, 0, 1], [0, 1, 1]])
    inputs = reading(lambda ids, segment_ids, zeros: None, IDS, segments, np.zeros((2, 3), int))
    assert [slot.pad for slot in inputs.slots] == [0, None, None]


def test_a_mask_that_repeats_the_ids_is_not_carried():
    model = keras.Sequential([keras.layers.Embedding(11, 4)])
    same, other = reading(model, IDS, mask=IDS != 0), reading(model, IDS, mask=np.array([[1, 0, 0], [1, 1, 1]]))
    assert (same.carried, same.slots[0].pad, same.slots[0].assumed) == ((None,), 0, False)
    assert other.slots[0].pad is None
    np.testing.assert_array_equal(other.carried[0], [[True, False, False], [True, True, True]])


@pytest.mark.parametrize("axes", [(), (1,), (1, 2)])
def test_a_mask_with_further_axes_is_passed_as_it_is(x, tokens, axes):
    inputs = reading(kmha.layers.EncoderLayer(8, 2, 9), x, mask=np.expand_dims(tokens, axes))
    assert [slot.name for slot in inputs.slots] == (["x", "mask"] if axes else ["x"])
    np.testing.assert_array_equal(inputs.tokens(0), tokens)
    assert (inputs.carried[0] is None) == bool(axes)


def test_where_keras_fills_in_no_mask(x, tokens):
    class Two(keras.layers.Layer):
        def call(self, x, memory, mask=None):
            return x

    inputs = reading(Two(), x, x[:, :5], mask=tokens)
    assert [slot.name for slot in inputs.slots] == ["x", "memory", "mask"]
    np.testing.assert_array_equal(inputs.carried[0], tokens)


def test_parallel_inputs_of_a_model():
    """As in BERT: ids within their embedding's range, segments from 0, and a mask that hides nothing."""
    names = ("token_ids", "segment_ids", "padding_mask")
    tokens, segments, mask = given = [keras.Input((None,), dtype="int32", name=name) for name in names]
    x = keras.layers.Embedding(50, 8)(tokens) + keras.layers.Embedding(2, 8)(segments)
    inputs = reading(keras.Model(given, x * keras.ops.cast(mask, "float32")[..., None]))
    assert [slot.name for slot in inputs.slots] == list(names)
    assert [slot.role for slot in inputs.slots] == ["input", "input", "mask"]
    assert [slot.vocabulary for slot in inputs.slots[:2]] == [50, 2]
    assert inputs.arrays[0].max() > 10
    assert set(inputs.arrays[1].flat) == {0, 1}
    assert inputs.arrays[2].all()
