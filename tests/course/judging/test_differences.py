import numpy as np
import pytest

from kmha.course.judging.differences import kind_of_difference

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 5))
MASK = np.arange(9).reshape(3, 3) % 2 == 0


@pytest.mark.parametrize(
    ("received", "expected", "id"),
    [
        (None, A, "returned-nothing"),
        ((B, A), (A, B), "results-in-another-order"),
        (B, (A, B), "one-result-only"),
        ({"whole": (B, A)}, {"whole": (A, B)}, "results-in-another-order"),
        ((A, B), A, "too-many-results"),
        ((A, 3), (A, B, 3), "one-result-missing"),
        ((np.swapaxes(A, 0, 2), 3), (A, B, 3), None),
        ({"a": A}, {"a": A, "b": B}, "dict-keys"),
        (A[:, None], A, "axis-of-size-one"),
        (A[:, :1], A[:, 0], "axis-of-size-one"),
        (np.swapaxes(A, 0, 2), A, "axes-in-another-order"),
        (A.reshape(6, 4), A, "another-shape"),
        (A.sum(1), A, "axis-combined"),
        (MASK.all(0), MASK, "axis-combined"),
        (A[:, -1], A, "axis-one-place"),
        (np.stack([A] * 6, 1), A, "axis-repeated"),
        (np.repeat(A[:, :1], 5, 1), A[:, :1], "axis-repeated"),
        (np.repeat(MASK[:1, :1], 5, 1), MASK[:1, :1], "axis-repeated"),
        (A, A.sum(1), "axis-not-combined"),
        (A, A.max(-1), "axis-not-combined"),
        (A[:, :2], A, "places-at-the-end"),
        (np.pad(MASK, (0, 1)), MASK, "places-at-the-end"),
        (MASK * 1.0, MASK, "numbers-for-booleans"),
        (1 - MASK, MASK, "numbers-for-booleans-inverted"),
        (0.0 * MASK, MASK | True, None),  # nothing is False
        (np.where(MASK, 0, -np.inf), MASK, "addends-for-booleans"),
        (np.where(MASK, 0, -1e9), MASK, "addends-for-booleans"),
        (np.where(MASK, 0, 0.5), MASK, None),
        ((A, 1.0 * MASK), (A, MASK), "numbers-for-booleans"),
        (RNG.normal(size=(4, 3, 2)), A, "sizes-in-another-order"),
        ((A, -B), (A, B), "result-negative"),
        ({"a": [A, 2 * B]}, {"a": [A, B]}, "result-scaled"),
        (RNG.normal(size=(7, 7)), A, None),
        ("a", "b", None),
        ([[1], [1, 2]], A, None),
        (A, "b", None),
        (A, (A, 3, "a"), "one-result-only"),
        (A, A, None),
    ],
)
def test_kinds(received, expected, id):
    found = kind_of_difference([({}, received, expected)])
    assert (found and found[0]) == id


def test_the_part_is_said():
    assert "`result['a'][1]`" in kind_of_difference([({}, {"a": [A, 2 * B]}, {"a": [A, B]})])[1]


@pytest.mark.parametrize(
    "triples",
    [
        [({}, ["8"], 8), ({}, ["9"], 9)],
        [({}, {"a": ["8"]}, {"a": 8})],
        [({}, (A,), (A, A)), ({}, True, (A, A))],
        [({}, (A,), (A, A)), ({}, (A,), A)],
        [({}, MASK, MASK.astype(float))],
        [({}, [], ())],
        [({}, A[:0], A), ({}, None, A), ({}, "8", A)],
    ],
)
def test_results_of_unexpected_kinds_raise_no_error(triples):
    found = kind_of_difference(triples)
    assert found is None or len(found) == 2


def test_calls_that_are_right_do_not_count():
    assert kind_of_difference([({}, A, A), ({}, -A, A)])[0] == "result-negative"
