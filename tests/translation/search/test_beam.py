import itertools

import numpy as np
import pytest

from kmha.translation.search import Beam, Greedy
from kmha.translation.tokenizer import END
from kmha.verify import tolerance

pytestmark = [pytest.mark.tensorflow, pytest.mark.sampled(4)]


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def loops(following, source, limit, size, alpha):
    """Beam search as the docstring describes it, to the limit: (score, log probability, ids, finished), best first."""
    beams, pool = [(0.0, [])], []
    for length in range(1, limit + 1):
        continued = []
        for total, ids in beams:
            for token, log_probability in enumerate(following(source, ids), END):
                continued.append((total + log_probability, [*ids, token]))
        continued.sort(key=lambda one: -one[0])
        beams = []
        for place, (total, ids) in enumerate(continued[: 2 * size]):
            if ids[-1] != END:
                beams.append((total, ids))
            elif place < size:
                pool.append((total / penalty(length, alpha), total, ids[:-1], True))
        beams = beams[:size]
        pool = sorted(pool, key=lambda one: -one[0])[:size]
    return [*pool, *((total / penalty(limit, alpha), total, ids, False) for total, ids in beams)][:size]


def everything(following, source, limit, vocabulary, alpha):
    """All possible hypotheses in the same form, the finished ones first, best first."""
    found = []
    for length in range(1, limit + 1):
        for ids in itertools.product(range(END, vocabulary), repeat=length):
            ended = ids[-1] == END
            if END not in ids[:-1] and (ended or length == limit):
                total = sum(following(source, ids[:place])[token - END] for place, token in enumerate(ids))
                found.append((total / penalty(length, alpha), total, list(ids[: length - ended]), ended))
    return sorted(found, key=lambda one: (not one[3], -one[0]))


def agrees(found, expected):
    assert [(list(one.ids), one.finished) for one in found] == [(ids, finished) for _, _, ids, finished in expected]
    numbers = [(one.score, one.log_probability) for one in found]
    assert tolerance.is_close(numbers, [one[:2] for one in expected], "float64")


@pytest.mark.parametrize(("size", "alpha"), [(2, 0.0), (3, 0.6), (4, 1.0), (5, 2.5)])
def test_beam_search_equals_plain_loops_over_the_whole_model(searching, size, alpha):
    """The loops continue to the limit, so this also tests the bound at which a sentence stops."""
    model = searching.model()
    beam, kinds = Beam(model, beam_size=size, length_penalty=alpha, n_best=size), set()
    following = searching.uncached(model)
    for weights in searching.weights:
        model.draw(*weights)
        found = beam(searching.padded(searching.sources))
        for source, limit, hypotheses in zip(searching.sources, searching.limits, found, strict=True):
            expected = loops(following, source, limit, size, alpha)
            agrees(hypotheses, expected)
            kinds.add(sum(one.finished for one in hypotheses))
    assert len(kinds) >= 2  # of full pools, and of pools that the limit leaves open


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.6, 3.0])
def test_a_beam_that_is_wide_enough_finds_everything(searching, alpha):
    """One of the 4 tokens that can be emitted is the end, so 9 beginnings of 2 tokens have 36 continuations."""
    model = searching.model(vocabulary=6)
    beam = Beam(model, beam_size=36, length_penalty=alpha, n_best=36, max_length=3)
    narrow = Beam(model, beam_size=36, length_penalty=alpha, max_length=3)
    following = searching.uncached(model)
    found = beam(searching.padded(searching.sources))
    for source, hypotheses in zip(searching.sources, found, strict=True):
        expected = everything(following, source, 3, 6, alpha)
        assert len(expected) == 1 + 3 + 9 + 27
        agrees(hypotheses, expected[:36])
    assert [hypotheses[:1] for hypotheses in found] == narrow(searching.padded(searching.sources))


def test_the_probabilities_of_everything_sum_to_one(searching):
    model = searching.model(vocabulary=6)
    for hypotheses in Beam(model, beam_size=40, n_best=40, max_length=3)(searching.padded(searching.sources)):
        assert len(hypotheses) == 40
        assert tolerance.is_close([sum(np.exp(one.log_probability) for one in hypotheses)], [1.0], "float64")


@pytest.mark.parametrize("alpha", [0.0, 0.6, 5.0])
def test_a_beam_of_one_is_greedy(searching, alpha):
    model = searching.model()
    beam, greedy = Beam(model, beam_size=1, length_penalty=alpha), Greedy(model)
    for weights in searching.weights:
        model.draw(*weights)
        some, others = (search(searching.padded(searching.sources)) for search in (beam, greedy))
        for [one], [other] in zip(some, others, strict=True):
            assert (one.ids, one.finished) == (other.ids, other.finished)
            score = other.log_probability / penalty(len(one.ids) + one.finished, alpha)
            assert tolerance.is_close([one.log_probability, one.score], [other.log_probability, score], "float64")


def test_fewer_hypotheses_than_n_best(searching):
    model = searching.model(vocabulary=5)
    found = Beam(model, beam_size=7, n_best=7, max_length=1)([[4, 7, END]])
    assert sorted(one.ids for one in found[0]) == [(), (3,), (4,)]
    assert [one.finished for one in found[0]] == [True, False, False]


def test_it_stops_when_nothing_can_enter_the_pool(searching):
    model = searching.model()
    beam = Beam(model, beam_size=3, n_best=3)
    limits = np.array(searching.limits)
    model.draw(52, 8.0)  # the end is far more probable than all else
    living, *_ = beam.compiled(searching.padded(searching.sources), limits)
    assert len(living) < 6
    model.draw(52, -1e3)  # without an end
    living, *_ = beam.compiled(searching.padded(searching.sources), limits)
    assert len(living) == 13


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "`beam_size`.*positive integer.*beam_size=0.*5 is usual"),
        ({"beam_size": 2.0}, "`beam_size`.*positive integer.*beam_size=2.0"),
        ({"n_best": True}, "`n_best`.*positive integer.*n_best=True"),
        ({"n_best": 6}, "n_best must be at most beam_size.*n_best=6, beam_size=5.*Raise beam_size"),
        ({"length_penalty": -0.1}, "`length_penalty`.*at least 0 and at most 10.*length_penalty=-0.1.*0.6 is usual"),
        ({"length_penalty": 10.5}, "`length_penalty`.*length_penalty=10.5"),
        ({"length_penalty": float("nan")}, "`length_penalty`.*length_penalty=nan"),
        ({"length_penalty": "1"}, "`length_penalty`.*length_penalty='1'"),
    ],
)
def test_invalid_arguments(searching, options, message):
    with pytest.raises(ValueError, match=f"Beam.*{message}"):
        Beam(searching.any_model, **options)
