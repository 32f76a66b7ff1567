import functools

import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import LayoutError, canonical, convert, recognize
from kmha.layers import DecoderLayer, EncoderLayer
from kmha.verify.tolerance import is_close

B, T, S, H, O, E, F = 2, 5, 7, 3, 4, 12, 11
EPSILON = 0.01
# On torch, Keras hands float64 through float32.
FLOAT64 = "float32" if keras.backend.backend() == "torch" else "float64"
# On JAX, Keras' layer normalization computes in float32 at most.
NORMALIZED = "float64" if keras.backend.backend() == "tensorflow" else "float32"
TANH_GELU = functools.partial(keras.activations.gelu, approximate=True)
QUERY, ENC_OUTPUT = (np.random.default_rng(0).normal(size=(B, length, E)) for length in (T, S))


def _bert(part, cross=False, activation="gelu"):
    config = pytest.importorskip("transformers").BertConfig(
        hidden_size=E,
        num_attention_heads=H,
        intermediate_size=F,
        hidden_act=activation,
        layer_norm_eps=EPSILON,
        is_decoder=cross,
        add_cross_attention=cross,
        attn_implementation="eager",
    )
    modules = pytest.importorskip("transformers.models.bert.modeling_bert")
    if part == "layer":
        return _randomized(modules.BertLayer(config))
    return _randomized(modules.BertAttention(config, is_cross_attention=cross))


def _gpt2(part, cross=False, activation="gelu_new"):
    config = pytest.importorskip("transformers").GPT2Config(
        activation_function=activation,
        n_embd=E,
        n_head=H,
        n_inner=F,
        layer_norm_epsilon=EPSILON,
        add_cross_attention=cross,
        attn_implementation="eager",
    )
    modules = pytest.importorskip("transformers.models.gpt2.modeling_gpt2")
    if part == "layer":
        return _randomized(modules.GPT2Block(config, layer_idx=0))
    return _randomized(modules.GPT2Attention(config, is_cross_attention=cross, layer_idx=0))


def _t5(size=O, relative=False):
    """One whose heads together are not as wide as the model, unless O is 4."""
    settings = {"d_model": E, "d_kv": size, "num_heads": H, "d_ff": F, "attn_implementation": "eager"}
    config = pytest.importorskip("transformers").T5Config(**settings)
    modules = pytest.importorskip("transformers.models.t5.modeling_t5")
    return _randomized(modules.T5Attention(config, has_relative_attention_bias=relative, layer_idx=0))


def _randomized(module):
    """In float64, with random weights, the biases' too, and without dropout."""
    torch = pytest.importorskip("torch")
    module = module.double().eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
    return module


def _weights(module):
    return {name: array.numpy().copy() for name, array in module.state_dict().items()}


def _load(module, weights):
    torch = pytest.importorskip("torch")
    module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})


def _tensors(*arrays):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(array) for array in arrays]


def _future():
    """Return the additive mask of their layers: minus infinity for the future."""
    return _tensors(np.where(np.tri(T, dtype=bool), 0.0, -np.inf)[None, None])[0]


def _first(output):
    return (output[0] if isinstance(output, tuple) else output).detach().numpy()


def _run_bert(module, *inputs):
    """Attention alone, without the residual connection."""
    query, *enc_output = _tensors(*inputs)
    return _first(
        module.output.dense(module.self(query, **({"encoder_hidden_states": enc_output[0]} if enc_output else {}))[0])
    )


def _run_gpt2(module, *inputs):
    query, *enc_output = _tensors(*inputs)
    return _first(module(query, encoder_hidden_states=enc_output[0]) if enc_output else module(query))


def _run_t5(module, *inputs):
    query, *enc_output = _tensors(*inputs)
    return _first(module(query, key_value_states=enc_output[0]) if enc_output else module(query))


def _ours(weights, *inputs, size=O, **options):
    """The output of our attention with these weights."""
    layer = kmha.MultiHeadAttention(H, size, dtype="float64", **options)
    layer(inputs[0], inputs[-1])
    canonical.write(layer, weights)
    return keras.ops.convert_to_numpy(layer(inputs[0], inputs[-1]))


def _random_attention(**options):
    layer = kmha.MultiHeadAttention(H, O, dtype="float64", **options)
    layer.build((None, T, E), (None, T, E))
    return {name: np.random.default_rng(2).normal(size=array.shape) for name, array in canonical.read(layer).items()}


