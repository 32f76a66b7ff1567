import numpy as np
import pytest

from kmha.verify.chains.attention import Trial, run, softmax
from kmha.verify.diagnosing import patterns
from kmha.verify.diagnosing.measuring import Answer, Asked

B, T, S, H, O = 3, 4, 5, 2, 7
RNG = np.random.default_rng(0)


def _trial(**options):
    query, key, value = (RNG.normal(size=(B, H, size, O)) for size in (T, S, S))
    return Trial("core", query, key, value, **options)


def _said(trial, output=None, scores=None):
    """The sentences on an answer that is right but for what is given."""
    state = run(trial)
    output = state["output"] if output is None else output
    asked = Asked(trial, Answer(output, scores))
    return patterns.sentences(asked, state["output"], None if scores is None else state["returned"])


def test_nothing_is_said_of_what_is_right():
    trial = _trial()
    assert _said(trial) == []


def test_another_shape():
    trial = _trial()
    right = run(trial)["output"]
    assert _said(trial, right[:, :, :2]) == [f"its output has the shape {(B, H, 2, O)}, where {(B, H, T, O)} is right"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda right: 2.5 * right, "it is 2.5 times the right output everywhere"),
        (
            lambda right: right + np.arange(O),
            "the difference is the same at every position of every item, as of a bias",
        ),
        (lambda right: right[[1, 0, 2]], "it is right but for the order along the batch: 1, 0, 2"),
        (lambda right: right[:, :, ::-1], "it is right but for the order along positions: 3, 2, 1, 0"),
        (
            lambda right: right[..., [1, 0, *range(2, O)]],
            "it is right but for the order along features: 1, 0, 2, 3, 4, 5, 6",
        ),
        (
            lambda right: right + np.array([0, 1.0, 0])[:, None, None, None],
            "only the batch's items 1 differ; 0, 2 are right (counted from 0)",
        ),
        (
            lambda right: right * np.array([1.0, 1, 1, 3])[:, None],
            "only the positions 3 differ (counted from 0)",
        ),
        (lambda right: np.where(right > 0, np.nan, right), "are NaN or infinite"),
    ],
)
def test_of_the_output(change, sentence):
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
        (lambda state: state["scores"], "its scores are right: the mistake comes after them"),
        (lambda state: np.broadcast_to(state["scores"][:, :1], state["scores"].shape), "the same in all heads"),
        (lambda state: state["scores"] + 0.1 * np.arange(S), "the difference of its scores is constant over the heads"),
        (lambda state: state["scores"] * np.array([1.0, 2.0])[:, None, None], "the scores of the heads 0 are right"),
        (lambda state: softmax(state["masked"], axis=2), "its scores sum to 1 over the queries"),
        (lambda state: softmax(state["scaled"]), "positions that the mask hides get scores up to"),
        (lambda state: 0.5 * state["scores"], "its rows of scores sum to 0.5 up to 0.5, not to 1"),
        (lambda state: state["scores"][:, ::-1], "it is right but for the order along the heads: 1, 0"),
        (lambda state: state["scores"][:, :1], f"its scores have the shape {(B, 1, T, S)}"),
    ],
)
def test_of_the_scores(change, sentence):
    trial = _trial(mask=np.tril(np.ones((B, T, S), bool), 1))
    found = _said(trial, scores=change(run(trial)))
    assert any(sentence in each for each in found), found
