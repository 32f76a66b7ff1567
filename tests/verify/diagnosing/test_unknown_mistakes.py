import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.chains.attention import Trial, run, softmax
from kmha.verify.diagnosing import unknown_mistakes
from kmha.verify.diagnosing.matching import Answer, TrialResult

pytestmark = pytest.mark.sampled(4)


def _softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scores(q, k, mask=None, of=lambda logits: logits):
    logits = of(q @ np.swapaxes(k, -1, -2) / k.shape[-1] ** 0.5)
    return _softmax(logits if mask is None else np.where(mask, logits, -1e9))


def cubed_logits(q, k, v):
    scores = _scores(q, k, of=lambda logits: logits**3)
    return scores @ v, scores


def thrice_the_logits(q, k, v):
    scores = _scores(q, k, of=lambda logits: 3 * logits)
    return scores @ v, scores


def cubed_without_scores(q, k, v):
    return _scores(q, k, of=lambda logits: logits**3) @ v


def cubed_values(q, k, v):
    return _scores(q, k) @ v**3


def after_the_scores(q, k, v):
    scores = _scores(q, k)
    return (scores**2 * scores.shape[-1] * 1.3 - 0.3 * scores) @ v, scores


def other_scores(q, k, v):
    scores = _scores(q, k)
    return scores @ v, np.sin(scores)


def mask_and_more(q, k, v, mask=None):
    output = _scores(q, k, mask) @ v
    return output if mask is None else output + 1.0 * (~mask).any(-1)[..., None]


def query_returned(q, k, v):
    return q


def random(q, k, v):
    return _scores(q, k) @ v + np.random.default_rng().normal(size=q.shape)


def remembers(q, k, v, seen=[0.0]):  # noqa: B006 - the mistake
    seen[0] += 0.25
    return _scores(q, k) @ v * seen[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("function", "step", "sentence"),
    [
        (cubed_logits, unknown_mistakes.LOGITS, ""),
        (thrice_the_logits, unknown_mistakes.LOGITS, "its scores are what the right logits times 3 would give"),
        (cubed_without_scores, unknown_mistakes.LOGITS, ""),
        (cubed_values, unknown_mistakes.VALUES, ""),
        (after_the_scores, unknown_mistakes.AFTER, "its scores are right, so the mistake comes after them"),
        (other_scores, unknown_mistakes.RETURNED, "its output is right"),
        (mask_and_more, unknown_mistakes.MASK, "it differs only at positions from which the mask hides something"),
        (query_returned, "", "it returns its query unchanged, so it does no attention"),
    ],
)
def test_first_wrong_step(function, step, sentence):
    found = diagnose(function, mask="attends")
    assert found.verdict == "unknown", found.ids
    assert found.clue.step == step
    assert any(sentence in each for each in found.clue.pattern) or not sentence, found.clue.pattern


@pytest.mark.parametrize("function", [random, remembers])
def test_a_second_call_that_differs_is_named(function):
    assert diagnose(function).ids == ("random-at-inference",)


def test_mistake_only_in_training(candidate):
    found = diagnose(candidate("arrays", "trained"))
    assert found.clue.step == unknown_mistakes.TRAINING
    assert found.smallest is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [cubed_logits, cubed_values, mask_and_more])
def test_the_smallest_case_is_small_and_wrong(function):
    one = diagnose(function).smallest
    assert one.trial.query[..., 0].size * one.trial.key.shape[-2] <= 16
    assert not np.allclose(one.answer.output, one.right["output"], atol=1e-4)
    for array in (one.trial.query, one.trial.key, one.trial.value):
        np.testing.assert_array_equal(array, np.round(array, 2))


@pytest.mark.slow
def test_the_smallest_case_of_a_softmax_has_two_keys():
    assert diagnose(cubed_logits).smallest.trial.key.shape == (1, 1, 2, 1)
    assert diagnose(cubed_values).smallest.trial.key.shape == (1, 1, 1, 1)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_weights_of_a_built_layer_stay(candidate):
    layer = candidate("keras_layers", "Strange")(3, 5, how="permuted")
    layer(np.ones((1, 2, 7)), np.ones((1, 4, 7)))
    found = diagnose(layer, arguments={"num_heads": 3, "how": "permuted"})
    assert found.verdict == "unknown"
    query = found.smallest.trial.weights["query/kernel"]
    np.testing.assert_array_equal(query, np.swapaxes(layer.get_weights()[0], 0, 1))
    assert found.smallest.answer.output.shape == (1, 1, 7)