# The layout, the module and what runs it, and its inputs.
ATTENTIONS = [
    ("bert-attention", functools.partial(_bert, "attention"), _run_bert, (QUERY,)),
    ("bert-attention", functools.partial(_bert, "attention", True), _run_bert, (QUERY, ENC_OUTPUT)),
    ("gpt2-attention", functools.partial(_gpt2, "attention"), _run_gpt2, (QUERY,)),
    ("gpt2-cross-attention", functools.partial(_gpt2, "attention", True), _run_gpt2, (QUERY, ENC_OUTPUT)),
    ("t5-attention", _t5, _run_t5, (QUERY,)),
    ("t5-attention", _t5, _run_t5, (QUERY, ENC_OUTPUT)),
]


@pytest.mark.parametrize(("layout", "make", "run", "inputs"), ATTENTIONS)
def test_both_ways_between_their_attention_and_ours(layout, make, run, inputs):
    theirs, use_bias = make(), layout != "t5-attention"
    weights = _weights(theirs)
    converted = convert(weights, layout, "ours", num_heads=H)
    actual = _ours(converted, *inputs, use_bias=use_bias)
    assert is_close(actual, run(theirs, *inputs), FLOAT64)

    back = convert(converted, "ours", layout)
    norm = {name: array for name, array in weights.items() if "LayerNorm" in name}
    for name, array in weights.items():
        assert name in norm or back[name].tobytes() == array.tobytes(), name

    own = _random_attention(use_bias=use_bias)
    into = convert(own, "ours", layout)
    _load(theirs, {**into, **norm})
    assert is_close(run(theirs, *inputs), _ours(own, *inputs, use_bias=use_bias), FLOAT64)


# Their layout and block, our block and what it needs besides the weights. TensorFlow computes gelu in float64 with
# constants of float32, so that all the rest is compared with relu.
BLOCKS = [
    ("bert-layer", _bert, "post", "relu", "relu", NORMALIZED),
    ("bert-layer", _bert, "post", "gelu", "gelu", "float32"),
    ("gpt2-layer", _gpt2, "pre", "relu", "relu", NORMALIZED),
    ("gpt2-layer", _gpt2, "pre", "gelu_new", TANH_GELU, "float32"),
]


@pytest.mark.parametrize("block", [EncoderLayer, DecoderLayer])
@pytest.mark.parametrize(("layout", "make", "norm", "theirs_is", "activation", "dtype"), BLOCKS)
def test_both_ways_between_their_blocks_and_ours(layout, make, norm, theirs_is, activation, dtype, block, round_trip):
    own_layout = "ours-encoder-layer" if block is EncoderLayer else "ours-decoder-layer"
    theirs = make("layer", block is DecoderLayer, theirs_is)
    ours = block(E, H, F, 0.1, EPSILON, norm=norm, activation=activation, dtype="float64")
    inputs = (QUERY,) if block is EncoderLayer else (QUERY, ENC_OUTPUT)
    causal = block is DecoderLayer or layout == "gpt2-layer"
    masks = {"mask": np.tri(T, dtype=bool)[None]} if causal and block is EncoderLayer else {}

    def run_ours():
        output = ours(*inputs, **masks)
        return keras.ops.convert_to_numpy(output[0] if isinstance(output, tuple) else output)

    def run_theirs():
        query, *enc_output = _tensors(*inputs)
        options = {"encoder_hidden_states": enc_output[0]} if enc_output else {}
        return _first(theirs(query, attention_mask=_future() if causal else None, **options))

    run_ours()
    weights = _weights(theirs)
    round_trip(weights, layout, H)
    own = {name: np.random.default_rng(5).normal(size=x.shape) / 2 for name, x in canonical.read(ours).items()}
    canonical.write(ours, convert(weights, layout, own_layout, num_heads=H))
    assert is_close(run_ours(), run_theirs(), dtype)
    canonical.write(ours, own)
    _load(theirs, convert(own, own_layout, layout))
    assert is_close(run_theirs(), run_ours(), dtype)


MODULES = [(layout, make) for layout, make, *_ in ATTENTIONS[:5]] + [
    (layout, functools.partial(make, "layer", cross)) for layout, make, *_ in BLOCKS[::2] for cross in (False, True)
]


