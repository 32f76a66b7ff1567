import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.evidence import randomness
from kmha.verify.diagnosing.report import distances, how_sure

RNG = np.random.default_rng(0)


def _dropped(array, rate):
    return array * (RNG.random(array.shape) >= rate) / (1 - rate)


@pytest.mark.parametrize(
    ("place", "where"), [("scores", "drops scores"), ("output", "drops numbers of its output"), ("returned", "scores")]
)
def test_dropout_at_inference(scores, evaluated, place, where):
    def attention(query, key, value):
        weights = scores(query, key)
        weights = weights if place == "output" else _dropped(weights, 0.3)
        mixed = weights @ value
        return (_dropped(mixed, 0.3) if place == "output" else mixed), (weights if place == "returned" else None)

    found = randomness.find(*evaluated(attention))
    assert found.ids == ("dropout-at-inference",)
    assert where in found.says
    assert "at a rate of about 0.3," in found.says


def test_dropout_in_a_layer_with_other_rates(evaluated):
    """The rate is fixed, so that all calls are random, and no number of a known mistake fits."""

    class Attention(keras.layers.MultiHeadAttention):
        def call(self, query, value, key=None):
            return super().call(query, value, key, training=True)

    found = diagnose(Attention, arguments={"dropout": 0.2})
    assert (found.verdict, found.ids) == ("known", ("dropout-at-inference",))
    assert how_sure(found).startswith("called twice with the same inputs, it gives two results: it drops scores")
    assert "from_found" not in distances(found)[0]


def test_weights_of_each_call(scores, evaluated):
    def attention(query, key, value):
        kernel = np.random.default_rng().normal(size=(value.shape[-1], value.shape[-1]))
        return scores(query, key) @ value @ kernel

    assert randomness.find(*evaluated(attention)).ids == ("weights-made-in-call",)


def test_noise(scores, evaluated):
    noise = np.random.default_rng(0)
    found = randomness.find(*evaluated(lambda query, key, value: scores(query, key) @ value + noise.random()))
    assert found.ids == ("random-at-inference",)
    assert found.conclusive


def test_state(scores, evaluated):
    factors = [1.0]
    candidate, results = evaluated(lambda query, key, value: scores(query, key) @ value * factors[-1])
    factors.append(2.0)  # what a call leaves behind changes the next
    found = randomness.find(candidate, results)
    assert found.ids == ("state-kept",)
    assert not found.conclusive


def test_the_same_twice_is_no_evidence(scores, evaluated):
    assert randomness.find(*evaluated(lambda query, key, value: scores(query, key) @ value)) is None
