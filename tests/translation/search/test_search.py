"""The common behaviour of all methods; each method also has tests of its own."""

from types import SimpleNamespace

import keras
import pytest

from kmha.layers import Transformer
from kmha.translation.search import Beam, Greedy, Hypothesis, Sampling
from kmha.translation.tokenizer import END
from kmha.verify import tolerance

pytestmark = pytest.mark.sampled(4)

CLOSE = "float64" if keras.backend.backend() == "tensorflow" else "float32"  # as Keras normalizes there
METHODS = {
    "greedy": lambda model: Greedy(model),
    "beam": lambda model: Beam(model, beam_size=4, n_best=3, length_penalty=1.0),
    "beam of one": lambda model: Beam(model, beam_size=1),
    "sampling": lambda model: Sampling(model, seed=1, samples=2),
    "sampling, cut": lambda model: Sampling(model, seed=2, temperature=1.5, top_k=5, top_p=0.8),
}


@pytest.fixture(scope="module")
def made(searching):
    """One model, and a search of each method; each is compiled once for all the tests here."""
    model = searching.model()
    return SimpleNamespace(model=model, **{name: make(model) for name, make in METHODS.items()})


@pytest.fixture(params=METHODS)
def search(made, request):
    made.model.draw()
    return getattr(made, request.param)


def same(some, others, dtype=CLOSE):
    """Return whether two lists of hypotheses are the same up to rounding."""
    alike = [(one.ids, one.finished) for one in some] == [(one.ids, one.finished) for one in others]
    numbers = [[(one.log_probability, one.score) for one in hypotheses] for hypotheses in (some, others)]
    return alike and tolerance.is_close(*numbers, dtype)


def following_sum(following, source, ids):
    return sum(following(source, ids[:place])[token - END] for place, token in enumerate(ids))


def test_a_batch_equals_its_sentences_one_by_one(searching, search):
    for weights in searching.weights:
        search.model.draw(*weights)
        batch = search(searching.padded(searching.sources, longer=2))
        for source, hypotheses in zip(searching.sources, batch, strict=True):
            assert same(search([source])[0], hypotheses)
        turned = search(searching.padded(searching.sources[::-1]))[::-1]
        assert all(map(same, turned, batch))


def test_log_probabilities_are_those_of_the_whole_model(searching, search):
    """Also, nothing is padding or start, nothing follows the end, and nothing is longer than its limit."""
    following, ends = searching.uncached(search.model), []
    for weights in searching.weights:
        search.model.draw(*weights)
        found = search(searching.padded(searching.sources))
        for source, limit, hypotheses in zip(searching.sources, searching.limits, found, strict=True):
            for one in hypotheses:
                ids = [*one.ids, END] if one.finished else one.ids
                assert len(ids) == limit or (one.finished and len(ids) < limit)
                assert all(token > END for token in one.ids)
                assert tolerance.is_close([one.log_probability], [following_sum(following, source, ids)], CLOSE)
            ends += [one.finished for one in hypotheses]
            scores = [one.score for one in hypotheses if one.finished]
            assert scores == sorted(scores, reverse=True)
    assert len(set(ends)) == 2  # some are finished, and some are cut off


@pytest.mark.slow
def test_beams_of_a_whole_model_that_was_not_built():
    """Its weights do not exist before the search begins."""
    found = []
    for built in (True, False):
        keras.utils.set_random_seed(4)
        model = Transformer(1, 6, 3, 8, 13, 17, 16, 16)
        if built:
            model.build()
        found += Beam(model, beam_size=2)([[4, 5, 6, 2]])
    assert same(*found)


@pytest.mark.tensorflow
def test_every_length_and_batch_size_shares_one_compiled_function(searching, search):
    for sources in (searching.sources, searching.sources[:2], searching.sources[2:3], searching.sources[3:]):
        search(searching.padded(sources))
        search(searching.padded(sources, longer=3))
    assert search.compiled.experimental_get_tracing_count() == 1


def test_hypotheses_are_of_plain_types(searching, search):
    for hypotheses in search(searching.padded(searching.sources)):
        for one in hypotheses:
            assert isinstance(one, Hypothesis)
            assert type(one.ids) is tuple
            assert {type(token) for token in one.ids} <= {int}
            assert (type(one.log_probability), type(one.score), type(one.finished)) == (float, float, bool)


def test_new_weights_need_no_new_search(searching, search):
    before = search(searching.padded(searching.sources))
    search.model.draw(24)
    assert search(searching.padded(searching.sources)) != before
    search.model.draw()
    assert search(searching.padded(searching.sources)) == before


@pytest.mark.parametrize("options", [{"norm": "pre"}, {"attention": {"sliding_window": 2, "value_dim": 5}}])
def test_other_kinds_of_models(searching, options):
    model = searching.model(**options)
    following = searching.uncached(model)
    found = Beam(model, beam_size=3)(searching.padded(searching.sources))
    for source, [one] in zip(searching.sources, found, strict=True):
        ids = [*one.ids, END] if one.finished else one.ids
        assert tolerance.is_close([one.log_probability], [following_sum(following, source, ids)], CLOSE)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_other_dtypes(searching, made, dtype):
    """Rounding can decide between two hypotheses of almost equal probability, but seldom does."""
    model = searching.model(dtype=dtype)
    made.model.draw()
    for method in ("greedy", "beam", "sampling"):
        expected = getattr(made, method)(searching.padded(searching.sources))
        found = METHODS[method](model)(searching.padded(searching.sources))
        agree = [same(some[:1], others[:1], dtype) for some, others in zip(found, expected, strict=True)]
        assert sum(agree) >= (5 if dtype == "float32" else 3)
