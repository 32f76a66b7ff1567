import dataclasses

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.bank.self_test import simulate
from kmha.verify.chains.attention import run
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.matching import Answer, TrialResult
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.trials import Accepts, draw
from kmha.verify.mistakes import BANK

DRAWN = draw(5, Accepts(causal=True, padding=True, training=True, half=True))


def _results(*ids, drawn=DRAWN):
    return simulate(drawn, [BANK[id] for id in ids], np.random.default_rng(1))


def _of(results, name):
    return next(one for one in results if one.trial.name == name)


def test_the_right_computation_needs_no_mistake():
    results = _results()
    assert matching.explains(results)
    assert not matching.explains(results, [BANK["scale-missing"]])


@pytest.mark.parametrize("id", ["scale-missing", "softmax-over-queries", "mask-inverted", "causal-strict"])
def test_one_mistake(id):
    [match] = matching.singles(_results(id), "attention")
    assert match.ids == (id,)
    assert match.distance < 1e-12
    assert match.trials == len([one for one in _results(id) if not one.answer.error])


@pytest.mark.slow
@pytest.mark.parametrize(
    "ids",
    [("scale-missing", "causal-strict"), ("softmax-over-queries", "scale-keys"), ("scale-missing", "mask-inverted")],
)
def test_two_mistakes(ids):
    results = _results(*ids)
    assert matching.singles(results, "attention") == []
    assert set(ids) in [set(match.ids) for match in find_pairs(results, "attention")]


def test_distance_of_one_number():
    result = _of(_results(), "cross-attention")
    output = result.answer.output.copy()
    output[0, 0, 0] += 0.5
    wrong = TrialResult(result.trial, dataclasses.replace(result.answer, output=output))
    assert matching.distance(wrong) == pytest.approx(0.5 / np.abs(result.answer.output).max())


def test_rows_with_nothing_to_attend_to_may_hold_anything_but_infinity():
    result = _of(_results(), "mask with fully masked rows")
    empty = result.trial.empty_rows()
    assert empty.any()
    for value, close in ((123.0, True), (np.nan, True), (np.inf, False)):
        output = np.where(empty[..., None], value, result.answer.output)
        one = TrialResult(result.trial, Answer(output))
        assert (matching.distance(one) <= one.limit) is close


def test_rows_with_nothing_to_attend_to_need_not_be_infinite():
    """A mistake may make them so, as with the logarithm of a softmax, and another number for -∞ may not."""
    empty = np.array([[True, False]])
    expected = np.array([[[-np.inf], [1.0]]])
    assert matching.relative_difference(np.array([[[-3e38], [1.0]]]), expected, empty) == 0
    assert matching.relative_difference(np.array([[[np.inf], [1.0]]]), np.array([[[2.0], [1.0]]]), empty) == np.inf


def test_another_shape_is_infinitely_far():
    result = _of(_results(), "cross-attention")
    assert matching.distance(TrialResult(result.trial, Answer(result.answer.output[:, :1]))) == np.inf
    assert matching.distance(TrialResult(result.trial, Answer(error="ValueError: no"))) == np.inf


def test_changed_inputs_are_not_right():
    result = _of(_results(), "cross-attention")
    assert matching.distance(TrialResult(result.trial, dataclasses.replace(result.answer, untouched=False))) == np.inf


def test_any_draw_of_dropout_is_right_except_keeping_everything():
    result = _of(_results(), "dropout, training")
    assert matching.distance(result) <= result.limit
    nothing = run(
        dataclasses.replace(result.trial, kept=np.full(result.answer.scores.shape, 1 / (1 - result.trial.rate)))
    )
    kept = TrialResult(result.trial, Answer(np.asarray(nothing["output"])))
    assert matching.distance(kept) == np.inf


def test_large_logits_are_compared_less_strictly():
    results = _results()
    assert _of(results, "large numbers").limit > 100 * _of(results, "cross-attention").limit


@pytest.mark.parametrize("identity", ["causal-strict", "causal-inverted"])
def test_nan_in_rows_that_a_mistake_leaves_nothing(identity):
    """`masked_fill(triu(diagonal=0), -inf)` hides every key from the first query, and its softmax is NaN."""
    results = _results(identity, drawn=draw(5, Accepts(causal=True, mask=False)))
    drawn = draw(5, Accepts(causal=True, mask=False))
    results = [_with_nan_where_blind(each, identity) for each in _results(identity, drawn=drawn)]
    found = [match.ids for match in matching.singles(results, "attention")]
    assert found in ([(identity,)], [("causal-inverted",), ("mask-inverted",)])
    # NaN in other rows does not fit.
    shown = next(each for each in results if np.isnan(each.answer.output).any())
    everywhere = dataclasses.replace(shown.answer, output=np.full_like(shown.answer.output, np.nan), scores=None)
    assert matching.distance(dataclasses.replace(shown, answer=everywhere), [BANK[identity]]) == np.inf


