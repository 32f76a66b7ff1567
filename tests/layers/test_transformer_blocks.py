"""`FeedForward` against two of Keras' dense layers, and `LayerNormalization` against Keras' own."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import FeedForward, LayerNormalization
from kmha.verify.tolerance import is_close

X = 3 + np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")


@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": [2]}, {"center": False}, {"scale": False}])
def test_normalization_every_argument_means_what_it_means_in_keras(options):
    if "axis" in options and keras.backend.backend() == "torch":
        pytest.skip("Keras itself fails there, over any axis but the last")
    ours, theirs = LayerNormalization(epsilon=0.1, **options), keras.layers.LayerNormalization(epsilon=0.1, **options)
    for layer in (ours, theirs):
        layer.build(X.shape)
        layer.set_weights([np.arange(1.0, 1 + weight.shape[0]) for weight in layer.weights])
    assert is_close(ops.convert_to_numpy(ours(X)), ops.convert_to_numpy(theirs(X)), "float32")
    assert LayerNormalization.from_config(ours.get_config()).get_config() == ours.get_config()


@pytest.mark.tensorflow
def test_normalization_of_unknown_shapes_and_its_gradient(run_step, same):
    import tensorflow as tf

    upstream = np.random.default_rng(1).normal(size=X.shape).astype("float32")
    ours, theirs = LayerNormalization(), keras.layers.LayerNormalization()
    same(run_step(ours, ours, [X], upstream, "graph"), run_step(theirs, theirs, [X], upstream, "graph"))
    traced = tf.function(ours, input_signature=[tf.TensorSpec((None, None, 5))])
    assert is_close(traced(X).numpy(), theirs(X).numpy(), "float32")


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_feed_forward_equals_two_dense_layers_at_the_same_seed(run_step, same, mode):
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    upstream = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    keras.utils.set_random_seed(7)
    ours = FeedForward(7, 4, activation="gelu")
    results = run_step(ours, ours, [x], upstream, mode)
    keras.utils.set_random_seed(7)
    theirs = keras.Sequential([keras.layers.Dense(7, "gelu"), keras.layers.Dense(4)])
    same(results, run_step(theirs, theirs, [x], upstream, mode))


@pytest.mark.tensorflow
def test_batch_and_positions_are_folded_before_the_products():
    import tensorflow as tf

    layer = FeedForward(7, 4)
    layer.build((None, None, 5))
    graph = tf.function(layer).get_concrete_function(tf.TensorSpec((None, None, 5))).graph
    products = [op for op in graph.get_operations() if "MatMul" in op.type]
    assert [len(op.inputs[0].shape) for op in products] == [2, 2]


def test_feed_forward_other_ranks_config_and_errors():
    layer = FeedForward(7, 4, activation="tanh")
    assert tuple(layer(np.ones((2, 3, 6, 5), "float32")).shape) == (2, 3, 6, 4)
    assert layer.compute_output_shape((2, None, 5)) == (2, None, 4)
    assert FeedForward.from_config(layer.get_config()).get_config() == layer.get_config()
    with pytest.raises(ValueError, match="fully_connected_dim"):
        FeedForward(0, 4)
