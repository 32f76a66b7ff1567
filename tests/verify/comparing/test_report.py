import json

import pytest

from kmha.verify.comparing.cases import Case
from kmha.verify.comparing.report import FEATURES, Measurement, Report, features


def _report(*relatives, case=None):
    report = Report("package.module.Layer", "tensorflow", 0, "float64")
    case = case or Case()
    report.add(case, [Measurement(case, "eager", "reference", "output", 2 * r, r) for r in relatives])
    return report


def test_rows_keep_the_worst():
    report = _report(1e-12, 3e-11, 2e-13)
    (row,) = report.table()
    assert row.feature == "plain"
    assert row.cases == 1
    assert row.relative == {"reference": 3e-11}
    assert row.absolute == {"reference": 6e-11}
    assert row.agrees
    assert report.agrees


def test_one_failure_is_enough():
    report = _report(1e-12, 2e-10)
    assert not report.agrees
    assert not report.table()[0].agrees
    assert [found.relative for found in report.failures] == [2e-10]


def test_other_dtypes_have_a_row_of_their_own():
    report = _report(1e-7, case=Case(dtype="float32", use_gate=True))
    assert [row.feature for row in report.table()] == ["float32"]
    assert report.agrees


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (Case(), ["plain"]),
        (Case(widths=(6, 8, 9), use_gate=True), ["separate key", "gate"]),
        (Case(paddings=("+value_mask",)), ["padding masks on tensors"]),
        (Case(mask="TS", empty=True), ["attention mask", "rows attending to nothing"]),
        (Case(dropout=0.3), ["plain"]),
        (Case(dropout=0.3, training=True), ["dropout in training"]),
        (Case(between=4), ["attention_axes, higher rank"]),
    ],
)
def test_features(case, expected):
    assert features(case, {"eager"}) == expected
    assert set(expected) <= set(FEATURES)


def test_json_has_no_infinities():
    report = _report(float("inf"))
    report.smallest, report.smallest_failures = Case(heads=1), report.failures
    text = json.dumps(report.to_dict(), allow_nan=False)
    again = json.loads(text)
    assert again["agrees"] is False
    assert again["failures"][0]["relative"] is None
    assert "from package.module import Layer" in again["code"]
    assert "Case(heads=1)" in again["code"]