B, T, S, H, O = 3, 4, 5, 2, 7
RNG = np.random.default_rng(0)


def _trial(**options):
    query, key, value = (RNG.normal(size=(B, H, size, O)) for size in (T, S, S))
    return Trial("core", query, key, value, **options)


def _said(trial, output=None, scores=None):
    """Return the sentences about an answer that is right except for what is given."""
    state = run(trial)
    output = state["output"] if output is None else output
    asked = TrialResult(trial, Answer(output, scores))
    return unknown_mistakes.difference_sentences(asked, state["output"], None if scores is None else state["returned"])


def test_no_sentences_about_a_right_answer():
    trial = _trial()
    assert _said(trial) == []


def test_another_shape():
    trial = _trial()
    right = run(trial)["output"]
    assert _said(trial, right[:, :, :2]) == [
        f"its output has the shape {(B, H, 2, O)}, and the right shape is {(B, H, T, O)}"
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda right: 2.5 * right, "it is 2.5 times the right output everywhere"),
        (
            lambda right: right + np.arange(O),
            "the difference is the same at every position of every item, like a bias",
        ),
        (lambda right: right[[1, 0, 2]], "its numbers are right, but in another order along the batch: 1, 0, 2"),
        (lambda right: right[:, :, ::-1], "its numbers are right, but in another order along positions: 3, 2, 1, 0"),
        (
            lambda right: right[..., [1, 0, *range(2, O)]],
            "its numbers are right, but in another order along features: 1, 0, 2, 3, 4, 5, 6",
        ),
        (
            lambda right: right + np.array([0, 1.0, 0])[:, None, None, None],
            "the difference is only in item 1 of the batch, not in items 0, 2 (counted from 0)",
        ),
        (
            lambda right: right * np.array([1.0, 1, 1, 3])[:, None],
            "the difference is only at position 3 (counted from 0)",
        ),
        (lambda right: np.where(right > 0, np.nan, right), "are NaN or infinite"),
    ],
)
def test_sentences_about_the_output(change, sentence):
    trial = _trial()
    found = _said(trial, change(run(trial)["output"]))
    assert any(sentence in each for each in found), found


def test_transposed():
    query = RNG.normal(size=(B, H, O, O))
    trial = Trial("square", query, query, query)
    found = _said(trial, np.swapaxes(run(trial)["output"], -1, -2))
    assert "its last two axes are transposed" in found


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda state: state["scores"], "its scores are right, so the mistake comes after them"),
        (lambda state: np.broadcast_to(state["scores"][:, :1], state["scores"].shape), "the same in all heads"),
        (lambda state: state["scores"] + 0.1 * np.arange(S), "the difference of its scores is the same in all heads"),
        (
            lambda state: state["scores"] * np.array([1.0, 2.0])[:, None, None],
            "its scores are right only in head 0 (counted from 0)",
        ),
        (lambda state: softmax(state["masked"], axis=2), "its scores sum to 1 over the queries"),
        (lambda state: softmax(state["scaled"]), "positions that the mask hides get scores of up to"),
        (lambda state: 0.5 * state["scores"], "its rows of scores sum to between 0.5 and 0.5, not to 1"),
        (lambda state: state["scores"][:, ::-1], "its numbers are right, but in another order along the heads: 1, 0"),
        (lambda state: state["scores"][:, :1], f"its scores have the shape {(B, 1, T, S)}"),
    ],
)
def test_sentences_about_the_scores(change, sentence):
    trial = _trial(mask=np.tril(np.ones((B, T, S), bool), 1))
    found = _said(trial, scores=change(run(trial)))
    assert any(sentence in each for each in found), found


@pytest.mark.parametrize("average", [True, False])
def test_scores_in_another_form_are_described_too(average):
    """Averages of the heads, (B, T, S), or scores with the heads first, as design choices return them."""
    right = np.full((3, 2, 4, 5), 0.2)
    wrong, trial = 2 * right, Trial("mask", *(np.ones((2, 3, size, 6)) for size in (4, 5, 5)), mask=np.eye(4, 5) > 0)
    forms = [each.mean(0) if average else each for each in (wrong, right)]
    result = TrialResult(trial, Answer(np.ones((2, 3, 4, 6)), forms[0]))
    said = unknown_mistakes.difference_sentences(result, np.ones((2, 3, 4, 6)), forms[1])
    assert "positions that the mask hides get scores of up to 0.4" in said
