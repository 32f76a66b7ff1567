"""Each mistake of a cache against a cache that makes it, in a few lines of NumPy."""

import itertools

import numpy as np
import pytest

from kmha.verify import tolerance
from kmha.verify.bank.self_test import singles
from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.chains.caches import SequenceAttend, WeightsAttend, trial_of
from kmha.verify.diagnosing.caches.cache_candidate import TRIALS, draw_trials
from kmha.verify.mistakes import BANK

WIDTH = 6
OURS = [one for one in BANK.values() if one.id.startswith("cache-")]
NEEDS_POSITIONS = {one.id for one in OURS if one.id.startswith("cache-position-")}


def _weights(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"query": (1, WIDTH, WIDTH), "key": (1, WIDTH, WIDTH), "value": (1, WIDTH, WIDTH)}
    weights = {f"{role}/kernel": rng.normal(size=shape) for role, shape in shapes.items()}
    return weights | {"attention_output/kernel": np.eye(WIDTH)[None]}


def _tokens(rng, batch, length):
    return rng.normal(size=(batch, length, WIDTH))


def _attend(q, k, v, hidden=None):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH)
    logits = logits if hidden is None else np.where(hidden, -np.inf, logits)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ v


# What a call attends to and stores, of the cache's and its own keys and values: (past, own) -> (attended, stored).
CACHES = {
    "cache-withheld": lambda past, own, first: (own, past + own),
    "cache-stale": lambda past, own, first: (past + own, past + own if first else past),
    "cache-loses-last": lambda past, own, first: (past[:-1] + own, past[:-1] + own),
    "cache-loses-first": lambda past, own, first: (past[1:] + own, past[1:] + own),
    "cache-drops-newest": lambda past, own, first: (past[:-1] + own, past + own),
    "cache-drops-first": lambda past, own, first: (past[1:] + own, past + own),
    "cache-keeps-last-call": lambda past, own, first: (past + own, own),
    "cache-replaces-last": lambda past, own, first: (past + own, past[:-1] + own),
    "cache-truncated-to-4": lambda past, own, first: (past[-4:] + own, past[-4:] + own),
    "cache-first-half": lambda past, own, first: (past[: len(past) // 2] + own, past + own),
    "cache-halves": lambda past, own, first: (past[len(past) // 2 :] + own, past[len(past) // 2 :] + own),
    "cache-doubles": lambda past, own, first: (past + own, past + own + past + own),
    "cache-appended-twice": lambda past, own, first: (past + own, past + [x for x in own for _ in range(2)]),
    "cache-own-twice": lambda past, own, first: (past + own + ([] if first else own), past + own),
}


def _decoded(trial, identity):
    """Decode with a cache, a list of positions, that makes a mistake. Several positions come in the first call only."""
    weights, outputs = _weights(), []
    project = {role: weights[f"{role}/kernel"][0] for role in ("query", "key", "value")}
    for tokens, lengths in zip(trial.more["requests"], trial.more["lengths"], strict=True):
        cache, start = [], 0
        for length in lengths:
            own = [tokens[:, position] for position in range(start, start + length)]
            attended, stored = CACHES[identity](cache, own, not start)
            for index, query in enumerate(own):
                seen = attended if length == 1 else attended[: len(attended) - len(own) + index + 1]
                seen = np.stack(seen, axis=1)
                outputs.append(
                    _attend(query[:, None] @ project["query"], seen @ project["key"], seen @ project["value"])
                )
            cache, start = stored, start + length
    return np.concatenate(outputs, axis=1)


@pytest.mark.parametrize("identity", CACHES)
def test_against_a_cache_with_the_mistake(identity):
    for trial in draw_trials(np.random.default_rng(1), WeightsAttend(_weights()), _tokens):
        if trial.name in TRIALS:
            found = run(trial, [BANK[identity].changes])["output"]
            np.testing.assert_allclose(found, _decoded(trial, identity), rtol=1e-9, atol=1e-9, err_msg=trial.name)


def test_the_second_request_sees_the_first():
    rng = np.random.default_rng(2)
    first, second = _tokens(rng, 2, 3), _tokens(rng, 2, 2)
    trial = trial_of("", [first, second], [[3], [1, 1]], 9, WeightsAttend(_weights()))
    both = trial_of("", [np.concatenate([first, second], axis=1)], [[3, 1, 1]], 9, WeightsAttend(_weights()))
    found, expected = run(trial, [BANK["cache-leaks"].changes])["output"], run(both)["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_single_query_with_the_mask_in_the_upper_left_corner_sees_the_first_key_alone():
    tokens, weights = _tokens(np.random.default_rng(2), 2, 4), _weights()
    trial = trial_of("", [tokens], [[3, 1]], 9, WeightsAttend(weights))
    found = run(trial, [BANK["cache-causal-corner"].changes])["output"]
    np.testing.assert_allclose(found[:, 3], tokens[:, 0] @ weights["value/kernel"][0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("identity", sorted(NEEDS_POSITIONS))
def test_positions(identity):
    """The candidate's output is its token plus its position, so that the positions themselves come out."""
    expected = {"restarts": [0, 1, 2, 0, 0], "ahead": [0, 1, 2, 4, 5], "behind": [0, 1, 2, 2, 3]}
    expected["counts-calls"] = [0, 1, 2, 1, 2]

    def full(tokens, places=None):
        return tokens + (np.arange(tokens.shape[1]) if places is None else places)[:, None]

    trial = trial_of("", [np.zeros((2, 5, 1))], [[3, 1, 1]], 9, SequenceAttend(full, ordered=True, positions=True))
    found = run(trial, [BANK[identity].changes])["output"][1, :, 0]
    assert found.tolist() == expected[identity.removeprefix("cache-position-")]


def test_each_is_seen_and_told_from_every_other():
    trials = list(draw_trials(np.random.default_rng(5), WeightsAttend(_weights()), _tokens))
    found = {"right": [run(trial)["output"] for trial in trials]}
    for one in OURS:
        if one.id in NEEDS_POSITIONS:
            with pytest.raises(ImpossibleError):
                run(trials[0], [one.changes])
        else:
            found[one.id] = [run(trial, [one.changes])["output"] for trial in trials]
    for one, other in itertools.combinations(found, 2):
        far = [tolerance.difference(a, b)[1] for a, b in zip(found[one], found[other], strict=True)]
        assert max(far) > tolerance.relative("float32"), (one, other)


@pytest.mark.slow
def test_the_bank_names_them_all():
    tally = singles(3, "cache")
    assert (tally.missed, tally.named) == ((), len(OURS) - len(NEEDS_POSITIONS))


def test_each_has_a_text_a_place_and_a_source():
    for one in OURS:
        assert one.chains() == ("cache",)
        assert one.says.startswith("You ")
        assert one.says.endswith(".")
        assert one.look
        assert one.source
