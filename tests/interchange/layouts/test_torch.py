import keras
import numpy as np
import pytest

import kmha
from kmha import layers
from kmha.interchange import LayoutError, canonical, convert, from_canonical, recognize
from kmha.verify.tolerance import is_close

torch = pytest.importorskip("torch")
pytestmark = [
    # Other backends compute attention in float32 here and there, whatever the dtype.
    pytest.mark.tensorflow,
    # torch warns that its fast path needs an even number of heads and no norm before the sublayers.
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
]

B, T, S, H, O, J, K, F = 2, 5, 7, 3, 4, 10, 6, 11
E = H * O


def _theirs(bias=True, kdim=None, vdim=None, **options):
    layer = torch.nn.MultiheadAttention(
        E, H, bias=bias, kdim=kdim, vdim=vdim, batch_first=True, dtype=torch.float64, **options
    )
    with torch.no_grad():
        for parameter in layer.parameters():  # torch starts biases from zero
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64))
    return layer


def _arrays(layer):
    return {name: tensor.numpy() for name, tensor in layer.state_dict().items()}


def _inputs(j=E, k=E):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in ((B, T, E), (B, S, j), (B, S, k))]


def _expected(layer, query, key, value):
    return layer(*map(torch.tensor, (query, key, value)))[0].detach().numpy()


CASES = [
    ("torch", {}, (E, E)),
    ("torch", {"bias": False}, (E, E)),
    ("torch-separate", {"kdim": J, "vdim": K}, (J, K)),
    ("torch-separate", {"kdim": J, "bias": False}, (J, E)),
]


@pytest.mark.parametrize(("layout", "arguments", "widths"), CASES)
def test_ours_with_torchs_weights_gives_torchs_output(round_trip, layout, arguments, widths):
    theirs = _theirs(**arguments)
    weights = _arrays(theirs)
    round_trip(weights, layout, num_heads=H)
    query, key, value = _inputs(*widths)
    ours = kmha.MultiHeadAttention(H, O, use_bias=arguments.get("bias", True), output_shape=E, dtype="float64")
    ours.build(query.shape, value.shape, key.shape)
    canonical.write(ours, convert(weights, layout, "ours", num_heads=H))
    actual = keras.ops.convert_to_numpy(ours(query, value, key))
    assert is_close(actual, _expected(theirs, query, key, value), "float64")


@pytest.mark.parametrize(("layout", "arguments", "widths"), CASES)
def test_torch_with_the_built_ins_weights_gives_its_output(layout, arguments, widths):
    query, key, value = _inputs(*widths)
    options = {"use_bias": arguments.get("bias", True), "bias_initializer": "random_normal"}
    theirs = keras.layers.MultiHeadAttention(H, O, dtype="float64", **options)
    expected = keras.ops.convert_to_numpy(theirs(query, value, key))
    layer = _theirs(**arguments)
    weights = convert(canonical.read(theirs), "keras", layout)
    layer.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    assert is_close(_expected(layer, query, key, value), expected, "float64")


@pytest.mark.parametrize(("layout", "arguments", "widths"), CASES)
def test_the_transposed_layouts_are_torchs_transposed(round_trip, layout, arguments, widths):
    weights = _arrays(_theirs(**arguments))
    transposed = convert(weights, layout, f"{layout}-transposed", num_heads=H)
    assert transposed.keys() == weights.keys()
    for name, array in weights.items():
        assert np.array_equal(transposed[name], array.T), name
    round_trip(transposed, f"{layout}-transposed", num_heads=H)


def test_packed_and_separate_hold_the_same():
    weights = _arrays(_theirs())
    separate = convert(weights, "torch", "torch-separate", num_heads=H)
    for number, role in enumerate("qkv"):
        rows = slice(number * E, (number + 1) * E)
        assert np.array_equal(separate[f"{role}_proj_weight"], weights["in_proj_weight"][rows])
    assert np.array_equal(separate["in_proj_bias"], weights["in_proj_bias"])


