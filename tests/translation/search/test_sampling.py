import random
from collections import Counter

import numpy as np
import pytest

from kmha.translation.search import Greedy, Sampling
from kmha.translation.search.sampling import uniform
from kmha.translation.tokenizer import END
from kmha.verify import tolerance

pytestmark = [pytest.mark.tensorflow, pytest.mark.sampled(4)]

SOURCE = [9, 6, 10, 4, END]
KINDS = {
    "all": {},
    "cold": {"temperature": 0.5},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.7},
    "hot, top_k and top_p": {"temperature": 1.7, "top_k": 5, "top_p": 0.8},
}


def shares(log_probabilities, temperature=1.0, top_k=None, top_p=None):
    """The probability of each token from END on, by sorting and adding up one by one."""
    weights = np.exp(log_probabilities / temperature)
    order = np.argsort(-weights, kind="stable")[:top_k]
    weights = {token: weights[token] / weights[order].sum() for token in order}
    if top_p is not None:
        reached, nucleus = 0.0, {}
        for token in order:
            if reached < top_p:
                nucleus[token] = weights[token]
            reached += weights[token]
        weights = nucleus
    total = sum(weights.values())
    return np.array([weights.get(token, 0.0) / total for token in range(len(log_probabilities))])


def chi_square_is_small(counts, expected):
    """Pearson's statistic is within four standard deviations of what it is for draws from `expected`."""
    degrees = len(counts) - 1
    return np.sum((counts - expected) ** 2 / expected) <= degrees + 4 * np.sqrt(2 * degrees)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_have_the_right_frequencies(searching, kind):
    """The first tokens, and the pairs of the first two; those that are cut off never come, and all others do."""
    model, count = searching.model(), 4000
    following = searching.uncached(model)
    [found] = Sampling(model, samples=count, seed=7, max_length=2, **KINDS[kind])([SOURCE])
    first = shares(following(SOURCE, []), **KINDS[kind])
    pairs = {(END,): first[0]}
    for token in np.flatnonzero(first[1:]) + END + 1:
        for second, share in enumerate(shares(following(SOURCE, [token]), **KINDS[kind]), END):
            pairs[token, second] = first[token - END] * share
    drawn = Counter((*one.ids, END) if one.finished else one.ids for one in found)
    assert sum(drawn.values()) == count
    assert all(pairs[ids] for ids in drawn)
    possible = [ids for ids in pairs if pairs[ids]]
    assert kind not in ("top_k", "top_p") or len({ids[0] for ids in possible}) < 7
    often = [ids for ids in possible if pairs[ids] * count >= 5]
    assert len(often) > 5
    assert all(drawn[ids] for ids in often)
    counts, expected = (np.array([x[ids] for ids in often], float) for x in (drawn, pairs))
    counts, expected = np.append(counts, count - counts.sum()), np.append(expected, 1 - expected.sum()) * count
    kept = expected > 1  # the rest together, if there is any
    assert chi_square_is_small(counts[kept], expected[kept])
    starts = np.bincount([one.ids[0] - END if one.ids else 0 for one in found], minlength=7)
    assert set(np.flatnonzero(starts)) == set(np.flatnonzero(first * count > 1e-9))
    assert chi_square_is_small(starts[first > 0], first[first > 0] * count)


@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_a_loop_that_calls_the_whole_model(searching, kind):
    """With the random numbers that `uniform` gives: a token is drawn where they fall in the sum of the shares."""
    model = searching.model()
    sampling = Sampling(model, samples=3, seed=11, **KINDS[kind])
    following, cut = searching.uncached(model), "top_k" in KINDS[kind] or "top_p" in KINDS[kind]
    found = sampling(searching.padded(searching.sources))
    for source, limit, hypotheses in zip(searching.sources, searching.limits, found, strict=True):
        expected = []
        for draws in uniform(np.array([source]), 3, limit, 11):
            ids, total = [], 0.0
            while len(ids) < limit and ids[-1:] != [END]:
                log_probabilities = following(source, ids)
                part = shares(log_probabilities, **KINDS[kind])
                order = np.argsort(-log_probabilities, kind="stable") if cut else np.arange(len(part))
                token = order[np.searchsorted(np.cumsum(part[order]), draws[len(ids)], side="right")]
                ids.append(int(token) + END)
                total += log_probabilities[token]
            expected.append((total, ids))
        expected.sort(key=lambda one: -one[0])
        assert [[*one.ids, *[END] * one.finished] for one in hypotheses] == [ids for _, ids in expected]
        numbers = [(one.log_probability, one.score) for one in hypotheses]
        assert tolerance.is_close(numbers, [(total, total) for total, _ in expected], "float64")


@pytest.mark.slow
def test_one_token_is_greedy(searching):
    model = searching.model()
    expected = Greedy(model)(searching.padded(searching.sources))
    for cut in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        found = Sampling(model, **cut)(searching.padded(searching.sources))
        assert [[one.ids for one in some] for some in found] == [[one.ids for one in others] for others in expected]


@pytest.mark.slow
def test_limits_above_the_vocabulary_change_nothing(searching):
    model = searching.model()
    expected, *found = (
        Sampling(model, seed=5, top_k=top_k, top_p=top_p)(searching.padded(searching.sources))
        for top_k, top_p in ((7, None), (99, None), (None, 1.0))
    )
    assert found == [expected, expected]


@pytest.mark.slow
def test_seeds(searching):
    model = searching.model()
    source = searching.padded(searching.sources)
    first, again, other = (Sampling(model, seed=seed)(source) for seed in (3, 3, 4))
    assert first == again != other
    fresh = Sampling(model)
    random.seed(1)
    some, others = fresh(source), fresh(source)
    random.seed(1)
    assert fresh(source) == some != others


def test_uniform():
    source = np.array([[5, 3, END, 0], [4, 10, 7, END], [5, 3, END, 0]])
    draws = uniform(source, 3, 8, seed=2)
    assert draws.shape == (9, 8)
    assert draws.dtype == "float64"
    assert draws.min() >= 0
    assert draws.max() < 1
    assert np.array_equal(draws[:3], draws[6:])  # the same sentence
    assert len(np.unique(draws[:6])) == 6 * 8
    assert np.array_equal(uniform(source[:1, :3], 2, 5, seed=2), draws[:2, :5])
    assert not np.isin(uniform(source, 3, 8, seed=3), draws).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "`temperature`.*at least 1e-06.*temperature=0.*use Greedy"),
        ({"temperature": float("inf")}, "`temperature`.*temperature=inf"),
        ({"top_k": 0}, "`top_k`.*positive integer.*top_k=0.*leave it out"),
        ({"top_p": 0.0}, "`top_p`.*above 0 and at most 1.*top_p=0.0.*0.9 is usual"),
        ({"top_p": 1.1}, "`top_p`.*top_p=1.1"),
        ({"samples": 0}, "`samples`.*positive integer.*samples=0"),
        ({"seed": 1.5}, "`seed`.*None or an integer.*seed=1.5"),
        ({"seed": -1}, "`seed`.*not negative.*seed=-1.*Leave it out"),
    ],
)
def test_invalid_arguments(searching, options, message):
    with pytest.raises(ValueError, match=f"Sampling received.*{message}"):
        Sampling(searching.any_model, **options)
