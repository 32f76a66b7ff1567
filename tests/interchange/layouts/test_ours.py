import numpy as np
import pytest

import kmha
from kmha import layers
from kmha.interchange import canonical, convert, recognize

D, H, F, O, V, J = 12, 3, 10, 5, 7, 8
SIZES = D, H, F


def _built(layer, *shapes):
    layer.build(*shapes)
    return layer


def _attention(**options):
    return _built(kmha.MultiHeadAttention(H, O, **options), (None, 4, D), (None, 6, J))


def _transformer(**options):
    return _built(layers.Transformer(2, *SIZES, 13, 13, 19, 23, **options))


X, Y = (None, 4, D), (None, 6, J)
CASES = [
    ("ours", lambda: _attention()),
    ("ours", lambda: _attention(use_bias=False, value_dim=V, use_gate=True)),
    ("ours", lambda: _attention(use_gate=True, output_shape=(2, 3))),
    ("ours-encoder-layer", lambda: _built(layers.EncoderLayer(*SIZES), X)),
    ("ours-encoder-layer", lambda: _built(layers.EncoderLayer(*SIZES, attention={"use_bias": False}), X)),
    ("ours-decoder-layer", lambda: _built(layers.DecoderLayer(*SIZES, key_dim=O), X, Y)),
    ("ours-encoder", lambda: _built(layers.Encoder(3, *SIZES, 13, 17))),
    ("ours-encoder", lambda: _built(layers.Encoder(1, *SIZES, 13, 17, norm="pre"))),
    ("ours-decoder", lambda: _built(layers.Decoder(2, *SIZES, 13, 17, norm="pre"))),
    ("ours-transformer", lambda: _transformer()),
    ("ours-transformer", lambda: _transformer(norm="pre")),
    ("ours-transformer", lambda: _transformer(tie_embeddings="target")),
    ("ours-transformer", lambda: _transformer(tie_embeddings="all", norm="pre")),
]


@pytest.mark.parametrize(("layout", "make"), CASES)
def test_layers_have_their_layout(round_trip, layout, make):
    layer = make()
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=array.shape).astype("float32") for name, array in canonical.read(layer).items()}
    assert len(weights) == len(layer.weights)
    round_trip(weights, layout)
    assert [reading.layout for reading in recognize(weights)] == [layout]
    canonical.write(layer, convert(weights, layout, layout))
    for name, array in canonical.read(layer).items():
        assert np.array_equal(array, weights[name]), name


def test_attention_is_the_canonical_layout_itself(round_trip):
    weights = canonical.read(_attention(use_gate=True))
    assert round_trip(weights, "ours").keys() == weights.keys()


@pytest.mark.parametrize(
    ("layout", "make", "names"),
    [
        (
            "ours-decoder-layer",
            lambda: _built(layers.DecoderLayer(*SIZES), X, Y),
            {
                "self_attention/query/kernel": "mha1/query/kernel",
                "cross_attention/key/kernel": "mha2/key/kernel",
                "feed_forward/inner/kernel": "ffn/dense1/kernel",
                "feed_forward/outer/bias": "ffn/dense2/bias",
                "self_attention_norm/gamma": "layernorm1/gamma",
                "cross_attention_norm/gamma": "layernorm2/gamma",
                "feed_forward_norm/beta": "layernorm3/beta",
            },
        ),
        (
            "ours-transformer",
            lambda: _transformer(norm="pre"),
            {
                "encoder/layer_0/self_attention/key/bias": "encoder/layer1/mha/key/bias",
                "decoder/layer_1/cross_attention/key/bias": "decoder/layer2/mha2/key/bias",
                "decoder/embedding/table": "decoder/embedding/embeddings",
                "encoder/norm/gamma": "encoder/layernorm/gamma",
                "logits/kernel": "final_layer/kernel",
            },
        ),
    ],
)
def test_where_the_weights_of_blocks_go(round_trip, layout, make, names):
    layer = make()
    weights = {name: np.random.default_rng(len(name)).normal(size=a.shape) for name, a in canonical.read(layer).items()}
    middle = round_trip(weights, layout)
    for path, name in names.items():
        assert np.array_equal(middle[path], weights[name]), path
