"""Functions and methods around a layer are diagnosed with the layer's weights."""

import keras
import numpy as np
import pytest

from kmha.layers import MultiHeadAttention
from kmha.verify import diagnose


@pytest.mark.parametrize("name", ["around", "method", "forward"])
def test_torch(candidate, name):
    attention, wrap = (candidate("torch_around", each) for each in ("Attention", name))
    layer = attention(12, 3)
    before = layer.q.weight.detach().clone()
    found = diagnose(wrap(layer))
    assert found.right, found
    assert (layer.q.weight == before).all()
    assert layer.q.weight.dtype == before.dtype
    assert diagnose(wrap(attention(12, 3, scaled=False))).ids == ("scale-missing",)


def test_layers_of_a_module(candidate):
    of_module, through_another, weightless, counting = (
        candidate("torch_around", each) for each in ("of_module", "through_another", "weightless", "counting")
    )
    assert diagnose(of_module).right
    assert diagnose(through_another).ids == ("scale-missing",)
    assert diagnose(weightless).right
    assert diagnose(counting).right
    for name in ("attributes_of_these_names", "by_position", "halved_before"):
        found = diagnose(candidate("torch_around", name))
        assert found.right, (name, found)
    assert diagnose(candidate("torch_around", "counted")()).ids == ("scale-missing",)
    assert not diagnose(candidate("torch_around", "doubled_by_a_decorator")).right
    assert diagnose(candidate("torch_around", "names_of_modules")()).verdict != "wrong"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("first_bound", ()),
        ("named_bound", ("scale-missing",)),
        ("layer_bound", ()),
        ("by_default", ()),
        ("of_dict", ()),
        ("of_lists", ("scale-missing",)),
        ("passed_on", ()),
        ("of_tensors", ()),
        ("of_letters", ()),
        ("of_letters_swapped", ("mix-key-value-swapped",)),
        ("of_letters_causal", ()),
    ],
)
def test_layers_in_arguments_and_containers(candidate, name, ids):
    found = diagnose(candidate("torch_around", name))
    assert found.right == (not ids), found
    assert found.ids == ids
    assert "partial" not in found.candidate.name


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("of_dict", ()),
        ("of_list", ()),
        ("without_scale", ("scale-missing",)),
        ("one_head", ()),
        ("of_variables", ()),
        ("scaled_by_features", ("scale-features",)),
        ("of_transposed", ()),
        ("of_list_per_head", ()),
        ("of_record", ()),
        ("query_of_names_twice", ("kernels-query-for-key",)),
        ("of_wide_values", ()),
        ("of_causal", ()),
    ],
)
def test_weights_that_are_variables(candidate, name, ids):
    before = candidate("numpy_of_module", "params")["wq"].copy(), candidate("numpy_of_module", "W_q").copy()
    found = diagnose(candidate("numpy_of_module", name))
    assert found.right == (not ids), found
    assert found.ids == ids
    after = candidate("numpy_of_module", "params")["wq"], candidate("numpy_of_module", "W_q")
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["wrong", "through_another", "named_bound"])
def test_the_script_calls_the_original(candidate, name):
    """Its inputs have the dtype of the weights, float32, although the diagnosis computes in float64."""
    scope = {"layer": candidate("torch_around", name)}
    found = diagnose(scope["layer"])
    exec(found.code(), scope)  # noqa: S102 - what is shown
    result = scope["result"].detach().numpy()
    np.testing.assert_allclose(result, found.smallest.answer.output, rtol=1e-4, atol=1e-5)
    assert not np.allclose(result, found.smallest.right["output"], atol=1e-4)


def test_the_script_of_a_built_block(candidate):
    block = candidate("torch_foreign", "Block")(12, 3, 2, wrong="residual dropped")

    def around(x):
        return block(x)

    for name, thing in {"layer": block, "around": around}.items():
        found, scope = diagnose(thing), {name: thing}
        assert found.ids == ("residual-missing-attention",)
        exec(found.code(), scope)  # noqa: S102 - what is shown
        result = scope["result"].detach().numpy()
        np.testing.assert_allclose(result, found.smallest.answer.output, rtol=1e-4, atol=1e-5)


def test_torch_itself(candidate):
    found = diagnose(candidate("torch_around", "of_parameters")())
    assert found.right, found
    found = diagnose(candidate("torch_around", "builtin")())
    assert found.right, found
    assert "padding" in str(found), found


@pytest.mark.parametrize("kind", ["Equinox", "Nnx"])
@pytest.mark.parametrize("name", ["itself", "forward", "method", "around", "compiled"])
def test_jax(candidate, kind, name):
    module, wrap = (candidate("jax_around", each) for each in (kind, name))
    found = diagnose(wrap(module(12, 3)))
    assert found.right, found
    wrong = diagnose(wrap(module(12, 3, scaled=False)))
    assert wrong.ids == ("scale-missing",)
    assert "result = layer" in wrong.code()


def test_keras():
    ours, theirs = MultiHeadAttention(3, 4), keras.layers.MultiHeadAttention(3, 4)
    for layer in (ours, theirs):
        with pytest.raises(ValueError, match="no weights yet"):
            diagnose(lambda query, value: layer(query, value))  # noqa: B023
        layer(keras.ops.ones((2, 5, 12)), keras.ops.ones((2, 5, 12)))
        found = diagnose(lambda query, value, mask=None: layer(query, value, attention_mask=mask))  # noqa: B023
        assert found.right, found
    dense = keras.layers.Dense(12)
    dense(keras.ops.ones((2, 5, 12)))
    with pytest.raises(ValueError, match="do not fit multi-head attention"):
        diagnose(lambda x: dense(ours(x, x)))


def test_numpy(candidate):
    positions, functional, weightless = (
        candidate("numpy_around", each) for each in ("positions", "functional", "weightless")
    )
    for learned in (1.0, 0):
        found = diagnose(positions(learned))
        assert found.right, found
        assert found.candidate.chain == "embedding"
    assert diagnose(functional()).right
    assert diagnose(candidate("numpy_around", "counted")()).right
    assert diagnose(functional(scaled=False)).ids == ("scale-missing",)
    assert diagnose(weightless()).right


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("PositionalEncoding", (12, 1.0)),
        ("PositionalEncoding", (12, 1.0, 3)),
        ("PositionalEncoding", (12, 1e-300)),
        ("PositionalEncoding", (12, 0)),
        ("PositionalEncoding", (12, 0, 3)),
        ("RoPE", ()),
    ],
)
def test_an_object_that_encodes_positions(candidate, name, arguments):
    found = diagnose(candidate("numpy_around", name)(*arguments))
    assert found.right, found
    assert found.candidate.chain == "embedding"


def test_objects_that_cannot_be_changed(candidate):
    attention = candidate("numpy_around", "FrozenAttention")
    layer = attention(12, 3)
    before = layer.q_proj.weight.copy()
    found = diagnose(layer)
    assert found.right, found
    assert (layer.q_proj.weight == before).all()
    found = diagnose(attention(12, 3, scaled=False))
    assert found.ids == ("scale-missing",), found
