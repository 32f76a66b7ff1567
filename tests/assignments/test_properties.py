"""Answers that have a property that is checked, but have not done the work, get no points for the property."""

import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge

OLD_BIASES = """
def fold_biases(query_bias, key_bias, value_bias, output_kernel, output_bias):
    return query_bias, key_bias, value_bias, output_bias
"""
SAME_ROWS = """
import numpy as np

def key_bias(query, key, query_kernel, query_bias, key_kernel, key_bias):
    shape = len(query), len(key_kernel), query.shape[1], key.shape[1]
    row = np.arange(1.0, shape[-1] + 1)
    scores = np.broadcast_to(row{}, shape)
    return np.zeros(shape[:-1]), scores, scores
"""


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("a3.fold_biases", OLD_BIASES, "none has been moved or dropped"),
        ("a3.key_bias", SAME_ROWS.format(""), "these are no scores"),
        ("a3.key_bias", SAME_ROWS.format(" / row.sum()"), "these are no scores"),
    ],
)
def test_a_property_without_the_work(name, answer, message, sandbox):
    (item,) = content.find(name, content.installed())
    grade = judge(item, answer, sandbox, seed=3, explained=False)
    assert grade.points == 0
    (outcome,) = (outcome for outcome in grade.outcomes if outcome.check.layer == "invariants")
    assert message in outcome.problem
