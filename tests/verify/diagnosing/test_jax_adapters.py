import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.block_candidate import epsilon_of
from kmha.verify.diagnosing.calling import random_names
from kmha.verify.diagnosing.layer_adapters import adapter_of

WRONG = [
    ("flax_modules", "Compact", "no scale", "scale-missing"),
    ("flax_modules", "Compact", "mask inverted", "mask-inverted"),
    ("flax_modules", "Compact", "softmax over queries", "softmax-over-queries"),
    ("flax_modules", "Compact", "merged without transpose", "merge-not-transposed"),
    ("flax_modules", "Compact", "key for value", "kernels-key-for-value"),
    ("flax_modules", "Setup", "no scale", "scale-missing"),
    ("flax_modules", "Setup", "key's kernel", "kernels-key-for-value"),
    ("flax_modules", "Nnx", "no scale", "scale-missing"),
    ("flax_modules", "Nnx", "mask inverted", "mask-inverted"),
    ("flax_modules", "Nnx", "dropout by hand", "dropout-at-inference"),
    ("flax_modules", "Nnx", "merged without transpose", "merge-not-transposed"),
    ("flax_modules", "Encoder", "no residual", "residual-missing-attention"),
    ("flax_modules", "Encoder", "no activation", "feed-forward-activation-missing"),
    ("equinox_modules", "Attention", "no scale", "scale-missing"),
    ("equinox_modules", "Attention", "key's kernel", "kernels-key-for-value"),
    ("equinox_modules", "Attention", "merged without transpose", "merge-not-transposed"),
    ("equinox_modules", "Encoder", "no residual", "residual-missing-attention"),
    ("haiku_modules", "Attention", "multiplied", "scale-multiplied"),
    ("haiku_modules", "Seeded", "multiplied", "scale-multiplied"),
    ("haiku_modules", "Attention", "fills 0", "mask-zeroes-logits"),
    ("haiku_modules", "Attention", "key for value", "mix-key"),
]
RIGHT = [*dict.fromkeys(row[:2] for row in WRONG), ("equinox_modules", "Matrices")]


@pytest.mark.parametrize(("module", "name"), RIGHT)
def test_a_right_module_is_not_accused(candidate, module, name):
    found = diagnose(candidate(module, name))
    assert found.right, found.ids
    assert found.errors == {}


@pytest.mark.parametrize(("module", "name", "wrong", "ids"), WRONG)
def test_a_mistake_of_a_module_is_named(candidate, module, name, wrong, ids):
    # Without `mask`, an inverted mask is right, if True hides.
    found = diagnose(candidate(module, name), arguments={"wrong": wrong}, mask="attends")
    assert sorted(found.ids) == ids.split()


def _flax(name):
    return lambda: getattr(pytest.importorskip("flax.linen"), name)


def _nnx():
    return pytest.importorskip("flax.nnx").MultiHeadAttention


def _equinox():
    return pytest.importorskip("equinox").nn.MultiheadAttention


def _haiku():
    return pytest.importorskip("haiku").MultiHeadAttention


@pytest.mark.parametrize(
    "find", [_flax("MultiHeadDotProductAttention"), _flax("SelfAttention"), _nnx, _equinox, _haiku]
)
def test_the_attention_of_the_packages_is_right(find):
    found = diagnose(find())
    assert found.right, found.ids
    assert found.errors == {}


def _functions():
    import jax
    from flax import linen, nnx

    return [jax.nn.dot_product_attention, linen.dot_product_attention, nnx.dot_product_attention]


def test_function_with_a_key_of_random_numbers():
    module = pytest.importorskip("equinox.nn._attention")
    assert diagnose(module.dot_product_attention).right


@pytest.mark.parametrize("index", range(3))
def test_the_functions_of_the_packages_are_right(index):
    pytest.importorskip("flax")
    assert diagnose(_functions()[index]).right