def test_appended_keys_and_values_are_refused():
    weights = _arrays(_theirs(add_bias_kv=True))
    with pytest.raises(LayoutError, match="`bias_k` cannot be represented: `add_bias_kv` appends"):
        convert(weights, "torch", "ours", num_heads=H)


def test_a_key_bias_that_torch_needs_is_filled_with_zeros(random_weights):
    weights = random_weights(h=H, i=E, j=E, k=E, o=O, v=O, e=E)
    del weights["key/bias"]
    filled = from_canonical(weights, "torch")
    assert np.array_equal(filled["in_proj_bias"].reshape(3, E)[1], np.zeros(E))
    assert np.array_equal(filled["in_proj_bias"].reshape(3, H, O)[2], weights["value/bias"])
    assert len(filled.notes) == 1


EPSILON = 1e-5
SETTINGS = {"batch_first": True, "dtype": torch.float64, "dropout": 0.0}


def _random(module):
    """The module in float64, with every parameter drawn, for torch starts biases from zero and norms from one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64))
    return module.eval()


def _block_inputs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(B, T, E)), rng.normal(size=(B, S, E))


def _ours(kind, pre, **options):
    norm = "pre" if pre else "post"
    return kind(E, H, F, layernorm_eps=EPSILON, dropout_rate=0.0, norm=norm, dtype="float64", **options)


def _future(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)  # True means hidden here


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_an_encoder_layer(round_trip, pre, bias):
    theirs = _random(torch.nn.TransformerEncoderLayer(E, H, F, norm_first=pre, bias=bias, **SETTINGS))
    weights = _arrays(theirs)
    round_trip(weights, "torch-encoder-layer", num_heads=H)
    x, _ = _block_inputs()
    ours = _ours(layers.EncoderLayer, pre, attention={"use_bias": bias})
    ours.build(x.shape)
    converted = convert(weights, "torch-encoder-layer", "ours-encoder-layer", num_heads=H)
    assert len(converted.notes) == (0 if bias else 4)  # our networks and norms have biases always: zeros
    canonical.write(ours, converted)
    expected = theirs(torch.tensor(x)).detach().numpy()
    assert is_close(keras.ops.convert_to_numpy(ours(x)), expected, "float64")


@pytest.mark.parametrize("pre", [False, True])
def test_a_decoder_layer(round_trip, pre):
    theirs = _random(torch.nn.TransformerDecoderLayer(E, H, F, norm_first=pre, **SETTINGS))
    weights = _arrays(theirs)
    round_trip(weights, "torch-decoder-layer", num_heads=H)
    x, enc_output = _block_inputs()
    ours = _ours(layers.DecoderLayer, pre)
    ours.build(x.shape, enc_output.shape)
    canonical.write(ours, convert(weights, "torch-decoder-layer", "ours-decoder-layer", num_heads=H))
    expected = theirs(torch.tensor(x), torch.tensor(enc_output), tgt_mask=_future(T)).detach().numpy()
    actual = ours(x, enc_output, return_attention_scores=False)
    assert is_close(keras.ops.convert_to_numpy(actual), expected, "float64")


def test_our_encoder_layer_in_torch():
    x, _ = _block_inputs()
    ours = _ours(layers.EncoderLayer, False)
    ours.build(x.shape)
    rng = np.random.default_rng(1)
    canonical.write(ours, {name: rng.normal(size=array.shape) for name, array in canonical.read(ours).items()})
    theirs = torch.nn.TransformerEncoderLayer(E, H, F, **SETTINGS).eval()
    weights = convert(canonical.read(ours), "ours-encoder-layer", "torch-encoder-layer")
    theirs.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    expected = keras.ops.convert_to_numpy(ours(x))
    assert is_close(theirs(torch.tensor(x)).detach().numpy(), expected, "float64")


def _run_ours(transformer, x, enc_input):
    """Our stacks on what is embedded already, which is where torch's begin."""
    encoded, decoded = keras.ops.convert_to_tensor(enc_input), keras.ops.convert_to_tensor(x)
    for layer in transformer.encoder.enc_layers:
        encoded = layer(encoded)
    encoded = transformer.encoder._last_norm(encoded)
    for layer in transformer.decoder.dec_layers:
        decoded = layer(decoded, encoded, return_attention_scores=False)
    return keras.ops.convert_to_numpy(transformer.decoder._last_norm(decoded))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2)])
