import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import LayoutError, canonical, convert, from_canonical
from kmha.verify.tolerance import is_close

torch = pytest.importorskip("torch")
# Other backends compute attention in float32 here and there, whatever the dtype.
pytestmark = pytest.mark.tensorflow

B, T, S, H, O, J, K = 2, 5, 7, 3, 4, 10, 6
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
