"""Candidates as people write them are in `candidates/`; what threads published is in `test_published.py`."""

import importlib.util
import re
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

import kmha
from kmha.verify import diagnose, evidence

FOLDER = Path(__file__).parent / "candidates"
pytestmark = pytest.mark.tensorflow


def _module(name):
    if name.split("_")[0] in ("torch", "jax"):
        pytest.importorskip(name.split("_")[0])
    spec = importlib.util.spec_from_file_location(f"candidates_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARRAYS, LAYERS = _module("arrays"), _module("keras_layers")


def _built(layer_class, **options):
    """A built layer whose weights, biases too, are not what it started from."""
    layer = layer_class(3, 5, **options)
    query, value = np.ones((2, 4, 7), "float32"), np.ones((2, 6, 11), "float32")
    layer(query, value)
    rng = np.random.default_rng(1)
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape))
    return layer


@pytest.mark.parametrize(
    ("candidate", "options"),
    [
        (keras.layers.MultiHeadAttention, {}),
        (kmha.MultiHeadAttention, {}),
        (kmha.MultiHeadAttention, {"arguments": {"use_bias": False}}),
        (lambda: _built(keras.layers.MultiHeadAttention), {}),
        (lambda: _built(kmha.MultiHeadAttention, dropout=0.3, use_bias=False), {}),
        (LAYERS.Course, {}),
        (LAYERS.Nameless, {}),
        (LAYERS.Nameless, {"arguments": {"order": [2, 0, 3, 1]}}),
        (LAYERS.OneHead, {}),
        (LAYERS.HeadLists, {}),
        (LAYERS.Packed, {}),
        (kmha.layers.EncoderLayer, {}),
        (kmha.layers.DecoderLayer, {}),
        (ARRAYS.core, {}),
        (ARRAYS.of_three_axes, {}),
        (ARRAYS.of_one_item, {}),
        (ARRAYS.with_matrices, {}),
        (ARRAYS.with_biases, {}),
        (ARRAYS.with_einsum, {}),
        (ARRAYS.one_matrix_each, {}),
        (ARRAYS.no_kernels, {}),
        (ARRAYS.of_tensorflow, {"mask": "hides"}),
        (ARRAYS.prints, {}),
        (ARRAYS.dictionary, {}),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_what_is_right_is_not_accused(candidate, options):
    candidate = candidate() if getattr(candidate, "__name__", "") == "<lambda>" else candidate
    found = diagnose(candidate, **options)
    assert found.right, (found.ids, found.wrong)


@pytest.mark.parametrize(
    ("candidate", "options", "ids"),
    [
        (LAYERS.Course, {"wrong": "not scaled"}, "scale-missing"),
        (LAYERS.Course, {"wrong": "split by reshape"}, "heads-reshaped"),
        (LAYERS.Course, {"wrong": "softmax over queries"}, "softmax-over-queries"),
        (LAYERS.Course, {"wrong": "mask inverted"}, "mask-inverted"),
        (LAYERS.Course, {"wrong": "merged without transpose"}, "merge-not-transposed"),
        (LAYERS.Course, {"wrong": "dropout left on"}, "dropout-at-inference"),
        (LAYERS.Course, {"wrong": "dropout unused"}, "dropout-never"),
        (LAYERS.Course, {"wrong": "not scaled + split by reshape"}, "heads-reshaped scale-missing"),
        (LAYERS.Course, {"wrong": "mask inverted + not scaled"}, "mask-inverted scale-missing"),
        (LAYERS.Nameless, {"order": [3, 1, 0, 2], "scaled": False}, "scale-missing"),
        (ARRAYS.strict, {}, "causal-strict"),
        (ARRAYS.backwards, {}, "causal-reversed"),
        (ARRAYS.in_place, {}, "input-changed"),
        (ARRAYS.nan_rows, {}, "mask-empty-row-nan"),
        (ARRAYS.mask_after, {}, "mask-after-softmax"),
        (ARRAYS.over_heads, {}, "softmax-over-heads"),
        (ARRAYS.exp_two, {}, "softmax-base-two"),
        (ARRAYS.overflowing, {}, "softmax-overflow"),
        (ARRAYS.kernel_for_two, {}, "kernels-key-for-value"),
        (ARRAYS.pair_of_core, {}, "mask-inverted scale-without-root"),
    ],
    ids=lambda value: getattr(value, "__qualname__", value if isinstance(value, str) else None),
)
def test_the_mistake_is_named(candidate, options, ids):
    found = diagnose(candidate, arguments=options)
    explained = [" ".join(sorted(match.ids)) for match in found.matches]
    assert ids in explained, (found.verdict, explained)


@pytest.mark.parametrize("how", ["second item", "permuted", "only where masked", "last position"])
def test_an_unknown_mistake_has_a_clue_and_code_that_shows_it(how):
    found = diagnose(LAYERS.Strange, arguments={"how": how})
    assert found.verdict == "unknown", found.ids
    assert found.clue.step
    assert found.clue.pattern
    _runs_and_differs(found)


def test_a_known_mistake_has_code_too():
    _runs_and_differs(diagnose(ARRAYS.cubed))
    _runs_and_differs(diagnose(LAYERS.Course, arguments={"wrong": "not scaled"}))


def _runs_and_differs(found):
    code = found.code()
    right = np.array(eval(re.search(r"^# right: (.*)$", code, re.MULTILINE)[1]))  # noqa: S307 - a list of numbers
    name = found.subject.name
    scope = {name: {**vars(ARRAYS), **vars(LAYERS)}[name], "print": lambda *_: None}
    lines = [line for line in code.splitlines() if not line.startswith("from candidates")]
    policy = keras.config.dtype_policy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras', of a softmax over one key
        exec("\n".join(lines), scope)  # noqa: S102 - the code that is shown
    keras.config.set_dtype_policy(policy)
    result = scope["result"]
    result = result[0] if isinstance(result, tuple) else result
    assert np.shape(result) == right.shape
    assert not np.allclose(result, right, atol=1e-4)


@pytest.mark.parametrize(
    ("candidate", "options", "message"),
    [
        (ARRAYS.other_name, {}, r"what is the argument `colour`.*--set colour=VALUE"),
        (ARRAYS.core, {"arguments": {"shade": 1}}, r"has no argument `shade`\. It has: q, k, v, mask"),
        (ARRAYS.core, {"mask": "shows"}, r"mask must be 'attends' or 'hides'.*Received: 'shows'"),
        (42, {}, "expected a layer or a function. Received: 42"),
        (keras.layers.MultiHeadAttention(2, 3), {}, "has no weights yet.*`build` it"),
        (lambda colours: colours, {}, "no argument for its input|what is the argument `colours`"),
    ],
)
def test_errors_teach(candidate, options, message):
    with pytest.raises(ValueError, match=message):
        diagnose(candidate, **options)


@pytest.mark.parametrize("name", ["nothing", "text", "leaves", "fails"])
def test_a_candidate_that_cannot_be_run(name):
    found = diagnose(getattr(ARRAYS, name))
    assert found.verdict == "raises"
    assert found.raised
    assert evidence.to_dict(found)["verdict"] == "raises"


def test_everything_as_plain_data():
    found = diagnose(ARRAYS.strict)
    data = evidence.to_dict(found)
    assert [one["id"] for one in data["mistakes"]] == ["causal-strict"]
    assert {row["call"] for row in data["calls"]} == {one.trial.name for one in found.asked}
    assert data["code"] == found.code()
    assert evidence.where(found).values.max() > 0


def test_progress_is_told():
    told = []
    diagnose(ARRAYS.cubed, progress=told.append)
    assert "comparing it with every known mistake" in told