def _with_nan_where_blind(result, identity):
    blind = ~run(result.trial, [BANK[identity].changes])["allowed"].any(-1)
    blind = blind.all(1) & ~result.trial.empty_rows()
    output = np.where(blind[..., None], np.nan, result.answer.output)
    scores = np.where(blind[:, None, :, None], np.nan, result.answer.scores)
    return dataclasses.replace(result, answer=dataclasses.replace(result.answer, output=output, scores=scores))


def test_the_likeliest_comes_first():
    """The commoner of two explanations within rounding comes first. One that is much farther is left out."""

    def match(distance, *ids):
        return matching.Match(tuple(BANK[id] for id in ids), distance, 3)

    near, rarer = match(3e-16, "scale-heads"), match(1e-16, "scale-batch")
    common, far = match(8e-16, "scale-missing"), match(4e-7, "mask-missing")
    results = _results()
    found = matching.likeliest_first([rarer, near, far, common], results)
    assert found[0] is common
    assert far not in found
    pairs = [match(0, "scale-missing", "scale-batch"), match(0, "mask-missing", "softmax-over-queries")]
    assert matching.likeliest_first(pairs, results) == pairs[::-1]


def test_a_fill_that_is_added_is_not_taken_for_an_inverted_mask():
    """Adding 1e9 where the mask hides, and -1e9 where it does not, differ by rounding alone."""
    results = _results("mask-adds-large")
    assert matching.explains(results, [BANK["mask-inverted"]])
    assert [match.ids for match in matching.singles(results, "attention")] == [("mask-adds-large",)]


def test_a_wrong_answer_to_large_numbers_is_not_explained_by_a_mistake_that_changes_nothing():
    """The limit is wide there, because adding a fill of up to 1e10 rounds the logits."""
    result = _of(_results("mask-after-softmax-renormalised-zeros"), "large numbers, mask")
    assert result.wrong
    same = [BANK["merge-not-transposed"]]  # with one head, which is merged into itself
    one_head = dataclasses.replace(
        result.trial, weights={n: a[:1] for n, a in result.trial.weights.items() if a.ndim > 1}
    )
    wrong = run(one_head, [BANK["mask-after-softmax-renormalised-zeros"].changes])
    result = TrialResult(one_head, Answer(wrong["output"]))
    assert np.array_equal(run(one_head, [same[0].changes])["output"], result.right["output"])
    assert matching.distance(result, same) > result.limit


def test_a_mistake_in_a_mask_that_nobody_passes_comes_last():
    results = _results("mask-missing", drawn=draw(5, Accepts(causal=True, mask=False)))
    assert [match.ids for match in matching.ranked(results, "attention")[0]] == [("causal-missing",), ("mask-missing",)]


@pytest.mark.parametrize("drawn", [draw(5, Accepts(wide=True, mask=False))])
def test_ranked_names_the_commoner(drawn):
    """If I = H·O, √(H·O) and √I are one number."""
    results = _results("scale-features", drawn=drawn)
    assert [match.ids for match in matching.ranked(results, "attention")[0]] == [
        ("scale-all-heads",),
        ("scale-features",),
    ]


def test_the_least_number_of_float32_hides_logits():
    def attention(query, key, value, mask=None):
        logits = query @ np.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
        logits = logits if mask is None else np.where(mask, logits, np.finfo("float32").min)
        logits = logits - logits.max(-1, keepdims=True)
        return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))) @ value

    assert diagnose(attention).ids == ("softmax-logarithm",)


def test_of_equal_explanations_the_one_that_raises_in_the_same_calls_comes_first():
    """Items as heads and repeated masks are the same where B = H. Only the first is impossible elsewhere."""
    drawn = draw(5, Accepts(causal=False))
    results = _results(
        "mask-items-as-heads", drawn=[trial for trial in drawn if trial.name == "mask, as many items as heads"]
    )
    raising = [TrialResult(trial, Answer(error="RuntimeError: sizes")) for trial in drawn if trial.name == "mask"]
    ids = [("mask-tiled",), ("mask-items-as-heads",)]
    fitting = [matching.judge(results, [BANK[id] for id in each]) for each in ids]
    assert [match.trials for match in fitting] == [1, 1]
    assert [match.ids for match in matching.raising_first(fitting, results)] == ids
    assert [match.ids for match in matching.raising_first(fitting, [*results, *raising])] == ids[::-1]
