import numpy as np
import pytest

from kmha.verify.probing import scores
from kmha.verify.probing.inputs import Inputs, Place, Slot

B, H, T, S, I = 2, 3, 5, 7, 4


@pytest.fixture
def softmax(rng):
    """(B, H, T, S)."""
    x = np.exp(rng.normal(size=(B, H, T, S)))
    return x / x.sum(-1, keepdims=True)


def test_rows(softmax):
    assert scores.distance(softmax)[0] < 1e-12
    wrong = softmax.copy()
    wrong[1, 2, 3] *= 0.75
    away, where = scores.distance(wrong)
    assert abs(away - 0.25) < 1e-12
    assert where == "[1, 2, 3] sums to 0.75"


def test_rows_that_attend_to_nothing(softmax):
    softmax[0, 1, 2] = 0
    assert scores.distance(softmax)[0] < 1e-12
    assert scores.distance(0 * softmax) == (1.0, "every row is zero")
    softmax[1, 1, 1, 1] = np.nan
    assert scores.distance(softmax)[0] == np.inf


def test_several_axes_of_keys(softmax):
    x = softmax.reshape(B, H, T, 1, S) / 2
    x = np.concatenate([x, x], axis=3)
    assert scores.distance(x, 2)[0] < 1e-12
    assert abs(scores.distance(x, 1)[0] - 0.5) < 1e-12


def test_sums_along_another_axis(softmax):
    assert scores.sums_along(softmax, 1e-6) == ""
    assert "the queries" in scores.sums_along(softmax.swapaxes(-1, -2), 1e-6)
    assert "the heads" in scores.sums_along(softmax.transpose(0, 3, 1, 2), 1e-6)


def test_among(softmax):
    slots = Slot(("query",)), Slot(("value",))
    inputs = Inputs(((Place(0), Place(1)), {}), slots, (np.ones((B, T, I)), np.ones((B, S, I))), (None, None))
    results = {
        "output": np.ones((B, T, S)),  # the first is no scores
        "scores": softmax,
        "of one head": softmax[:, 0],
        "logits": np.log(softmax),
        "hidden": np.log(softmax[:, 0]),
        "weights": softmax[0],
        "features": np.ones((B, T, I)),
    }
    assert scores.among(results, inputs) == {"scores", "of one head", "logits"}
