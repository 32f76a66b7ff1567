"""Our `LayerNormalization` against Keras' own."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import LayerNormalization
from kmha.verify.tolerance import is_close

X = 3 + np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")


@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": [2]}, {"center": False}, {"scale": False}])
def test_every_argument_means_what_it_means_in_keras(options):
    if "axis" in options and keras.backend.backend() == "torch":
        pytest.skip("Keras itself fails there, over any axis but the last")
    ours, theirs = LayerNormalization(epsilon=0.1, **options), keras.layers.LayerNormalization(epsilon=0.1, **options)
    for layer in (ours, theirs):
        layer.build(X.shape)
        layer.set_weights([np.arange(1.0, 1 + weight.shape[0]) for weight in layer.weights])
    assert is_close(ops.convert_to_numpy(ours(X)), ops.convert_to_numpy(theirs(X)), "float32")
    assert LayerNormalization.from_config(ours.get_config()).get_config() == ours.get_config()


@pytest.mark.tensorflow
def test_shapes_that_are_not_known_and_the_gradient(run_step, same):
    import tensorflow as tf

    upstream = np.random.default_rng(1).normal(size=X.shape).astype("float32")
    ours, theirs = LayerNormalization(), keras.layers.LayerNormalization()
    same(run_step(ours, ours, [X], upstream, "graph"), run_step(theirs, theirs, [X], upstream, "graph"))
    traced = tf.function(ours, input_signature=[tf.TensorSpec((None, None, 5))])
    assert is_close(traced(X).numpy(), theirs(X).numpy(), "float32")
