import numpy as np
import pytest

from kmha.course.judging.sealed import are_sealed, is_words, opened, seal, seal_words
from kmha.sandbox.results import CallResult

RNG = np.random.default_rng(3)
RIGHT = [CallResult((RNG.normal(size=(4, 5)), {"scores": RNG.normal(size=(2, 3, 7))}, 3)), CallResult(None)]
TOLERANCES = [1e-5, 1e-5]


def _changed(change):
    array, scores, number = RIGHT[0].value
    return [CallResult((change(array), {"scores": change(scores["scores"])}, number)), RIGHT[1]]


def _book(*changes):
    book = {}
    for number, change in enumerate(changes):
        seal(book, {"id": str(number)}, _changed(change), RIGHT, TOLERANCES)
    return book


def _named(book, change):
    found = opened(book, _changed(change), RIGHT, TOLERANCES)
    return found and found["id"]


def test_each_mistake_is_named_and_other_results_are_not():
    changes = [lambda x: 3 * x, lambda x: x + 0.01, lambda x: x[::-1], lambda x: x.T, lambda x: x * np.nan, np.sign]
    book = _book(*changes)
    assert [_named(book, change) for change in changes] == list("012345")
    for other in (lambda x: x, lambda x: 3.01 * x, lambda x: -x, lambda x: x[:1], lambda x: None, lambda x: "text"):
        assert _named(book, other) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_does_not_matter(dtype):
    book = _book(lambda x: 3 * x)
    noise = np.random.default_rng(5)
    for _ in range(300):
        assert _named(book, lambda x: (3 * x * (1 + 1e-7 * noise.normal(size=x.shape))).astype(dtype)) == "0"


def test_round_numbers_are_not_at_the_edge_of_an_interval():
    expected = [CallResult(np.array([1.0, 0.5, 0.25, 0.125]))]
    for wrong in (np.array([0.125, 0.5, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0]), np.arange(4.0)):
        book = {}
        seal(book, {"id": "x"}, [CallResult(wrong)], expected, [1e-5])
        for sign in (-1, 1):
            assert opened(book, [CallResult(wrong * (1 + sign * 1e-7) + sign * 1e-8)], expected, [1e-5])


def test_results_of_the_solution_are_no_mistake_and_the_first_of_two_counts():
    assert _book(lambda x: x, lambda x: x + 1e-9) == {}
    assert _named(_book(lambda x: 2 * x, lambda x: x + x), lambda x: 2 * x) == "0"


def test_nothing_of_a_mistake_can_be_read():
    book = {}
    seal(book, {"id": "an-id", "says": "the factor is 3"}, _changed(lambda x: 3 * x), RIGHT, TOLERANCES)
    ((name, text),) = book.items()
    assert b"factor" not in bytes.fromhex(text)
    assert "an-id" not in name


@pytest.mark.parametrize(
    "value", [np.array(np.inf), np.array(["a"]), np.zeros((0, 3)), np.array([1e308, -np.inf]), 1j, [[]], {}]
)
def test_any_result(value):
    assert opened({}, [CallResult(value)], [CallResult(value)], [0.5]) is None
    with np.errstate(all="ignore"):
        seal({}, {"id": ""}, [CallResult(value)], [CallResult(np.ones(3))], [1e-5])


@pytest.mark.parametrize(
    "words", ["scale-missing", ["query", ""], {"N": {"query": "positions"}, "H": ("heads", "size")}]
)
def test_sealed_words(words):
    found = seal_words(words)
    assert "scale" not in found
    assert found != seal_words(words)
    assert are_sealed(words, found)
    for wrong in ("", "scale-all-heads", 3, None, [], {}, ["query"], {"N": "positions"}, "x" * 10**6, np.ones(3)):
        assert not are_sealed(wrong, found)


@pytest.mark.parametrize("other", ["", [], {}, 3, None, ["a", 1], {"a": np.ones(2)}])
def test_what_is_no_words(other):
    assert is_words(other) is (other == "")
