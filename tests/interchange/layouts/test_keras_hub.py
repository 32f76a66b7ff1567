import keras
import numpy as np
import pytest

from kmha.interchange import LayoutError, canonical, convert, recognize
from kmha.layers import DecoderLayer, EncoderLayer
from kmha.verify.tolerance import is_close

# H O is less than E: KerasHub drops the remainder.
B, T, S, H, O, E, J, F = 2, 5, 7, 3, 4, 13, 10, 11
EPSILON = 0.01
# On torch, Keras hands float64 through float32; on JAX, its layer normalization computes in float32 at most.
FLOAT64 = "float64" if keras.backend.backend() == "tensorflow" else "float32"


def _hub(kind, normalize_first, activation, *widths):
    """One of KerasHub's blocks, built for the widths of its one or two inputs."""
    layers = pytest.importorskip("keras_hub").layers
    block = {"encoder": layers.TransformerEncoder, "decoder": layers.TransformerDecoder}[kind]
    settings = {"activation": activation, "layer_norm_epsilon": EPSILON, "normalize_first": normalize_first}
    layer = block(F, H, **settings, dtype="float64")
    layer.build(*((None, length, width) for length, width in zip((T, S), widths, strict=False)))
    return _randomized(layer, 3)


def _ours(normalize_first, activation, *widths):
    """Our block for as many inputs."""
    settings = {"norm": "pre" if normalize_first else "post", "activation": activation, "dtype": "float64"}
    layer = (EncoderLayer if len(widths) == 1 else DecoderLayer)(E, H, F, 0.1, EPSILON, **settings)
    layer.build(*((None, length, width) for length, width in zip((T, S), widths, strict=False)))
    return _randomized(layer, 4)


def _randomized(layer, seed):
    rng = np.random.default_rng(seed)
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape) / 2)
    return layer


def _run(layer, kind, *inputs):
    """The output; our encoder layer is causal as KerasHub's decoder is."""
    options = {}
    if isinstance(layer, EncoderLayer) and kind == "decoder":
        options["mask"] = np.tri(T, dtype=bool)[None]
    output = layer(*inputs, **options)
    return keras.ops.convert_to_numpy(output[0] if isinstance(output, tuple) else output)


# Without cross-attention their decoder is our encoder layer.
CASES = [
    ("encoder", "ours-encoder-layer", (E,)),
    ("decoder", "ours-encoder-layer", (E,)),
    ("decoder", "ours-decoder-layer", (E, J)),
]


@pytest.mark.parametrize(("normalize_first", "activation"), [(False, "relu"), (True, "gelu")])
@pytest.mark.parametrize(("kind", "layout", "widths"), CASES)
def test_both_ways_between_their_blocks_and_ours(kind, layout, widths, normalize_first, activation, round_trip):
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(B, length, width)) for length, width in zip((T, S), widths, strict=False)]
    theirs = _hub(kind, normalize_first, activation, *widths)
    ours = _ours(normalize_first, activation, *widths)
    weights = canonical.read(theirs)
    round_trip(weights, f"keras-hub-{kind}")
    assert [reading.layout for reading in recognize(weights)] == [f"keras-hub-{kind}"]

    own, expected = convert(canonical.read(ours), layout, f"keras-hub-{kind}"), _run(theirs, kind, *inputs)
    expected_of_own = _run(ours, kind, *inputs)
    converted = convert(weights, f"keras-hub-{kind}", layout)
    assert not own.notes
    assert not converted.notes
    canonical.write(ours, converted)
    assert is_close(_run(ours, kind, *inputs), expected, FLOAT64)
    canonical.write(theirs, own)
    assert is_close(_run(theirs, kind, *inputs), expected_of_own, FLOAT64)


def test_another_head_size_is_refused():
    """As in the course, which passes `key_dim=embedding_dim`."""
    layer = EncoderLayer(E, H, F, key_dim=6)
    layer.build((None, T, E))
    with pytest.raises(LayoutError, match="O = E // H in `self_attention`: KerasHub's blocks compute the head size"):
        convert(canonical.read(layer), "ours-encoder-layer", "keras-hub-encoder")


def test_cross_attention_has_no_place_in_an_encoder():
    layer = _ours(False, "relu", E, J)
    with pytest.raises(LayoutError, match=r"`keras-hub-encoder` cannot hold all of these weights.*`cross_attention"):
        convert(canonical.read(layer), "ours-decoder-layer", "keras-hub-encoder")


def test_half_a_cross_attention_is_not_read():
    weights = canonical.read(_ours(False, "relu", E, J))
    theirs = convert(weights, "ours-decoder-layer", "keras-hub-decoder")
    del theirs["cross_attention_layer_norm/gamma"]
    with pytest.raises(
        LayoutError, match="Missing for the layout `keras-hub-decoder`: `cross_attention_layer_norm/gamma`"
    ):
        convert(theirs, "keras-hub-decoder", "ours-decoder-layer")
