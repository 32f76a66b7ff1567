"""Layers that have not been built: copied, pickled and saved, alone and in a model that never calls them."""

import copy
import pickle

import cloudpickle
import keras
import numpy as np
import pytest
from keras import ops

import kmha

BUILTIN = keras.layers.MultiHeadAttention
B, T, I, H, O = 2, 3, 4, 5, 6

LAYERS = {
    "MultiHeadAttention": lambda: kmha.MultiHeadAttention(H, O, kernel_constraint="unit_norm", seed=1),
    "EncoderLayer": lambda: kmha.layers.EncoderLayer(6, 3, 7),
    "DecoderLayer": lambda: kmha.layers.DecoderLayer(6, 3, 7),
    "Encoder": lambda: kmha.layers.Encoder(2, 6, 3, 7, 11, 13),
    "Decoder": lambda: kmha.layers.Decoder(2, 6, 3, 7, 11, 13),
    "Transformer": lambda: kmha.layers.Transformer(1, 6, 3, 7, 11, 12, 20, 21),
    "FeedForward": lambda: kmha.layers.FeedForward(5, 4),
    "HeadProjection": lambda: kmha.layers.HeadProjection(H, O),
    "HeadMerge": lambda: kmha.layers.HeadMerge(9),
    "LayerNormalization": lambda: kmha.layers.LayerNormalization(),
    "PositionalEncoding": lambda: kmha.layers.PositionalEncoding(5),
    "TiedLogits": lambda: kmha.layers.TiedLogits(kmha.layers.TokenEmbedding(11, 4)),
    "addons": lambda: kmha.layers.addons.MultiHeadAttention(O, H),
}
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),  # noqa: S301
    "cloudpickle": lambda layer: pickle.loads(cloudpickle.dumps(layer)),  # noqa: S301
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:You are saving a model that has not yet been built", "ignore:.build... was called on layer"
)


def test_every_layer_is_here():
    public = {name for name in kmha.layers.__all__ if isinstance(getattr(kmha.layers, name), type)}
    assert public - set(LAYERS) == {"TokenEmbedding"}  # which is in TiedLogits


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", LAYERS)
def test_a_copy_has_the_same_config(name, how):
    layer = LAYERS[name]()
    again = COPIES[how](layer)
    assert again.get_config() == layer.get_config()
    assert again.built == layer.built  # a Transformer, which knows its shapes, is built when it is saved


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_built_layer_gives_its_numbers(how):
    x = np.random.default_rng(0).normal(size=(B, T, I)).astype("float32")
    layer = kmha.MultiHeadAttention(H, O)
    expected = ops.convert_to_numpy(layer(x, x))
    assert np.array_equal(ops.convert_to_numpy(COPIES[how](layer)(x, x)), expected)


def test_an_unbuilt_layer_has_no_projections_for_hasattr():
    layer = kmha.MultiHeadAttention(H, O)
    assert not hasattr(layer, "query_dense")
    layer.set_weights([])  # as Keras does
    layer.build((B, T, I), (B, T, I))
    assert hasattr(layer, "query_dense")


@keras.saving.register_keras_serializable("kmha_tests")
class Partly(keras.Model):
    """A model that calls one of its three attention layers, unless it is told to call two."""

    def __init__(self, ours=True, both=False, **kwargs):
        super().__init__(**kwargs)
        self.settings = {"ours": ours, "both": both}
        layer_class = kmha.MultiHeadAttention if ours else BUILTIN
        self.first, self.second = layer_class(H, O), layer_class(H, O)
        self.others = [layer_class(H, O)]

    def call(self, x):
        x = self.first(x, x)
        return self.second(x, x) if self.settings["both"] else x

    def get_config(self):
        return {**super().get_config(), **self.settings}


@pytest.mark.parametrize("ours", [True, False])
def test_a_model_with_an_attention_that_it_never_calls_is_saved_and_loaded(ours, tmp_path):
    x = np.random.default_rng(0).normal(size=(B, T, I)).astype("float32")
    model = Partly(ours)
    expected = ops.convert_to_numpy(model(x))
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    again = Partly(ours)
    again(x)
    again.load_weights(tmp_path / "model.weights.h5")
    for loaded in (
        keras.models.load_model(tmp_path / "model.keras"),
        again,
        *(make(model) for make in COPIES.values()),
    ):
        assert np.array_equal(ops.convert_to_numpy(loaded(x)), expected)


def test_weights_of_an_attention_that_is_not_built_are_not_lost_silently(tmp_path):
    x = np.ones((B, T, I), "float32")
    model = Partly(both=True)
    model(x)
    model.save_weights(tmp_path / "model.weights.h5")
    partly = Partly()
    partly(x)
    with pytest.raises(ValueError, match="the layer has no weights before it is built"):
        partly.load_weights(tmp_path / "model.weights.h5")
    partly.second.build(x.shape, x.shape)
    partly.load_weights(tmp_path / "model.weights.h5")
    assert np.array_equal(*(ops.convert_to_numpy(one.second(x, x)) for one in (partly, model)))


def test_an_unbuilt_model_is_saved_and_loaded(tmp_path):
    Partly().save(tmp_path / "model.keras")
    x = np.ones((B, T, I), "float32")
    assert keras.models.load_model(tmp_path / "model.keras")(x).shape == (B, T, I)
