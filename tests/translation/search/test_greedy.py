import numpy as np
import pytest

from kmha.translation.search import Greedy
from kmha.translation.tokenizer import END, PAD, START
from kmha.verify import tolerance

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def greedy(searching):
    return Greedy(searching.model())


def anew(following, source, limit):
    """The ids and their log probability, by calling the whole model for every token."""
    ids, total = [], 0.0
    while len(ids) < limit and ids[-1:] != [END]:
        log_probabilities = following(source, ids)
        ids.append(int(np.argmax(log_probabilities)) + END)
        total += log_probabilities.max()
    return ids, total


def test_it_equals_a_loop_that_calls_the_whole_model(searching, greedy):
    following, lengths = searching.uncached(greedy.model), set()
    for weights in searching.weights:
        greedy.model.draw(*weights)
        found = greedy(searching.padded(searching.sources))
        for source, limit, [one] in zip(searching.sources, searching.limits, found, strict=True):
            ids, total = anew(following, source, limit)
            assert one.finished == (ids[-1] == END)
            assert list(one.ids) == ids[: len(ids) - one.finished]
            assert tolerance.is_close([one.log_probability, one.score], [total, total], "float64")
            lengths.add(len(ids))
    assert len(lengths) > 4


def test_it_never_emits_padding_or_start_however_probable(searching, greedy):
    greedy.model.draw()
    expected = greedy(searching.padded(searching.sources))
    greedy.model.final_layer.bias.assign_add(np.eye(9)[[PAD, START]].sum(axis=0) * 1e3)
    assert greedy(searching.padded(searching.sources)) == expected


@pytest.mark.slow
def test_the_limit_is_a_number_or_a_function_and_counts_the_end(searching, greedy):
    greedy.model.draw(52, -1e3)  # without an end
    given = {1: [1] * 5, 99: [13] * 5, (lambda length: 2 * length): [6, 13, 2, 10, 12]}
    for max_length, expected in given.items():
        found = Greedy(greedy.model, max_length=max_length)(searching.padded(searching.sources))
        assert [(len(one.ids), one.finished) for [one] in found] == [(length, False) for length in expected]
    greedy.model.draw(52, 1e3)  # at once
    found = Greedy(greedy.model, max_length=1)(searching.padded(searching.sources))
    assert [(one.ids, one.finished) for [one] in found] == [((), True)] * 5


def test_it_stops_when_all_have_ended(searching, greedy):
    greedy.model.draw(52, 1e3)
    tokens, _ = greedy.compiled(searching.padded(searching.sources), np.array([13, 13, 11, 13, 13]))
    assert tokens.numpy().tolist() == [[END] * 5]
