"""`keras.RematScope`: the layers compute the same with less memory, with their flags as Python booleans."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

import kmha

pytestmark = pytest.mark.sampled(4)

B, T, I, H, O = 4, 6, 8, 2, 3
X = np.random.default_rng(0).normal(size=(B, T, I)).astype("float32")
MASK = np.arange(T) < np.array([[6], [5], [4], [3]])


def _attention(x, mask):
    return kmha.MultiHeadAttention(H, O, use_gate=True, name="layer")(x, x, value_mask=mask, use_causal_mask=True)


def _scores(x, mask):
    layer = kmha.MultiHeadAttention(H, O, name="layer")
    return layer(x, x, attention_mask=mask[:, None], return_attention_scores=True)[0]


def _encoder_layer(x, mask):
    return kmha.layers.EncoderLayer(I, H, 7, dropout_rate=0.0, name="layer")(x, mask=mask)


def _decoder_layer(x, mask):
    layer = kmha.layers.DecoderLayer(I, H, 7, dropout_rate=0.0, name="layer")
    return layer(x, x, padding_mask=mask, return_attention_scores=False)


@pytest.mark.parametrize("make", [_attention, _scores, _encoder_layer, _decoder_layer])
def test_training_is_the_same(make):
    losses = []
    for scope in (contextlib.nullcontext(), keras.RematScope(mode="list_of_layers", layer_names=["layer"])):
        keras.utils.set_random_seed(1)
        with scope:
            inputs = keras.Input((T, I)), keras.Input((T,), dtype="bool")
            model = keras.Model(inputs, make(*inputs))
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
        losses.append(model.fit((X, MASK), X, epochs=2, verbose=0, shuffle=False).history["loss"])
    assert np.allclose(losses[0], losses[1], rtol=1e-5, atol=0)


@pytest.mark.parametrize("training", [True, False, None])
@pytest.mark.parametrize("mode", ["full", "larger_than"])
def test_a_call_is_the_same(mode, training):
    options = {"training": training, "use_causal_mask": True, "return_attention_scores": True}
    plain = kmha.MultiHeadAttention(H, O)
    with keras.RematScope(mode=mode, output_size_threshold=10):
        layer = kmha.MultiHeadAttention(H, O)
        results = layer(X, X, **options)
        plain.build(X.shape, X.shape)
        plain.set_weights(layer.get_weights())
    for one, other in zip(results, plain(X, X, **options), strict=True):
        assert np.allclose(ops.convert_to_numpy(one), ops.convert_to_numpy(other), atol=1e-6)
