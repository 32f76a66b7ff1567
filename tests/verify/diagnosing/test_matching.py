import dataclasses

import numpy as np
import pytest

from kmha.verify.bank.self_test import pretend
from kmha.verify.chains.attention import run
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.measuring import Answer, Asked
from kmha.verify.diagnosing.trials import Accepts, draw
from kmha.verify.mistakes import BANK

DRAWN = draw(5, Accepts(causal=True, padding=True, training=True, half=True))


def _asked(*ids, drawn=DRAWN):
    return pretend(drawn, [BANK[id] for id in ids], np.random.default_rng(1))


def _of(asked, name):
    return next(one for one in asked if one.trial.name == name)


def test_the_right_computation_needs_no_mistake():
    asked = _asked()
    assert matching.explains(asked)
    assert not matching.explains(asked, [BANK["scale-missing"]])


@pytest.mark.parametrize("id", ["scale-missing", "softmax-over-queries", "mask-inverted", "causal-strict"])
def test_one_mistake(id):
    [match] = matching.singles(_asked(id), "attention")
    assert match.ids == (id,)
    assert match.distance < 1e-12
    assert match.trials == len([one for one in _asked(id) if not one.answer.raised])


@pytest.mark.parametrize(
    "ids",
    [("scale-missing", "causal-strict"), ("softmax-over-queries", "scale-keys"), ("scale-missing", "mask-inverted")],
)
def test_two_mistakes(ids):
    asked = _asked(*ids)
    assert matching.singles(asked, "attention") == []
    assert set(ids) in [set(match.ids) for match in matching.pairs(asked, "attention")]


def test_a_smaller_number_is_a_distance():
    asked = _of(_asked(), "cross-attention")
    output = asked.answer.output.copy()
    output[0, 0, 0] += 0.5
    wrong = Asked(asked.trial, dataclasses.replace(asked.answer, output=output))
    assert matching.distance(wrong) == pytest.approx(0.5 / np.abs(asked.answer.output).max())


def test_rows_with_nothing_to_attend_to_may_hold_anything_finite():
    asked = _of(_asked(), "mask with rows of nothing")
    empty = asked.trial.empty_rows()
    assert empty.any()
    for value, close in ((123.0, True), (np.nan, False)):
        output = np.where(empty[..., None], value, asked.answer.output)
        one = Asked(asked.trial, Answer(output))
        assert (matching.distance(one) <= one.limit) is close


def test_another_shape_is_infinitely_far():
    asked = _of(_asked(), "cross-attention")
    assert matching.distance(Asked(asked.trial, Answer(asked.answer.output[:, :1]))) == np.inf
    assert matching.distance(Asked(asked.trial, Answer(raised="ValueError: no"))) == np.inf


def test_inputs_that_were_changed_are_not_right():
    asked = _of(_asked(), "cross-attention")
    assert matching.distance(Asked(asked.trial, dataclasses.replace(asked.answer, untouched=False))) == np.inf


def test_any_draw_of_dropout_is_right_but_not_that_everything_is_kept():
    asked = _of(_asked(), "dropout, training")
    assert matching.distance(asked) <= asked.limit
    nothing = run(dataclasses.replace(asked.trial, kept=np.full(asked.answer.scores.shape, 1 / (1 - asked.trial.rate))))
    kept = Asked(asked.trial, Answer(np.asarray(nothing["output"])))
    assert matching.distance(kept) == np.inf


def test_large_logits_are_compared_less_strictly():
    asked = _asked()
    assert _of(asked, "large numbers").limit > 100 * _of(asked, "cross-attention").limit
