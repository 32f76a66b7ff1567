import keras
import numpy as np
from keras import ops

from kmha.core.dropout import Dropout


def test_it_draws_what_the_keras_layer_draws():
    ours, theirs = keras.layers.Dropout(0.3, seed=5), keras.layers.Dropout(0.3, seed=5)
    scores = ops.ones((2, 3, 5, 7))
    for _ in range(2):  # two calls draw two masks
        drawn = Dropout.of(ours, training=True)(scores)
        assert np.array_equal(ops.convert_to_numpy(drawn), ops.convert_to_numpy(theirs(scores, training=True)))


def test_there_is_none_where_nothing_is_dropped():
    layer = keras.layers.Dropout(0.3)
    assert Dropout.of(layer, training=False) is None
    assert Dropout.of(layer, training=None) is None
    assert Dropout.of(keras.layers.Dropout(0.0), training=True) is None
