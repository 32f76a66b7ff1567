import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.evidence import some_calls


def _attention(scores, unscaled, **changes):
    """Attention that is unscaled in some calls."""

    def attention(query, key, value):
        factor = np.sqrt(query.shape[-1]) if unscaled(query, key) else 1
        return scores(query * factor, key) @ value * changes.get("times", 1)

    return attention


def test_a_mistake_in_one_of_two_ways(scores, evaluated):
    attention = _attention(scores, lambda query, key: query.shape[-2] == key.shape[-2])
    (found,) = some_calls.find(evaluated(attention)[1], "attention")
    assert found.ids == ("scale-missing",)
    assert found.says.startswith("It explains all 2 wrong calls (equal lengths; self-attention), and the other 2 are")
    assert diagnose(attention).ids == ("scale-missing",)


@pytest.mark.parametrize("times", [1, 2])
def test_no_mistake_in_one_of_two_ways(scores, evaluated, times):
    """All calls are right, or those that a mistake explains are not the only wrong ones."""
    attention = _attention(scores, lambda query, key: times == 2 and query is key, times=times)
    assert some_calls.find(evaluated(attention)[1], "attention") == []


def test_extreme_calls_name_nothing(scores, evaluated):
    """A softmax of tens of thousands is nearly the same for many mistakes."""
    attention = _attention(scores, lambda query, key: np.abs(query).max() > 50)
    assert some_calls.find(evaluated(attention)[1], "attention") == []


def test_a_mistake_in_the_calls_with_a_rate_of_dropout_outside_of_training(scores, evaluated):
    """Code may take another path if there is a rate, even if it drops nothing."""

    def attention(query, key, value, dropout=0.0, training=False):
        return scores(query * (np.sqrt(query.shape[-1]) if dropout else 1), key) @ value

    wrong = evaluated(attention)[1]
    assert any(result.wrong and not result.trial.training for result in wrong)
    found = some_calls.find([each for each in wrong if not each.trial.training], "attention")
    assert found[0].ids == ("scale-missing",)
