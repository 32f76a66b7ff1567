import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

from kmha.bench.cases import (  # noqa: E402
    BUILTIN,
    OURS,
    ModelRow,
)
from kmha.bench.contenders import ContendersDisagree, check_agreement  # noqa: E402
from kmha.bench.models import build, draw_inputs, reason_against  # noqa: E402


def _results(name, row, given):
    contender = build(name, row, given)
    return contender.results(contender.run())


@pytest.fixture(scope="module")
def expected(model_row, translation):
    """The results of Keras' layers."""
    return _results(BUILTIN, model_row, draw_inputs(model_row, translation))


@pytest.mark.slow
def test_ours_is_the_model_of_keras_layers(model_row, translation, expected):
    """Dropout, the optimizer's step and the decoded tokens are the same too."""
    results = _results(OURS, model_row, draw_inputs(model_row, translation))
    names = {"loss", "loss in training", "loss after a step"} if model_row.step else {"tokens"}
    assert results.keys() == expected.keys() == names
    check_agreement(model_row, OURS, results, BUILTIN, expected)
    if model_row.step:
        assert len({float(loss) for loss in results.values()}) == 3
        assert results["loss after a step"] < results["loss"]
    else:
        assert results["tokens"].shape == (2, 8)
        assert results["tokens"].min() >= 3
        assert len(np.unique(results["tokens"])) > 1


@pytest.mark.slow
def test_other_numbers_are_caught(model_row, translation, expected):
    given = draw_inputs(model_row, translation)
    wrong = translation._replace(
        task=lambda model, smoothing: translation.task(model, 2 * smoothing),
        greedy=lambda model, length: lambda source: translation.greedy(model, length)(source[:, ::-1]),
    )
    with pytest.raises(ContendersDisagree, match=f"{model_row}: `(loss|tokens)` of kmha differs"):
        check_agreement(
            model_row, OURS, _results(OURS, model_row, given._replace(translation=wrong)), BUILTIN, expected
        )


def test_numbers_are_ids_of_tokens_and_the_same_again(model_row, translation):
    given, again = (draw_inputs(model_row, translation) for _ in range(2))
    assert [ids.shape for ids in given[:3]] == [(model_row.batch, length) for length in (7, *[model_row.length] * 2)]
    for ids, same in zip(given[:3], again[:3], strict=True):
        np.testing.assert_array_equal(ids, same)
        assert ids.min() >= 3
        assert ids.max() < 23
    assert (given.target != given.following).any()


def test_torch_cannot_decode(model_row):
    assert (reason_against("torch", model_row, None) is None) == model_row.step
    assert reason_against(OURS, model_row, None) is None


@pytest.mark.slow
def test_a_step_changes_the_next_one(translation):
    row = ModelRow(6, 5, source=7, width=12, heads=3, layers=1, feed_forward=10, vocabulary=23, rate=0.0)
    contender = build(OURS, dataclasses.replace(row), draw_inputs(row, translation))
    losses = [float(contender.run()[0]) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 3