@pytest.mark.parametrize(("layout", "make"), MODULES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_recognised_and_read_and_written_bit_for_bit(layout, make, dtype):
    weights = {name: array.astype(dtype) for name, array in _weights(make()).items()}
    readings = recognize(weights)
    assert [reading.layout for reading in readings] == [layout]
    assert H in readings[0].heads
    back = convert({f"h.0.{name}": array for name, array in weights.items()}, layout, layout, num_heads=H)
    kept = {name for name in weights if layout != "bert-attention" or "LayerNorm" not in name}
    assert back.keys() == kept
    assert all(back[name].dtype == dtype and back[name].tobytes() == weights[name].tobytes() for name in kept)


def test_the_norm_around_berts_attention_is_left_out_and_said():
    notes = convert(_weights(_bert("attention")), "bert-attention", "ours", num_heads=H).notes
    assert [note.split("`")[1] for note in notes] == ["output.LayerNorm.weight", "output.LayerNorm.bias"]
    assert "which is part of `bert-layer`" in notes[0]


def test_the_mask_in_gpt2s_older_files_is_left_out_and_said():
    weights = {**_weights(_gpt2("attention")), "bias": np.tri(9)[None, None], "masked_bias": np.array(-1e4)}
    converted = convert(weights, "gpt2-attention", "ours", num_heads=H)
    assert [note.split(" is left out: ")[0] for note in converted.notes] == ["`bias`", "`masked_bias`"]


@pytest.mark.parametrize("layout", ["bert-attention", "gpt2-attention"])
def test_heads_that_are_not_as_wide_as_the_model_are_refused(layout):
    weights = {name: x if name.startswith("attention") else x[..., :2] for name, x in _random_attention().items()}
    weights["attention_output/kernel"] = weights["attention_output/kernel"][:, :2]
    with pytest.raises(
        LayoutError, match=rf"`{layout}` requires E = H O: the heads divide .* Received: E=12, H=3, O=2"
    ):
        convert(weights, "ours", layout)


def _t5_weights():
    shapes = {"q.weight": (H * O, E), "k.weight": (H * O, E), "v.weight": (H * O, E), "o.weight": (E, H * O)}
    return {name: np.random.default_rng(3).normal(size=shape) for name, shape in shapes.items()}


def test_t5s_missing_scale_is_folded_exactly_and_said():
    weights = _t5_weights()
    converted = convert(weights, "t5-attention", "ours", num_heads=H)
    expected = weights["q.weight"].reshape(H, O, E).swapaxes(1, 2) * 2
    assert converted["query/kernel"].tobytes() == np.ascontiguousarray(expected).tobytes()
    assert "relative position bias" in converted.notes[0]
    assert "`query` must be multiplied by √O, O=4" in converted.notes[1]
    assert converted.notes[1].endswith("This was done exactly.")
    back = convert(converted, "ours", "t5-attention")
    assert back["q.weight"].tobytes() == weights["q.weight"].tobytes()
    assert "`query` must be divided by √O, O=4" in back.notes[0]


def test_t5s_missing_scale_is_rounded_on_request_alone():
    size, theirs = 5, _t5(5)
    with pytest.raises(LayoutError, match=r"That rounds every number once\. Give `fold=True` to do it"):
        convert(_weights(theirs), "t5-attention", "ours", num_heads=H)
    converted = convert(_weights(theirs), "t5-attention", "ours", num_heads=H, fold=True)
    assert converted.notes[1].endswith("This was done and rounded every number once.")
    for inputs in ((QUERY,), (QUERY, ENC_OUTPUT)):
        actual = _ours(converted, *inputs, size=size, use_bias=False)
        assert is_close(actual, _run_t5(theirs, *inputs), FLOAT64)
    back = convert(converted, "ours", "t5-attention", fold=True)
    assert is_close(back["q.weight"], _weights(theirs)["q.weight"], "float64")
    same = convert(_weights(theirs), "t5-attention", "t5-attention", num_heads=H)
    assert same["q.weight"].tobytes() == _weights(theirs)["q.weight"].tobytes()


def test_t5s_relative_position_bias_is_refused():
    assert "relative_attention_bias.weight" in _weights(_t5(relative=True))
    weights = {**_t5_weights(), "relative_attention_bias.weight": np.ones((32, H))}
    with pytest.raises(LayoutError, match=r"`relative_attention_bias\.weight` cannot be represented: it adds"):
        convert(weights, "t5-attention", "ours", num_heads=H)


def test_biases_have_no_place_in_t5():
    weights = _random_attention()
    with pytest.raises(LayoutError, match=r"`t5-attention` cannot hold all of these weights.*`query/bias`"):
        convert(weights, "ours", "t5-attention", fold=True)
    for name in ("query/bias", "value/bias", "attention_output/bias"):
        weights[name] = np.zeros_like(weights[name])
    theirs, converted = _t5(), convert(weights, "ours", "t5-attention", fold=True)
    _load(theirs, converted)
    assert is_close(_run_t5(theirs, QUERY, ENC_OUTPUT), _ours(weights, QUERY, ENC_OUTPUT), FLOAT64)
