"""Mutants of installed code: compiled in memory, without a trace afterwards."""

import inspect
import sys

import numpy as np
import pytest

from kmha.verify.bank.zoo import replay
from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.mutants import mutants

ENTRY = Entry("keras", "keras.layers:MultiHeadAttention", "attention", "keras")


def one(operator, entry=ENTRY):
    return next(mutant for mutant in mutants(entry) if mutant.operator == operator)


@pytest.mark.tensorflow
def test_a_mutant_of_a_keras_layer_computes_something_else():
    import keras

    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    layer = keras.layers.MultiHeadAttention(2, 4)
    expected = np.asarray(layer(x, x))
    mutant = one("scale-one")
    assert mutant.ids == ("scale-missing",)
    assert mutant.id.startswith("keras/MultiHeadAttention: scale-one@")
    with mutant.made() as made:
        assert made.__module__ == keras.layers.MultiHeadAttention.__module__
        assert "self._inverse_sqrt_key_dim = 1.0" in inspect.getsource(made)
        edited = made(2, 4)
        edited.build(x.shape, x.shape)
        edited.set_weights(layer.get_weights())
        assert not np.allclose(np.asarray(edited(x, x)), expected, atol=1e-4)


@pytest.mark.tensorflow
def test_a_mutant_leaves_no_trace():
    import keras

    module = sys.modules[keras.layers.MultiHeadAttention.__module__]
    registered = keras.saving.get_registered_object("keras>MultiHeadAttention")
    with one("scale-one").made():
        pass
    assert sys.modules[module.__name__] is module
    assert module.MultiHeadAttention is keras.layers.MultiHeadAttention
    assert keras.saving.get_registered_object("keras>MultiHeadAttention") is registered
    assert "self._inverse_sqrt_key_dim = 1.0 / math.sqrt" in inspect.getsource(keras.layers.MultiHeadAttention)
    saved = keras.layers.serialize(keras.layers.MultiHeadAttention(2, 4))
    assert type(keras.layers.deserialize(saved)) is keras.layers.MultiHeadAttention


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_mutant_is_compared_on_recorded_calls():
    calls = replay.recorded(ENTRY)
    assert len(calls) > 10
    original = replay.Replay(ENTRY.made())
    expected = [original.answer(call) for call in calls]
    assert replay.compared(ENTRY.made(), calls, expected) == replay.SAME
    with one("scale-one").made() as made:
        assert replay.compared(made, calls, expected) == replay.OTHER


def test_a_builtin_has_no_mutants():
    assert mutants(Entry("numpy", "numpy:matmul", "attention", "numpy")) == []


@pytest.mark.zoo
@pytest.mark.parametrize(
    "where",
    ["vit_pytorch.vit:Attention", "labml_nn.transformers.mha:MultiHeadAttention", "torch.nn:MultiheadAttention"],
)
def test_mutants_of_torch_modules_can_be_made(where):
    pytest.importorskip(where.partition(".")[0])
    found = mutants(Entry("any", where, "attention", "torch"))
    assert len({mutant.id for mutant in found}) == len(found) > 0
    for mutant in found[:20]:
        with mutant.made() as made:
            assert isinstance(made, type)
