import numpy as np

from kmha.verify import diagnose
from kmha.verify.diagnosing.evidence import precision


def test_softmax_in_float16(scores, evaluated):
    def attention(query, key, value):
        return scores(query.astype("float16"), key.astype("float16")).astype("float64") @ value

    found = precision.find(*evaluated(attention))
    assert found.ids == ("softmax-in-half-precision",)
    assert "numbers of float16" in found.says
    assert diagnose(attention).ids == found.ids


def test_returned_scores_show_it(scores, evaluated):
    def attention(query, key, value):
        weights = scores(query, key).astype("float16").astype("float64")
        return weights @ value, weights

    assert precision.find(*evaluated(attention)).ids == ("softmax-in-half-precision",)


def test_small_errors_that_are_no_rounding(scores, evaluated):
    assert precision.find(*evaluated(lambda query, key, value: 1.001 * (scores(query, key) @ value))) is None
    assert precision.find(*evaluated(lambda query, key, value: scores(query, key) @ value)) is None
    assert precision.find(*evaluated(lambda query, key, value: np.float16(scores(query, key)) @ value**2)) is None
