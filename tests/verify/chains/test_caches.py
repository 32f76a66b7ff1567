import numpy as np
import pytest

from kmha.verify.chains.attention import CHAINS, ImpossibleError, Trial, run
from kmha.verify.chains.caches import CACHE, EMPTY, Entry, SequenceAttend, WeightsAttend, entries, trial_of

B, I, H, O, E = 3, 5, 2, 4, 6


@pytest.fixture
def weights():
    rng = np.random.default_rng(3)
    shapes = {"query": (H, I, O), "key": (H, I, O), "value": (H, I, O), "attention_output": (H, O, E)}
    return {f"{role}/kernel": rng.normal(size=shape) for role, shape in shapes.items()}


@pytest.fixture
def request_tokens():
    return np.random.default_rng(4).normal(size=(B, 7, I))


def _causal(weights, tokens):
    return run(Trial("", tokens, tokens, tokens, weights, causal=True))["output"]


def test_it_is_a_chain():
    assert CHAINS["cache"] is CACHE


@pytest.mark.parametrize("lengths", [[1] * 7, [3, 1, 1, 1, 1], [7], [2, 3, 2]])
def test_the_right_cache_gives_causal_attention(weights, request_tokens, lengths):
    trial = trial_of("", [request_tokens], [lengths], 9, WeightsAttend(weights))
    np.testing.assert_allclose(run(trial)["output"], _causal(weights, request_tokens), rtol=1e-12, atol=1e-12)


def test_requests_do_not_see_each_other(weights, request_tokens):
    second = request_tokens[:, ::-1][:, :4]
    trial = trial_of("", [request_tokens, second], [[3, 4], [1, 1, 2]], 9, WeightsAttend(weights))
    expected = np.concatenate([_causal(weights, request_tokens), _causal(weights, second)], axis=1)
    np.testing.assert_allclose(run(trial)["output"], expected, rtol=1e-12, atol=1e-12)


def test_from_outside_and_with_weights_it_is_the_same(weights, request_tokens):
    def only_the_first_and_itself(state, right):
        return [[[Entry(0, 0), entry] if entry.position else [entry] for entry in own] for own in state["appended"]]

    inside, outside = (
        run(trial_of("", [request_tokens], [[2, 1, 1, 1, 1, 1]], 9, attend), [{"visible": only_the_first_and_itself}])
        for attend in (WeightsAttend(weights), SequenceAttend(lambda x: _causal(weights, x), ordered=False))
    )
    np.testing.assert_allclose(inside["output"], outside["output"], rtol=1e-12, atol=1e-12)
    assert np.abs(inside["output"][:, 3:] - _causal(weights, request_tokens)[:, 3:]).max() > 0.01


def test_an_empty_slot_has_a_key_and_a_value_of_0(weights, request_tokens):
    trial = trial_of("", [request_tokens[:, :1]], [[1]], 2, WeightsAttend(weights))
    found = run(trial, [{"visible": lambda state, right: [[[Entry(0, 0), EMPTY]]]}])["output"]
    own = request_tokens[:, 0]
    q, k, v = (np.einsum("BI,HIO->BHO", own, weights[f"{role}/kernel"]) for role in ("query", "key", "value"))
    share = np.exp((q * k).sum(-1) / np.sqrt(O)) / (np.exp((q * k).sum(-1) / np.sqrt(O)) + 1)
    expected = np.einsum("BHO,HOE->BE", share[..., None] * v, weights["attention_output/kernel"])
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12, atol=1e-12)


def test_a_candidate_that_is_not_causal_ends_each_sequence_with_its_query(request_tokens):
    attend = SequenceAttend(lambda x: np.repeat(x.mean(1, keepdims=True), x.shape[1], 1), ordered=False, causal=False)
    found = run(trial_of("", [request_tokens], [[1] * 7], 9, attend))["output"]
    np.testing.assert_allclose(found[:, 3], request_tokens[:, :4].mean(1), rtol=1e-12)


@pytest.mark.parametrize(
    "visible",
    [[EMPTY, Entry(0, 1)], [Entry(0, 0)], [Entry(0, 1), Entry(0, 0)], []],
    ids=["an empty slot", "without itself", "the query is not last", "nothing"],
)
def test_what_cannot_be_asked_from_outside(request_tokens, visible):
    attend = SequenceAttend(lambda x: np.cumsum(x, 1), ordered=True)
    trial = trial_of("", [request_tokens[:, :2]], [[1, 1]], 9, attend)
    with pytest.raises(ImpossibleError):
        run(trial, [{"visible": lambda state, right: [[entries(0, 0, 1)], [visible]]}])


def test_an_error_of_the_candidate_makes_a_mistake_impossible(request_tokens):
    def short(tokens):
        raise IndexError("too long")

    with pytest.raises(ImpossibleError, match="too long"):
        run(trial_of("", [request_tokens], [[7]], 9, SequenceAttend(short, ordered=False)))
