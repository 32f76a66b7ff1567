"""The call forms, functions and attributes that code written for the course expects."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FullyConnected,
    MultiHeadAttention,
    Transformer,
    create_look_ahead_mask,
    create_padding_mask,
    get_angles,
    positional_encoding,
    scaled_dot_product_attention,
)

D = 4
X = np.random.default_rng(0).normal(size=(2, 3, D)).astype("float32")
ENCODED = np.random.default_rng(1).normal(size=(2, 5, 9)).astype("float32")
IDS, TARGET = np.array([[2, 1, 4, 3, 0], [5, 6, 7, 0, 0]]), np.array([[3, 2, 1], [4, 5, 0]])
PADDING = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], "float32")
LOOK_AHEAD = np.tril(np.ones((3, 3), "float32"))


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _transformer():
    return Transformer(2, D, 3, 8, 30, 35, max_positional_encoding_input=5, max_positional_encoding_target=6)


CALLS = {
    "encoder layer": (
        lambda: EncoderLayer(D, 2, 8),
        (X, False, np.array([[1, 0, 1], [1, 1, 0]])),
        ("x", "training", "mask"),
    ),
    "encoder layer without a mask": (lambda: EncoderLayer(D, 2, 8), (X, False, None), ("x", "training", "mask")),
    "encoder": (
        lambda: Encoder(2, D, 2, 8, input_vocab_size=32, maximum_position_encoding=5),
        (IDS, False, PADDING[:, None, None]),
        ("x", "training", "mask"),
    ),
    "decoder layer": (  # with more heads than features, as in the course's test
        lambda: DecoderLayer(embedding_dim=D, num_heads=8, fully_connected_dim=32),
        (X, ENCODED, np.False_, LOOK_AHEAD, PADDING[:, None]),
        ("x", "enc_output", "training", "look_ahead_mask", "padding_mask"),
    ),
    "decoder": (
        lambda: Decoder(2, D, 3, 8, target_vocab_size=33, maximum_position_encoding=6),
        (TARGET, ENCODED, False, LOOK_AHEAD, None),
        ("x", "enc_output", "training", "look_ahead_mask", "padding_mask"),
    ),
    "transformer": (
        _transformer,
        (IDS, TARGET, False, PADDING[:, None], LOOK_AHEAD, PADDING[:, None]),
        (
            *("input_sentence", "output_sentence", "training"),
            *("enc_padding_mask", "look_ahead_mask", "dec_padding_mask"),
        ),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_positional_training_and_masks_mean_what_their_names_mean(name):
    make, arguments, names = CALLS[name]
    layer = make()
    by_position = keras.tree.flatten(layer(*arguments))
    by_name = keras.tree.flatten(layer(*arguments[:1], **dict(zip(names[1:], arguments[1:], strict=True))))
    assert len(by_position) == len(by_name)
    for one, other in zip(by_position, by_name, strict=True):
        assert np.array_equal(_array(one), _array(other))
    assert not np.isnan(_array(by_position[0])).any()


def test_positional_training_drops():
    layer = EncoderLayer(D, 2, 8, dropout_rate=0.9)
    assert not np.allclose(_array(layer(X, True, None)), _array(layer(X, False, None)))


def test_positional_arguments_in_a_functional_model_and_a_subclass():
    class Mine(EncoderLayer):
        def call(self, x, training, mask):
            return super().call(x, training, mask)

    inputs = keras.Input((3, D))
    layer = Mine(D, 2, 8)
    model = keras.Model(inputs, layer(inputs, False, None))
    assert np.allclose(_array(model(X)), _array(layer(X, False, None)))


def test_an_argument_given_twice_is_refused():
    with pytest.raises((ValueError, TypeError)):
        EncoderLayer(D, 2, 8)(X, True, training=False)


def test_attention_takes_none_for_a_mask_by_position():
    layer = MultiHeadAttention(2, 3)
    mask = np.array([[True, False, True], [True, True, False]])
    one = layer(X, X, None, None, mask, None, None, True)
    for x, other in zip(one, layer(X, X, value_mask=mask, return_attention_scores=True), strict=True):
        assert np.array_equal(_array(x), _array(other))


def test_attributes():
    for stack in (_transformer().encoder, _transformer().decoder):
        assert (stack.num_layers, stack.embedding_dim, stack.num_heads, stack.fully_connected_dim) == (2, D, 3, 8)
        assert (stack.dropout_rate, stack.layernorm_eps) == (0.1, 1e-6)
    assert _transformer().encoder.maximum_position_encoding == 5


def test_more_heads_than_features_are_one_wide():
    layer = DecoderLayer(D, 8, 32)
    out, block1, block2 = layer(X, ENCODED)
    assert [tuple(x.shape) for x in (out, block1, block2)] == [(2, 3, D), (2, 8, 3, 3), (2, 8, 3, 5)]
    assert layer.mha1.key_dim == 1


def test_positional_encoding():
    angles = get_angles(np.arange(5)[:, None], np.arange(7)[None], 7)
    expected = np.where(np.arange(7) % 2, np.cos(angles), np.sin(angles))
    encoding = positional_encoding(5, 7)
    assert keras.backend.standardize_dtype(encoding.dtype) == "float32"
    assert np.allclose(_array(encoding), expected[None], atol=1e-7)
    assert angles[3, 4] == angles[3, 5] == 3 / 10000 ** (4 / 7)


@pytest.mark.parametrize("shape", [(), (2,), (2, 6)])
@pytest.mark.parametrize("kind", ["bool", "int32", "float32"])
def test_scaled_dot_product_attention(shape, kind):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(*shape, *sizes)).astype("float32") for sizes in ((3, 4), (5, 4), (5, 7)))
    mask = rng.random((3, 5)) > 0.3
    logits = np.where(mask, q @ k.swapaxes(-1, -2) / 2.0, -np.inf)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    output, weights = scaled_dot_product_attention(q, k, v, mask.astype(kind))
    assert np.allclose(_array(weights), expected, atol=1e-6)
    assert np.allclose(_array(output), expected @ v, atol=1e-5)
    assert np.allclose(_array(scaled_dot_product_attention(q, k, v)[1]).sum(-1), 1.0)


def test_scaled_dot_product_attention_with_the_courses_masks():
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    mask = ops.logical_and(create_padding_mask(TARGET), create_look_ahead_mask(3))
    weights = _array(scaled_dot_product_attention(x, x, x, mask)[1])
    assert np.array_equal(weights > 0, _array(mask).astype(bool))
    with pytest.raises(ValueError, match="`mask` must be boolean"):
        scaled_dot_product_attention(x, x, x, (1 - LOOK_AHEAD) * -1e9)


def test_fully_connected_takes_the_width_first():
    layer = FullyConnected(embedding_dim=4, fully_connected_dim=8)
    layer(X)
    assert [tuple(weight.shape) for weight in layer.weights] == [(4, 8), (8,), (8, 4), (4,)]
