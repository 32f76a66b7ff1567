"""Embeddings, positions, and logits by the embedding's matrix."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.core import positions
from kmha.layers import PositionalEncoding, TiedLogits, TokenEmbedding

IDS = np.array([[3, 7, 0], [10, 1, 2]], "int32")


def test_the_embedding_is_scaled_by_the_root_of_the_width():
    keras.utils.set_random_seed(7)
    ours = ops.convert_to_numpy(TokenEmbedding(11, 5)(IDS))
    keras.utils.set_random_seed(7)
    theirs = ops.convert_to_numpy(keras.layers.Embedding(11, 5)(IDS))
    np.testing.assert_allclose(ours, theirs * np.sqrt(5.0), rtol=1e-6)


def test_positions_are_added_from_the_start_on():
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    layer, table = PositionalEncoding(9), positions.sinusoidal(9, 5)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x)), x + table[:3], atol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, start=4)), x + table[4:7], atol=1e-6)
    with pytest.raises(ValueError, match=r"at most 2 tokens.*3 positions"):
        PositionalEncoding(2)(x)
    assert PositionalEncoding.from_config(layer.get_config()).max_length == 9


@pytest.mark.tensorflow
def test_positions_of_a_length_that_is_not_known():
    import tensorflow as tf

    layer = PositionalEncoding(9)
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 5))])
    for length in (3, 7):
        x = np.ones((2, length, 5), "float32")
        np.testing.assert_allclose(traced(x).numpy(), x + positions.sinusoidal(9, 5)[:length], atol=1e-6)


def test_tied_logits_use_the_embedding_itself():
    embedding = TokenEmbedding(11, 5)
    layer = TiedLogits(embedding)
    features = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    layer(features)
    layer.bias.assign(np.arange(11.0))
    expected = features @ ops.convert_to_numpy(embedding.embeddings).T + np.arange(11.0)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(features)), expected, atol=1e-5)
    embedding.embeddings.assign(np.zeros((11, 5)))
    np.testing.assert_allclose(ops.convert_to_numpy(layer(features)), np.tile(np.arange(11.0), (4, 1)), atol=1e-6)
    again = TiedLogits.from_config(layer.get_config())
    assert again.embedding.input_dim == 11
