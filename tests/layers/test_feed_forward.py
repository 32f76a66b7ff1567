"""The feed-forward network against two of Keras' dense layers."""

import keras
import numpy as np
import pytest

from kmha.layers import FeedForward


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_it_equals_two_dense_layers_at_the_same_seed(run_step, same, mode):
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


def test_other_ranks_config_and_errors():
    layer = FeedForward(7, 4, activation="tanh")
    assert tuple(layer(np.ones((2, 3, 6, 5), "float32")).shape) == (2, 3, 6, 4)
    assert layer.compute_output_shape((2, None, 5)) == (2, None, 4)
    assert FeedForward.from_config(layer.get_config()).get_config() == layer.get_config()
    with pytest.raises(ValueError, match="fully_connected_dim"):
        FeedForward(0, 4)
