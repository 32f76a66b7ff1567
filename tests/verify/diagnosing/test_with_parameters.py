import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.with_parameters import as_class

ONE_ITEM = ["single_block", "fixed_attention", "fixed_block"]


@pytest.mark.parametrize("name", ["self_attention", "block", "strict_block", "named", "with_defaults", *ONE_ITEM])
def test_a_right_function_is_right(candidate, name):
    found = diagnose(candidate("functions_with_weights", name))
    assert found.right, found.ids
    assert found.errors == {}


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("name", "wrong", "ids"),
    [
        ("self_attention", "no root", ("scale-without-root",)),
        ("named", "no root", ("scale-without-root",)),
        ("with_defaults", "no root", ("scale-without-root",)),
        ("block", "no norm", ("norm-missing-feed-forward",)),
        ("block", "rows", ("padding-on-queries",)),
        ("single_block", "no root", ("scale-without-root",)),
        ("fixed_attention", "no root", ("scale-without-root",)),
        ("fixed_block", "no norm", ("norm-missing-feed-forward",)),
    ],
)
def test_a_mistake_is_named(candidate, name, wrong, ids):
    found = diagnose(candidate("functions_with_weights", name), arguments={"wrong": wrong})
    assert found.ids == ids


def test_attention_that_is_not_causal_is_right(candidate):
    found = diagnose(candidate("functions_with_weights", "self_attention"), arguments={"wrong": "not causal"})
    assert found.right


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "wrong"),
    [("self_attention", "no root"), ("block", "no norm"), ("named", "no root"), ("fixed_block", "no norm")],
)
def test_the_script_runs(candidate, name, wrong):
    function = candidate("functions_with_weights", name)
    found = diagnose(function, arguments={"wrong": wrong})
    scope = dict(function.__globals__)
    lines = [line for line in found.code().splitlines() if not line.startswith("from ")]
    exec("\n".join(lines), scope)  # noqa: S102
    np.testing.assert_allclose(
        np.reshape(scope["result"], found.smallest.answer.output.shape), found.smallest.answer.output, rtol=1e-6
    )


def test_the_maker_is_found_by_what_it_returns(candidate):
    held = as_class(candidate("functions_with_weights", "block"))
    assert (held.maker.__name__, held.place, held.roles) == ("new_block", "theta", {"width": "m", "inner": "z"})
    assert as_class(candidate("functions_with_weights", "lonely")) is None  # nothing makes or names its weights
    assert as_class(candidate("functions_with_weights", "softmax")) is None  # it takes no weights


def test_a_jax_function_and_class(candidate):
    pytest.importorskip("jax")
    assert diagnose(candidate("plain_jax", "attention")).right
    assert diagnose(candidate("plain_jax", "Attention"), arguments={"power": 1.0}).ids == ("scale-without-root",)


def test_a_class_of_tensorflow_variables(candidate):
    assert diagnose(candidate("plain_tensorflow", "Attention")).right
    found = diagnose(candidate("plain_tensorflow", "Attention"), arguments={"power": 1.0})
    assert found.ids == ("scale-without-root",)
    assert ".assign" not in found.code()
    assert "layer.kernels['q'] = tf.Variable(" in found.code()
