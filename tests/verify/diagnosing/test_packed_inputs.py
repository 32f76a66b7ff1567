"""Layers that take all their inputs as one argument, and unpack them in the call."""

import keras
import pytest
from keras import ops

from kmha.verify.diagnosing.diagnosis import diagnose
from kmha.verify.diagnosing.packed_inputs import Packing, packing_of


class _Attention(keras.layers.Layer):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.depth = num_heads, d_model // num_heads
        self.query_dense, self.key_dense, self.value_dense, self.dense = (keras.layers.Dense(d_model) for _ in range(4))

    def split(self, array):
        batch, rows, _ = array.shape
        return ops.transpose(ops.reshape(array, (batch, rows, self.num_heads, self.depth)), (0, 2, 1, 3))

    def attend(self, query, key, value, mask):
        query, key, value = (
            self.split(dense(array))
            for dense, array in ((self.query_dense, query), (self.key_dense, key), (self.value_dense, value))
        )
        logits = ops.matmul(query, ops.swapaxes(key, -1, -2)) / self.depth**0.5
        if mask is not None:
            logits = logits + ops.cast(mask, logits.dtype) * -1e9
        mixed = ops.transpose(ops.matmul(ops.softmax(logits), value), (0, 2, 1, 3))
        return self.dense(ops.reshape(mixed, (*mixed.shape[:2], -1)))


class _ByName(_Attention):
    """As in the chatbot tutorial of TensorFlow's blog."""

    def call(self, inputs):
        query, key, value, mask = inputs["query"], inputs["key"], inputs["value"], inputs.get("mask")
        return self.attend(query, key, value, mask)


class _InOrder(_Attention):
    def call(self, inputs):
        query, key, value, mask = inputs
        return self.attend(query, key, value, mask)


class _MaskAlone(_Attention):
    def call(self, inputs):
        hidden_states, attention_mask = inputs
        return self.attend(hidden_states, hidden_states, hidden_states, attention_mask)


class _Beginning(_Attention):
    def call(self, inputs):
        if len(inputs) < 3:
            raise ValueError("too few inputs")
        input_tensor, memory, attention_mask = inputs[:3]
        return self.attend(input_tensor, memory, memory, attention_mask)


class _Wrong(_Attention):
    def call(self, inputs):
        query, _key, value, mask = inputs
        return self.attend(query, value, value, mask)


@pytest.mark.parametrize(
    ("layer", "parts", "by_name"),
    [
        (_ByName, ("query", "key", "value", "mask"), True),
        (_InOrder, ("query", "key", "value", "mask"), False),
        (_MaskAlone, ("hidden_states", "attention_mask"), False),
        (_Beginning, ("input_tensor", "memory", "attention_mask"), False),
    ],
)
def test_the_parts_have_the_names_that_the_call_gives_them(layer, parts, by_name):
    assert packing_of(layer.call) == Packing("inputs", parts, by_name)
    found = diagnose(layer, mask="hides")
    assert (found.verdict, found.ids) == ("right", ())
    assert "masks" in str(found)


def test_a_mistake_is_named_and_its_smallest_case_packs_the_inputs():
    found = diagnose(_Wrong, mask="hides")
    assert (found.verdict, found.ids) == ("known", ("inputs-key-is-value",))
    assert "inputs = [np.array(" in str(found)
    assert ", None]\n" in str(found)


def _reads_more(self, inputs):
    return inputs["query"] + inputs["key"] + len(inputs)


def _unpacks_pairs(self, inputs):
    (query, key), mask = inputs
    return query + key + mask


def _has_no_inputs(self, inputs):
    width, _height = inputs
    return width


@pytest.mark.parametrize("function", [_reads_more, _unpacks_pairs, _has_no_inputs, len])
def test_what_is_not_sure_to_be_unpacked_stays_one_argument(function):
    assert packing_of(function) is None
