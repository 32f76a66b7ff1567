import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical, convert
from kmha.verify.tolerance import is_close

# Other backends compute attention in float32 here and there, whatever the dtype.
pytestmark = pytest.mark.tensorflow

B, T, S, H, O = 2, 5, 7, 3, 4
I, J, K, E = 8, 6, 9, 12
NAMES = {
    "d2l": ("W_q", "W_k", "W_v", "W_o"),
    "implemented-transformer": ("Wq", "Wk", "Wv", "Wo"),
    "annotated-transformer": ("0", "1", "2", "3"),
}


def _inputs():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in ((B, T, I), (B, S, J), (B, S, K))]


def _attend(numpy_like, layers, inputs, swap):
    """Project with one layer for all heads, cut the features into heads, attend, put them side by side, project."""
    query, key, value = (swap(layer(x).reshape((B, -1, H, O)), 1, 2) for layer, x in zip(layers, inputs, strict=False))
    scores = numpy_like.softmax(query @ swap(key, 2, 3) / O**0.5, -1)
    return layers[3](swap(scores @ value, 1, 2).reshape((B, T, H * O)))


def _ours(converted, query, key, value, bias):
    layer = kmha.MultiHeadAttention(H, O, use_bias=bias, output_shape=E, dtype="float64")
    layer.build(query.shape, value.shape, key.shape)
    canonical.write(layer, converted)
    return keras.ops.convert_to_numpy(layer(query, value, key))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", list(NAMES))
def test_four_linear_layers_of_torch(round_trip, layout, bias):
    torch = pytest.importorskip("torch")
    query, key, value = _inputs()
    modules = [torch.nn.LazyLinear(E, bias=bias, dtype=torch.float64) for _ in range(4)]
    tensors = [torch.tensor(x) for x in (query, key, value)]
    expected = _attend(torch, modules, tensors, torch.swapaxes).detach().numpy()
    named = dict(zip(NAMES[layout], modules, strict=True))
    if layout == "annotated-transformer":
        named = {"linears": torch.nn.ModuleList(modules)}
    module = torch.nn.Module()
    for name, child in named.items():
        module.add_module(name, child)
    weights = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    round_trip(weights, layout, num_heads=H)
    converted = convert(weights, layout, "ours", num_heads=H)
    assert is_close(_ours(converted, query, key, value, bias), expected, "float64")


@pytest.mark.parametrize("bias", [True, False])
def test_four_dense_layers_of_keras(round_trip, bias):
    query, key, value = _inputs()
    options = {"use_bias": bias, "bias_initializer": "random_normal", "dtype": "float64"}
    layers = [keras.layers.Dense(E, name=name, **options) for name in NAMES["d2l"]]
    for layer, width in zip(layers, (I, J, K, E), strict=True):
        layer.build((None, width))
    weights = {
        f"{layer.name}/{variable.name}": keras.ops.convert_to_numpy(variable)
        for layer in layers
        for variable in layer.weights
    }
    round_trip(weights, "d2l-keras", num_heads=H)
    in_numpy = [lambda x, layer=layer: keras.ops.convert_to_numpy(layer(x)) for layer in layers]
    expected = _attend(_Softmax, in_numpy, (query, key, value), np.swapaxes)
    converted = convert(weights, "d2l-keras", "ours", num_heads=H)
    assert is_close(_ours(converted, query, key, value, bias), expected, "float64")


class _Softmax:
    @staticmethod
    def softmax(x, axis):
        exponents = np.exp(x - x.max(axis=axis, keepdims=True))
        return exponents / exponents.sum(axis=axis, keepdims=True)


def test_torchs_and_keras_kernels_are_each_others_transpose(random_weights):
    weights = random_weights(h=H, i=I, j=J, k=K, o=O, v=O, e=E)
    one, other = convert(weights, "ours", "d2l"), convert(weights, "ours", "d2l-keras")
    for name in NAMES["d2l"]:
        assert np.array_equal(one[f"{name}.weight"], other[f"{name}/kernel"].T)
        assert np.array_equal(one[f"{name}.bias"], other[f"{name}/bias"])
