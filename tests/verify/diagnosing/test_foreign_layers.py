"""Families of layers that other people write: a right one of each, and with a mistake."""

import types

import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import sureness
from kmha.verify.diagnosing.conventions import Convention
from kmha.verify.diagnosing.diagnosis import candidate_of

RIGHT = [
    ("SelfAttention", {}, {"adds-its-input", "layer-norm-of-output"}),
    ("Block", {}, {"pre-norm", "activation-gelu"}),
    ("WithContext", {"context": None}, set()),
    ("Matched", {}, set()),
    ("Rotating", {}, {"pre-norm", "activation-silu", "rotary-half-in-block", "causal-unless-masked"}),
    ("TwoMasks", {}, set()),
    ("RotaryEmbedding", {}, {"rotates-half"}),
    ("RotaryEmbedding", {"pairs": True}, {"rotates-interleaved"}),
    ("RotaryOfBoth", {"pairs": True}, {"rotates-interleaved"}),
    ("PositionEmbedding", {}, {"positions-alone"}),
    ("Decoder", {}, set()),
    ("Crossing", {"x_mask": None}, set()),
    ("Adding", {}, {"pre-norm", "activation-gelu"}),
    ("Optional", {}, {"pre-norm", "activation-gelu"}),
]
WRONG = [
    ("SelfAttention", {"wrong": "softmax over queries"}, "softmax-over-queries"),
    ("Block", {"wrong": "residual dropped"}, "residual-missing-attention"),
    ("Matched", {"wrong": "not scaled"}, "scale-missing"),
    ("Rotating", {"wrong": "not scaled"}, "scale-missing"),
    ("TwoMasks", {"wrong": "not scaled"}, "scale-missing"),
    ("Decoder", {"wrong": "not scaled"}, "scale-missing"),
    ("Adding", {"wrong": "norm dropped"}, "norm-missing-feed-forward"),
    ("Optional", {"wrong": "residual dropped"}, "residual-missing-attention"),
]
# Right or wrong, these are none of the choices and mistakes that kmha knows.
UNNAMED = [
    ("PositionEmbedding", {"wrong": "one too far"}, "unknown", ""),
    ("RotaryEmbedding", {"wrong": "backwards"}, "unjudged", "turned by its positions"),
    ("RotaryOfBoth", {"wrong": "query alone"}, "unjudged", "turned by its positions"),
    ("Strange", {}, "unjudged", "shrinkage"),
]


@pytest.mark.parametrize(("name", "arguments", "choices"), RIGHT)
def test_a_right_layer_is_right_with_its_choices(candidate, name, arguments, choices):
    found = diagnose(candidate("torch_foreign", name), arguments=arguments)
    assert (found.verdict, found.errors) == ("right", {})
    assert {*found.convention.choices} == choices


@pytest.mark.parametrize(("name", "arguments", "mistake"), WRONG)
def test_a_mistake_is_named(candidate, name, arguments, mistake):
    assert diagnose(candidate("torch_foreign", name), arguments=arguments).ids == (mistake,)


@pytest.mark.parametrize(("name", "arguments", "verdict", "says"), UNNAMED)
def test_what_has_no_name(candidate, name, arguments, verdict, says):
    found = diagnose(candidate("torch_foreign", name), arguments=arguments)
    assert found.verdict == verdict
    assert says in " ".join(found.advice)


def test_a_decoder_that_may_be_an_encoder_is_not_accused(candidate):
    read = candidate_of(candidate("torch_foreign", "WithContext"), {})
    stub = {"results": (), "errors": {}, "mistakes": (), "verdict": "unknown", "convention": Convention()}
    advice = sureness.advice(types.SimpleNamespace(**stub, candidate=read))
    assert "If it is an encoder layer that gets no `context`, say so: --set context=None." in advice


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("stale", ("cache-stale",))])
def test_a_cache_of_two_arrays_with_an_offset(candidate, wrong, ids):
    pytest.importorskip("torch").manual_seed(0)
    found = diagnose(candidate("torch_foreign", "Offset")(wrong=wrong))
    assert (found.verdict, found.ids) == ("known" if wrong else "right", ids)


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("not scaled", ("scale-missing",))])
def test_a_sequence_that_passes_on_its_arguments_by_their_places(candidate, wrong, ids):
    found = diagnose(candidate("torch_foreign", "Chain")(heads=3, wrong=wrong))
    assert (found.right, found.ids, found.errors) == (not ids, ids, {})
    assert "result = layer(x)" in found.code() or not ids


def test_a_module_that_adds_the_encoding_of_another_module(candidate):
    assert diagnose(candidate("torch_foreign", "Sum")()).verdict == "right"


@pytest.mark.parametrize(("arguments", "ids"), [({}, ()), ({"wrong": "not scaled"}, ("scale-missing",))])
def test_a_core_with_one_key_for_all_heads(candidate, arguments, ids):
    found = diagnose(candidate("array_foreign", "one_key"), arguments=arguments)
    assert (found.right, found.ids, found.errors) == (not ids, ids, {})
    assert "one key and value" in found.convention.entry


@pytest.mark.tensorflow
@pytest.mark.parametrize(("name", "ids"), [("TwoSizes", ()), ("Unscaled", ("scale-missing",))])
def test_a_built_layer_whose_values_have_their_own_size(candidate, name, ids):
    found = diagnose(candidate("keras_foreign", "built")(candidate("keras_foreign", name)))
    assert (found.right, found.ids, found.errors) == (not ids, ids, {})