def test_linen_object_is_diagnosed_as_it_is_configured(candidate):
    found = diagnose(candidate("flax_modules", "Compact")(12, 3, wrong="no scale"))
    assert found.ids == ("scale-missing",)
    assert (found.sizes.heads, found.sizes.width) == (3, 12)


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("no scale", ("scale-missing",))])
def test_nnx_object_keeps_its_weights(candidate, wrong, ids):
    make = candidate("flax_modules", "Nnx")
    nnx = pytest.importorskip("flax.nnx")
    layer = make(15, 3, wrong=wrong, rngs=nnx.Rngs(0))
    before = layer.to_q.kernel.get_value()
    found = diagnose(layer)
    assert found.ids == ids
    np.testing.assert_array_equal(layer.to_q.kernel.get_value(), before)
    assert before.dtype == np.float32
    np.testing.assert_array_equal(found.candidate.weights["query/kernel"].transpose(1, 0, 2).reshape(15, 15), before)


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("no scale", ("scale-missing",))])
def test_equinox_object_keeps_its_weights(candidate, wrong, ids):
    make = candidate("equinox_modules", "Attention")
    jax = pytest.importorskip("jax")
    layer = make(15, 3, wrong=wrong, key=jax.random.key(0))
    found = diagnose(layer)
    assert found.ids == ids
    kernel = found.candidate.weights["key/kernel"].transpose(0, 2, 1).reshape(15, 15)
    np.testing.assert_array_equal(kernel, layer.key_proj.weight)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("flax_modules", "Setup"),
        ("flax_modules", "Nnx"),
        ("equinox_modules", "Attention"),
        ("haiku_modules", "Attention"),
    ],
)
def test_script_of_the_smallest_case_runs(candidate, module, name):
    layer_class = candidate(module, name)
    wrong = next(row[2] for row in WRONG if row[:2] == (module, name))
    found = diagnose(layer_class, arguments={"wrong": wrong})
    lines = [line for line in found.code().splitlines() if not line.startswith("from candidates")]
    scope = {name: layer_class}
    exec("\n".join(lines), scope)  # noqa: S102 - our own script
    np.testing.assert_allclose(
        np.squeeze(scope["result"]), np.squeeze(found.smallest.answer.output), rtol=1e-5, atol=1e-6
    )


def test_keys_of_random_numbers_are_told_from_the_key_of_attention():
    assert random_names(dict.fromkeys(("x", "mask", "key"))) == {"key"}
    assert random_names(dict.fromkeys(("query", "key_", "value", "key"))) == {"key"}
    assert random_names(dict.fromkeys(("query", "key", "value", "dropout_rng"))) == {"dropout_rng"}
    assert random_names(dict.fromkeys(("query", "context", "key", "rngs"))) == {"key", "rngs"}


def test_epsilon_of_a_normalization(candidate):
    jax = pytest.importorskip("jax")
    layer_class = candidate("flax_modules", "Encoder")
    adapter = adapter_of(layer_class)
    layer = adapter.new(layer_class, {"embed_dim": 6, "num_heads": 2, "mlp_dim": 7}, "float64")
    adapter.build(layer, {"x": jax.numpy.ones((1, 2, 6))}, "float64")
    assert {epsilon_of(part) for part in adapter.parts(layer)} == {None, 1e-6}
    assert {str(array.dtype) for array in layer.arrays.values()} == {"float64"}


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("merged without transpose", ("merge-not-transposed",))])
def test_a_number_of_heads_that_only_a_configuration_states(candidate, wrong, ids):
    """It was diagnosed with one head, and could not be judged."""
    config = candidate("flax_modules", "Config")()
    found = diagnose(candidate("flax_modules", "Configured")(config, wrong))
    assert (found.ids, found.sizes.heads, found.sizes.width) == (ids, 3, 12)


@pytest.mark.parametrize(
    ("wrong", "ids"), [("", ()), pytest.param("no scale", ("scale-missing",), marks=pytest.mark.slow)]
)
def test_stacked_keys_and_values_of_one_head(candidate, wrong, ids):
    """Its weights fit no known form; with one head for each of the queries, it took a minute and "cannot be run"."""
    found = diagnose(candidate("flax_modules", "SharedHead")(3, 12, 4, wrong))
    assert (found.right, found.ids) == (not ids, ids)


@pytest.mark.slow
def test_stacked_kernels_of_a_gated_network(candidate):
    found = diagnose(candidate("flax_modules", "SharedHeadBlock")(3, 12, 4, 20))
    assert found.right
    assert "GELU" in str(found)


def test_the_tracebacks_of_jax_are_filtered_again_afterwards(candidate):
    jax = pytest.importorskip("jax")
    before = jax.config.jax_traceback_filtering
    seen = []
    diagnose(
        candidate("flax_modules", "Compact")(6, 2), on_call=lambda _: seen.append(jax.config.jax_traceback_filtering)
    )
    assert {*seen} == {"off"}
    assert jax.config.jax_traceback_filtering == before