def test_a_whole_transformer(round_trip, sizes):
    theirs = _random(torch.nn.Transformer(E, H, *sizes, F, norm_first=True, **SETTINGS))
    weights = _arrays(theirs)
    round_trip(weights, "torch-transformer", num_heads=H)
    converted = convert(weights, "torch-transformer", "ours-transformer", num_heads=H)
    ours = layers.Transformer(
        sizes[0], E, H, F, 13, 17, 19, 23, dropout_rate=0.0, layernorm_eps=EPSILON, norm="pre", dtype="float64"
    )
    ours.build()
    canonical.write(ours, canonical.read(ours) | converted)
    x, enc_input = _block_inputs()
    expected = theirs(torch.tensor(enc_input), torch.tensor(x), tgt_mask=_future(T)).detach().numpy()
    assert is_close(_run_ours(ours, x, enc_input), expected, "float64")


def test_stacks_of_different_heights(round_trip):
    weights = _arrays(_random(torch.nn.Transformer(E, H, 3, 2, F, **SETTINGS)))
    middle = round_trip(weights, "torch-transformer", num_heads=H)
    assert "encoder/layer_2/feed_forward_norm/beta" in middle
    assert "decoder/layer_1/cross_attention/value/bias" in middle
    assert "decoder/layer_2/cross_attention/value/bias" not in middle


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_stack_alone(round_trip, side, norm):
    kind = side.capitalize()
    layer = getattr(torch.nn, f"Transformer{kind}Layer")(E, H, F, **SETTINGS)
    final = torch.nn.LayerNorm(E, dtype=torch.float64) if norm else None
    options = {"enable_nested_tensor": False} if side == "encoder" else {}
    weights = _arrays(_random(getattr(torch.nn, f"Transformer{kind}")(layer, 2, final, **options)))
    middle = round_trip(weights, f"torch-{side}", num_heads=H)
    assert ("norm/gamma" in middle) == norm
    ours = convert(weights, f"torch-{side}", f"ours-{side}", num_heads=H)
    assert ours["layer2/ffn/dense1/kernel"].shape == (E, F)
    found = recognize(weights, num_heads=H)
    assert [reading.layout for reading in found] == [f"torch-{side}"]


def test_embeddings_have_no_place_in_torchs_stacks():
    ours = layers.Transformer(1, E, H, F, 13, 17, 19, 23)
    ours.build()
    weights = canonical.read(ours)
    with pytest.raises(LayoutError, match=r"No place for `decoder/embedding/table`.*begin after the embedding"):
        convert(weights, "ours-transformer", "torch-transformer")
    stacks = {name: array for name, array in weights.items() if "embeddings" not in name and "final" not in name}
    assert "encoder.layers.0.norm2.bias" in convert(stacks, "ours-transformer", "torch-transformer")


def test_attention_to_another_width_is_refused():
    ours = _ours(layers.DecoderLayer, False)
    ours.build((None, None, E), (None, None, E + 1))
    with pytest.raises(LayoutError, match="One matrix projects query, key and value"):
        convert(canonical.read(ours), "ours-decoder-layer", "torch-decoder-layer")


def test_the_layout_of_a_layer_inside_a_model():
    weights = _arrays(torch.nn.Transformer(E, H, 2, 2, F, **SETTINGS))
    prefix = "decoder.layers.1."
    part = {name: array for name, array in weights.items() if name.startswith(prefix)}
    (found,) = recognize(part)
    assert (found.layout, found.prefix) == ("torch-decoder-layer", prefix)
    converted = convert(weights, "torch", "ours", num_heads=H, prefix=f"{prefix}multihead_attn.")
    assert np.array_equal(converted["attention_output/bias"], weights[f"{prefix}multihead_attn.out_proj.bias"])
