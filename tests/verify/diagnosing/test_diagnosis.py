"""Verdicts and scripts. `test_*_candidate.py` test which mistakes are named."""

import dataclasses
import re
import types
import warnings

import keras
import numpy as np
import pytest

import kmha
from kmha.verify import diagnose
from kmha.verify.diagnosing import diagnosis, report
from kmha.verify.diagnosing.block_candidate import BlockCandidate
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.layer_candidate import LayerCandidate


@pytest.fixture(autouse=True)
def _same_policy():
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)


def _result(found, **scope):
    """Run the script as a file of its own. Return its `result`, and what it says is right."""
    code = found.code()
    scope |= {"__name__": "shown", "print": lambda *_: None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras', of a softmax over one key
        exec(compile(code, "shown.py", "exec"), scope)  # noqa: S102 - the code that is shown
    right = re.search(r"^# right: (.*)$", code, re.MULTILINE)[1]
    result = scope["result"][0] if isinstance(scope["result"], tuple) else scope["result"]
    result = result.detach().numpy() if hasattr(result, "detach") else np.asarray(result)
    return result, np.array(__import__("json").loads(right))


def _assert_shown(found, **scope):
    result, right = _result(found, **scope)
    assert result.shape == right.shape
    assert not np.allclose(result, right, atol=1e-4)
    np.testing.assert_allclose(result, found.smallest.answer.output.reshape(result.shape), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(right, found.smallest.right["output"].reshape(right.shape), rtol=1e-4, atol=1e-5)


def test_right_candidate():
    found = diagnose(kmha.MultiHeadAttention, arguments={"use_bias": False})
    assert (found.verdict, found.right, found.ids, found.wrong, found.code()) == ("right", True, (), {}, "")


class _Unchanged(keras.layers.Layer):
    def call(self, x):
        return x


class _Mean(keras.layers.Layer):
    def call(self, x):
        return 0 * x + keras.ops.mean(x, axis=1, keepdims=True)


class _OwnValue(keras.layers.Layer):
    def build(self, shape):
        self.parts = [keras.layers.Dense(shape[-1], name=name) for name in ("query", "key", "value")]
        for part in self.parts:
            part.build(shape)

    def call(self, x):
        query, key, value = (part(x) for part in self.parts)
        return value + 0 * (query + key)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layer", [_Unchanged, _Mean, _OwnValue])
def test_one_head_has_no_mistake_of_heads(layer):
    """These layers give what a softmax over a single head, or a swap of its axis, would."""
    found = diagnose(layer)
    if layer is _OwnValue:
        assert found.ids == ("mix-at-query",)
    else:
        assert found.verdict in ("unknown", "unjudged")
    assert found.sizes.heads == 1
    notes = report.notes(found)
    assert ("It returns its input unchanged, so it does no attention." in notes) == (layer is _Unchanged)
    unweighted = "It has no weights, so kmha compared it with attention without projections."
    assert (unweighted in notes) == (layer is not _OwnValue)


@pytest.mark.tensorflow
@pytest.mark.parametrize("block", ["EncoderLayer", "DecoderLayer"])
def test_blocks(block):
    assert diagnose(getattr(kmha.layers, block)).right


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("arrays", "core_unscaled", {}),
        ("arrays", "cubed", {}),
        ("arrays", "mask_after", {}),
        ("arrays", "strict", {}),
        ("arrays", "kernel_for_two", {}),
        ("arrays", "of_two_places", {}),
        ("jax_functions", "squared", {}),
        ("torch_modules", "keys_mixed", {}),
        ("torch_modules", "Linears", {"wrong": "multiplied"}),
        ("torch_modules", "Causal", {"diagonal": 0}),
        ("torch_modules", "Cloned", {"wrong": "not scaled"}),
    ],
)
def test_script_runs(candidate, module, name, arguments):
    """The script runs in an empty namespace, so it must import what it uses."""
    _assert_shown(diagnose(candidate(module, name), arguments=arguments))


