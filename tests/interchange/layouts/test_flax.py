import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import LayoutError, canonical, convert, recognize
from kmha.verify.tolerance import is_close

B, T, S, H, O, I, J, K, E = 2, 3, 5, 7, 4, 6, 8, 9, 10
# On torch, Keras hands float64 through float32.
FLOAT64 = "float32" if keras.backend.backend() == "torch" else "float64"


def _linen(widths, **options):
    linen, traverse_util = pytest.importorskip("flax.linen"), pytest.importorskip("flax.traverse_util")
    jax = pytest.importorskip("jax")
    layer = linen.MultiHeadDotProductAttention(num_heads=H, qkv_features=H * O, out_features=E, **options)
    parameters = layer.init(jax.random.key(0), *_inputs(widths))["params"]
    shapes = {name: x.shape for name, x in traverse_util.flatten_dict(parameters, sep="/").items()}

    def run(weights, inputs):
        return np.asarray(layer.apply({"params": traverse_util.unflatten_dict(weights, sep="/")}, *inputs))

    return shapes, run


def _nnx(widths, **options):
    nnx, traverse_util = pytest.importorskip("flax.nnx"), pytest.importorskip("flax.traverse_util")
    # Without dropout, the layer would take a path that computes the softmax in float32.
    settings = {"rngs": nnx.Rngs(0), "decode": False, "param_dtype": "float64", "dropout_rate": 0.1}
    layer = nnx.MultiHeadAttention(H, widths[0], H * O, E, in_kv_features=widths[1], **settings, **options)
    parameters = nnx.to_pure_dict(nnx.state(layer, nnx.Param))
    shapes = {name: x.shape for name, x in traverse_util.flatten_dict(parameters, sep="/").items()}

    def run(weights, inputs):
        nnx.update(layer, traverse_util.unflatten_dict(weights, sep="/"))
        return np.asarray(layer(*inputs, deterministic=True))

    return shapes, run


def _inputs(widths):
    rng = np.random.default_rng(1)
    return [rng.normal(size=(B, T if widths[1] == I or not i else S, width)) for i, width in enumerate(widths)]


def _random(shapes, dtype="float64"):
    rng = np.random.default_rng(2)
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def _ours(weights, inputs, **options):
    """The output of our layer with these weights."""
    layer = kmha.MultiHeadAttention(H, O, output_shape=E, dtype="float64", **options)
    query, key, value = inputs
    layer(query, value, key)
    canonical.write(layer, weights)
    return keras.ops.convert_to_numpy(layer(query, value, key))


# Self-attention, cross-attention, and keys of another width than the values, which only linen knows.
CASES = [
    (_nnx, (I, I, I)),
    (_nnx, (I, J, J)),
    (_linen, (I, I, I)),
    (_linen, (I, J, J)),
    (_linen, (I, J, K)),
]


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize(("peer", "widths"), CASES)
def test_flax_and_ours_give_the_same(peer, widths, use_bias, round_trip):
    shapes, run = peer(widths, use_bias=use_bias)
    assert len(shapes) == (8 if use_bias else 4)
    weights, inputs = _random(shapes), _inputs(widths)
    expected = run(weights, inputs)
    converted = convert(weights, "flax", "ours")
    assert not converted.notes
    assert is_close(_ours(converted, inputs, use_bias=use_bias), expected, FLOAT64)
    round_trip(weights, "flax")
    assert [reading.layout for reading in recognize(weights)] == ["flax"]


@pytest.mark.parametrize(("peer", "widths"), CASES)
def test_ours_gives_the_same_in_flax(peer, widths):
    shapes, run = peer(widths)
    inputs = _inputs(widths)
    ours = {role: (H, width, O) for role, width in zip(("query", "key", "value"), widths, strict=True)}
    kernels = {f"{role}/kernel": shape for role, shape in ours.items()} | {"attention_output/kernel": (H, O, E)}
    biases = {f"{role}/bias": (H, O) for role in ours} | {"attention_output/bias": (E,)}
    weights = _random(kernels | biases)
    converted = convert(weights, "ours", "flax")
    assert {name: array.shape for name, array in converted.items()} == shapes
    assert is_close(run(converted, inputs), _ours(weights, inputs), FLOAT64)


def test_the_dtype_stays(round_trip):
    round_trip(_random(_linen((I, J, K))[0], "float32"), "flax")


def test_fewer_heads_for_keys_and_values(round_trip):
    """nnx shares keys and values among queries in the order in which Keras does."""
    nnx, traverse_util = pytest.importorskip("flax.nnx"), pytest.importorskip("flax.traverse_util")
    heads, shared = 6, 3
    settings = {"rngs": nnx.Rngs(0), "decode": False, "param_dtype": "float64"}
    layer = nnx.MultiHeadAttention(heads, I, heads * O, E, shared, **settings)
    shapes = traverse_util.flatten_dict(nnx.to_pure_dict(nnx.state(layer, nnx.Param)), sep="/")
    weights, (inputs, *_) = _random({name: x.shape for name, x in shapes.items()}), _inputs((I, I, I))
    nnx.update(layer, traverse_util.unflatten_dict(weights, sep="/"))
    round_trip(weights, "flax")
    with pytest.raises(LayoutError, match="`fold=True` repeats each of the 3"):
        convert(weights, "flax", "ours")
    converted = convert(weights, "flax", "ours", fold=True)
    ours = kmha.MultiHeadAttention(heads, O, output_shape=E, dtype="float64")
    ours(inputs, inputs)
    canonical.write(ours, converted)
    # Without dropout the softmax is one of float32.
    assert is_close(keras.ops.convert_to_numpy(ours(inputs, inputs)), np.asarray(layer(inputs)), "float32")


def test_normalized_queries_are_refused():
    shapes, _ = _nnx((I, I, I), normalize_qk=True)
    assert "query_ln/scale" in shapes
    with pytest.raises(LayoutError, match=r"_ln/scale` cannot be represented: `normalize_qk`"):
        convert(_random(shapes), "flax", "ours")


def test_a_gate_is_refused():
    shapes, _ = _linen((I, I, I))
    weights = convert(_random(shapes), "flax", "ours")
    gate = {"gate/kernel": np.ones((H, I, O)), "gate/bias": np.ones((H, O))}
    with pytest.raises(LayoutError, match="Flax' attention has no gate"):
        convert({**weights, **gate}, "ours", "flax")
