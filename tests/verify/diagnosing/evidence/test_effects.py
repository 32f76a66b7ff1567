import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.evidence import effects

pytestmark = pytest.mark.sampled(4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("inputs", "ids"),
    [
        ("qqq", ("context-ignored",)),
        ("qkq", ("value-ignored",)),
        ("qvv", ("key-ignored",)),
        ("kkv", ("query-ignored",)),
        ("", ("output-constant",)),
    ],
)
def test_ignored_inputs(scores, evaluated, inputs, ids):
    def attention(query, key, value):
        given = {"q": query, "k": key, "v": value}
        if not inputs:
            return np.ones((*query.shape[:-1], value.shape[-1]))
        q, k, v = (given[name] for name in inputs)
        if "q" not in inputs[:1]:
            q = q.mean(-2, keepdims=True) + 0 * query
        return scores(q, k) @ v**3

    found = effects.ignored_inputs(*evaluated(attention))
    assert found.ids == ids
    assert found.conclusive
    assert diagnose(attention).ids == ids


def test_right_code_uses_all(scores, evaluated):
    made = evaluated(lambda query, key, value: scores(query, key) @ value)
    assert effects.ignored_inputs(*made) is None
    assert effects.unused_weights(*made) == []


@pytest.mark.slow
def test_unused_weights(scores, evaluated):
    def attention(x, w_q, w_k, w_v, w_o):
        return scores(x @ w_q, x @ w_k) @ (x @ w_q) ** 2

    found = effects.unused_weights(
        *evaluated(
            attention,
        )
    )
    assert [each.ids for each in found] == [("projection-missing-value",), ("merge-projection-missing",)]
    assert not any(each.conclusive for each in found)
    assert diagnose(attention).verdict == "unknown"
    assert "The weight value/kernel does not change its output." in diagnose(attention).evidence


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_multiple_of_an_input_is_no_other_input(seed):
    """An input that was drawn with this seed became twice as large, which a normalization takes back."""
    array = np.random.default_rng(seed).normal(size=(2, 7, 12))
    other = effects._another(array)
    assert abs(np.corrcoef(array.ravel(), other.ravel())[0, 1]) < 0.9