@pytest.mark.sampled(6)
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Course", {"wrong": "mask inverted"}),
        ("Course", {"wrong": "key's kernel for value"}),
        ("Nameless", {"order": [3, 1, 0, 2], "scaled": False}),
        ("HeadLists", {"wrong": "one value kernel"}),
        ("Lists", {"scale": 2.0}),
    ],
)
def test_script_of_a_layer_runs(candidate, name, arguments):
    _assert_shown(diagnose(candidate("keras_layers", name), arguments=arguments, mask="attends"))


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("second item", "the difference is only in item 1 of the batch"),
        ("permuted", "its numbers are right, but in another order along features"),
        ("only where masked", "it differs only at positions from which the mask hides something"),
    ],
)
def test_an_unknown_mistake_has_a_clue_and_code_that_shows_it(candidate, how, sentence):
    found = diagnose(candidate("keras_layers", "Strange"), arguments={"how": how}, mask="attends")
    assert found.verdict == "unknown", found.ids
    assert found.nearest.trials < len(found.results)
    assert any(sentence in each for each in found.clue.pattern), found.clue.pattern
    _assert_shown(found)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_scores_that_are_wrong_are_shown(candidate):
    found = diagnose(candidate("keras_layers", "Strange"), arguments={"how": "constant over heads"})
    assert any("the difference of its scores is the same in all heads" in each for each in found.clue.pattern)
    result, right = _result(found)
    np.testing.assert_allclose(result, right, atol=1e-5)
    assert re.search(r"^# right scores: \[\[", found.code(), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_built_layer_is_called_layer(candidate):
    layer = candidate("keras_layers", "Nameless")(10, 2, scaled=False)
    layer(np.ones((2, 3, 10)), np.ones((2, 4, 10)))
    found = diagnose(layer)
    assert "# layer: the candidate that was diagnosed" in found.code()
    _assert_shown(found, layer=layer)


@pytest.mark.slow
def test_source_of_the_import(candidate):
    found = diagnose(candidate("arrays", "cubed"), source="candidates_arrays:cubed")
    assert "from candidates_arrays import cubed\n" in found.code()
    code = diagnose(lambda q, k, v: np.tanh(q)).code()
    assert "# candidate: the candidate that was diagnosed" in code
    assert "result = candidate(q=q, k=k, v=v)" in code


def test_nearest_match(candidate):
    found = diagnose(candidate("arrays", "mask_after"))
    assert found.matches[0].distance < 1e-9
    assert found.nearest.trials < found.matches[0].trials
    assert found.nearest.distance > 1e-3


def test_distances_of_wrong_trials(candidate):
    found = diagnose(candidate("arrays", "strict"))
    assert set(found.wrong) == {one.trial.name for one in found.results if one.trial.causal}
    assert min(found.wrong.values()) > 1e-3


def test_another_seed_gives_other_calls_and_the_same_verdict(candidate):
    one, other = (diagnose(candidate("arrays", "strict"), seed=seed) for seed in (0, 1))
    assert one.ids == other.ids == ("causal-strict",)
    assert one.results[0].trial.query.shape != other.results[0].trial.query.shape or one.sizes != other.sizes


@pytest.mark.parametrize(
    ("thing", "mask", "message"),
    [
        (42, "attends", r"expected a layer or a function. Received: 42"),
        (lambda q, k, v: q, "shows", r"expected mask='attends' or mask='hides'.*mask='adds'.*Received: mask='shows'"),
    ],
)
def test_errors_teach(thing, mask, message):
    with pytest.raises(ValueError, match=message):
        diagnose(thing, mask=mask)


def test_candidate_classes():
    assert type(diagnosis.candidate_of(keras.layers.MultiHeadAttention, {})) is LayerCandidate
    assert type(diagnosis.candidate_of(kmha.layers.EncoderLayer, {})) is BlockCandidate
    assert type(diagnosis.candidate_of(lambda q, k, v: q, {})) is FunctionCandidate


def test_progress_is_reported(candidate):
    stages = []
    diagnose(candidate("arrays", "cubed"), progress=stages.append)
    assert stages[0] == "trying calling conventions"
    assert "comparing with every pair of mistakes" in stages


def test_most_calls_run_with_square_sizes():
    def attend(q, k, v, mask=None):
        assert q.shape[-2] == k.shape[-2]
        logits = q @ np.swapaxes(q, -1, -2) / q.shape[-1] ** 0.5
        logits = logits if mask is None else np.where(mask, logits, -1e9)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    found = diagnose(attend)
    assert (found.verdict, found.ids, found.convention.sizes) == ("known", ("logits-query-query",), "square")


def test_a_right_cache_does_not_make_a_layer_right():
    found = diagnose(lambda query, key, value: query * 0.0 + value.mean(-2, keepdims=True))
    wrong, cached = (dataclasses.replace(found, verdict=verdict) for verdict in ("unjudged", "right"))
    assert diagnosis._with_cache(wrong, types.SimpleNamespace(weights=None), lambda: cached) is wrong
