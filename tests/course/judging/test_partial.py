import numpy as np
import pytest

from kmha.course.judging.partial import evidence
from kmha.sandbox.sandbox import CallResult

RNG = np.random.default_rng(5)
A, B, C, D = RNG.normal(size=(4, 2, 3))
FAILS = CallResult(error={"kind": "ValueError", "says": "no"})


def _found(mine, wrong, right):
    results = [each if isinstance(each, CallResult) else CallResult(each) for each in (mine, wrong, right)]
    return evidence([0], *([each] for each in results), [1e-6]) > 0


@pytest.mark.parametrize(
    ("mine", "wrong", "right", "found"),
    [
        ((C, D), (C, B), (A, B), True),  # another mistake in the other part
        ((A, D), (C, B), (A, B), False),
        ((C, C), (C, D), (A, B), False),  # agrees in one of two wrong parts only
        ({"a": C, "b": 1}, {"a": C, "b": 2}, {"a": A, "b": 2}, True),
        ((True, D), (True, B), (False, B), False),  # a single True proves nothing
        ((np.zeros(3), D), (np.zeros(3), B), (A, B), False),
        ((C[0], D), (C[0], B), (A, B), True),  # another shape
        (339, 339, 678, False),  # 8 bits: one number of hundreds is too little, and two suffice
        ({"a": 339, "b": 461}, {"a": 339, "b": 461}, {"a": 678, "b": 922}, True),
        ({"a": 7, "b": 12, "c": 3}, {"a": 7, "b": 12, "c": 3}, {"a": 2, "b": 3, "c": 7}, False),
        ((1e9, D), (1e9, B), (0.5, B), False),  # many mistakes fill in the same number
        (FAILS, FAILS, A, False),
        (FAILS, C, A, False),
        ((A, B), (A, B), (A, B), False),
    ],
)
def test_evidence(mine, wrong, right, found):
    assert _found(mine, wrong, right) == found


def test_small_arrays_are_evidence_together():
    right, wrong = np.zeros((6, 6), bool), np.eye(6, dtype=bool)
    assert _found((wrong, D), (wrong, B), (right, B))
