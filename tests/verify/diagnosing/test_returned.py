"""Functions that return scores first, or scores alone, and functions that need a mask, whose True may hide."""

import json

import numpy as np
import pytest

from kmha.verify import diagnose


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def scored(query, key, mask, root=0.5):
    logits = query @ key.swapaxes(-1, -2) / key.shape[-1] ** root
    return softmax(logits if mask is None else np.where(mask, logits, -1e9))


def scores_first(query, key, value, mask=None):
    scores = scored(query, key, mask)
    return scores, scores @ value


def scores_first_without_root(query, key, value, mask=None):
    scores = scored(query, key, mask, 1)
    return scores, scores @ value


def scores_alone(query, key, mask=None):
    return scored(query, key, mask)


def scores_alone_without_root(query, key, mask=None):
    return scored(query, key, mask, 1)


def scores_alone_of_queries(query, key):
    return softmax((query @ key.swapaxes(-1, -2) / key.shape[-1] ** 0.5).swapaxes(-1, -2)).swapaxes(-1, -2)


FIRST = "It returns the scores first, and then the output: taken as intended."
ALONE = "It returns the scores alone, so kmha multiplied them by a value itself."


@pytest.mark.parametrize(
    ("function", "ids", "remark"),
    [
        (scores_first, (), FIRST),
        (scores_first_without_root, ("scale-without-root",), FIRST),
        (scores_alone, (), ALONE),
        (scores_alone_without_root, ("scale-without-root",), ALONE),
        (scores_alone_of_queries, ("softmax-over-queries",), ALONE),
    ],
)
def test_scores_may_come_first_or_alone(function, ids, remark):
    found = diagnose(function)
    assert found.ids == ids
    assert remark in " ".join(str(found).split())
    assert bool(found.right) != bool(ids)


def test_the_smallest_case_shows_what_scores_alone_should_be():
    lines = diagnose(scores_alone_without_root).short_code().splitlines()
    right = np.array(json.loads(lines[-1].removeprefix("# right: ")))
    np.testing.assert_allclose(right.sum(-1), 1.0, atol=1e-6)


def logits_alone(query, key, mask=None):
    logits = query @ key.swapaxes(-1, -2) / key.shape[-1] ** 0.5
    return logits if mask is None else np.where(mask, logits, -1e9)


def test_logits_alone_may_be_meant():
    found = diagnose(logits_alone)
    assert found.verdict == "unjudged"
    assert "It returns the logits, without a softmax." in " ".join(str(found).split())


def output_and_loss_without_root(query, key, value):
    return scored(query, key, None, 1) @ value, np.mean(query**2)


def key_as_value_without_root(query, key):
    return scored(query, key, None, 1) @ key


@pytest.mark.parametrize("function", [output_and_loss_without_root, key_as_value_without_root])
def test_an_output_with_the_shape_of_scores_is_an_output(function):
    """In the smallest case, there may be as many features as keys."""
    found = diagnose(function)
    assert found.ids == ("scale-without-root",)
    assert "scores first" not in str(found)
    assert "scores alone" not in str(found)
    right = np.array(json.loads(found.short_code().splitlines()[-1].removeprefix("# right: ")))
    result = found.smallest.answer.output
    assert right.shape == result.shape
    assert not np.allclose(right, result, atol=1e-5)


def needs_mask(query, key, value, mask):
    return softmax(np.where(mask, -1e9, query @ key.swapaxes(-1, -2) / key.shape[-1] ** 0.5)) @ value


def needs_mask_without_root(query, key, value, mask):
    return softmax(np.where(mask, -1e9, query @ key.swapaxes(-1, -2) / key.shape[-1])) @ value


def needs_mask_with_unknown_mistakes(query, key, value, mask):
    return softmax(np.where(mask, -1e9, (query @ key.swapaxes(-1, -2)) ** 3 / key.shape[-1])) @ value * 1.3


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "ids"),
    [(needs_mask, ()), (needs_mask_without_root, ("scale-without-root",)), (needs_mask_with_unknown_mistakes, ())],
)
def test_a_mask_that_hides_everything_is_no_query_that_is_ignored(function, ids):
    """If True hides, a mask of True for every key leaves the same output for every query."""
    found = diagnose(function)
    assert found.ids == ids
    if ids or found.right:
        assert "if True hides in `mask`" in " ".join(str(found).split())


def attention_with_three_mistakes(query, key, value, mask=None):
    logits = (query + 1) @ key.swapaxes(-1, -2) / key.shape[-1]
    return softmax(logits if mask is None else logits * mask * 2) @ value


def test_a_mistake_is_named_by_the_calls_without_masks():
    def two_mistakes(query, key, value, mask=None):
        logits = query @ key.swapaxes(-1, -2) / key.shape[-1]
        return softmax(logits if mask is None else logits * mask * 2) @ value

    found = diagnose(two_mistakes)
    assert found.ids == ("scale-without-root",)
    assert "With a mask, something else differs too." in " ".join(str(found).split())


def test_calls_without_masks_name_nothing_that_they_do_not_explain():
    assert diagnose(attention_with_three_mistakes).ids == ()
