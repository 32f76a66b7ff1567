import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import unexplained


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


def random(q, k, v):
    return _scores(q, k) @ v + np.random.default_rng().normal(size=q.shape)


def remembers(q, k, v, seen=[0.0]):  # noqa: B006 - the mistake
    seen[0] += 0.25
    return _scores(q, k) @ v * seen[0]


@pytest.mark.parametrize(
    ("function", "step", "sentence"),
    [
        (cubed_logits, unexplained.LOGITS, ""),
        (thrice_the_logits, unexplained.LOGITS, "its scores are those of logits that are 3 times the right ones"),
        (cubed_without_scores, unexplained.LOGITS, ""),
        (cubed_values, unexplained.VALUES, ""),
        (after_the_scores, unexplained.AFTER, "its scores are right: the mistake comes after them"),
        (other_scores, unexplained.RETURNED, "its output is right"),
        (mask_and_more, unexplained.MASK, "it differs only where the mask hides something"),
        (random, unexplained.VALUES, "called twice with the same, it gives two results"),
        (remembers, unexplained.VALUES, "called twice with the same, it gives two results"),
    ],
)
def test_the_first_step_that_departs(function, step, sentence):
    found = diagnose(function)
    assert found.verdict == "unknown", found.ids
    assert found.clue.step == step
    assert any(sentence in each for each in found.clue.pattern) or not sentence, found.clue.pattern


def test_a_mistake_in_training_alone(candidate):
    found = diagnose(candidate("arrays", "trained"))
    assert found.clue.step == unexplained.TRAINING
    assert found.smallest is None


@pytest.mark.parametrize("function", [cubed_logits, cubed_values, mask_and_more])
def test_the_smallest_case_is_small_and_wrong(function):
    one = diagnose(function).smallest
    assert one.trial.query[..., 0].size * one.trial.key.shape[-2] <= 16
    assert not np.allclose(one.answer.output, one.right["output"], atol=1e-4)
    for array in (one.trial.query, one.trial.key, one.trial.value):
        np.testing.assert_array_equal(array, np.round(array, 2))


def test_the_smallest_case_of_a_softmax_has_two_keys():
    assert diagnose(cubed_logits).smallest.trial.key.shape == (1, 1, 2, 1)
    assert diagnose(cubed_values).smallest.trial.key.shape == (1, 1, 1, 1)


@pytest.mark.tensorflow
def test_what_a_candidate_holds_stays(candidate):
    layer = candidate("keras_layers", "Strange")(3, 5, how="permuted")
    layer(np.ones((1, 2, 7)), np.ones((1, 4, 7)))
    found = diagnose(layer, arguments={"num_heads": 3})
    assert found.verdict == "unknown"
    query = found.smallest.trial.weights["query/kernel"]
    np.testing.assert_array_equal(query, np.swapaxes(layer.get_weights()[0], 0, 1))
    assert found.smallest.answer.output.shape == (1, 1, 7)
