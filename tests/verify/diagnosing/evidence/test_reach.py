import numpy as np
import pytest

from kmha.verify.diagnosing.evidence import reach, some_calls
from kmha.verify.diagnosing.matching import judge, ranked
from kmha.verify.mistakes import BANK


def _says(found):
    return " ".join(finding.says for finding in found)


def test_items_and_heads_are_mixed(scores, evaluated):
    def attention(query, key, value):
        mixed = scores(query, key) @ value
        return mixed + 0.1 * mixed.mean(axis=(0, 1), keepdims=True)

    found = _says(reach.find(*evaluated(attention)))
    assert "Item 0 of the batch changes the output of other items" in found
    assert "Head 0 changes the output of other heads" in found


def test_a_position_sees_a_hidden_one(scores, evaluated):
    def attention(query, key, value, mask=None):
        logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
        logits = logits if mask is None else np.where(mask, logits, -1e9)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return weights @ value + (0 if mask is None else 0.01 * value.sum(-2, keepdims=True))

    found = _says(reach.find(*evaluated(attention)))
    assert "that the mask hides." in found
    assert "other items" not in found


def test_a_position_does_not_see_all(evaluated, scores):
    def attention(query, key, value):
        return scores(query, key[..., :1, :]) @ value[..., :1, :] ** 2

    assert _says(reach.find(*evaluated(attention))).count("does not see position 1, which it must.") == 1


def test_right_code(evaluated, scores):
    assert reach.find(*evaluated(lambda query, key, value: scores(query, key) @ value)) == []


@pytest.mark.parametrize("named", [True, False])
def test_nearest(evaluated, scores, named):
    """Unscaled logits, and twice the values of large inputs."""

    def attention(query, key, value):
        return scores(query * np.sqrt(query.shape[-1]), key) @ value * (1 + (not named or np.abs(query).max() > 50))

    candidate, results = evaluated(attention)
    found = some_calls.nearest(results, ranked(results, candidate.chain)[1])
    if not named:
        assert found is None
        return
    assert found.says == (
        "The nearest known mistake, scale-missing, explains 3 of 4 calls, 3 of the 4 wrong ones. "
        "These contradict it: large numbers."
    )
    assert some_calls.nearest(results, judge(results, [BANK["scale-keys"]])) is None
    assert some_calls.nearest(results, judge(results)) is None
