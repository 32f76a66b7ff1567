import json

import pytest

from kmha.bench.cases import BUILTIN, OURS, AttentionRow
from kmha.bench.report import Result


def test_ratios_are_of_medians_and_quartiles_of_rounds():
    rounds = [
        {BUILTIN: [2.0, 4.0], OURS: [3.0]},
        {OURS: [1.0, 1.0], BUILTIN: [4.0]},
        {BUILTIN: [8.0], OURS: [2.0, 90.0]},
    ]
    result = Result(AttentionRow(2, 7), rounds=rounds)
    assert result.milliseconds(OURS) == [3.0, 1.0, 1.0, 2.0, 90.0]
    assert result.median(OURS) == 2.0
    assert result.median(BUILTIN) == 4.0
    assert result.ratio(OURS) == 0.5
    assert result.quartiles(OURS) == pytest.approx(((1 / 4 + 1) / 2, (1 + 46 / 8) / 2))


def test_the_share_of_the_arithmetic_limit():
    result = Result(AttentionRow(2, 7), flops=3_000_000, rounds=[{OURS: [6.0]}], gemm=[9e9, 1e9, 0.5e9])
    assert result.share(OURS) == pytest.approx(0.5)
    assert result.share(BUILTIN) is None
    result.gemm = []
    assert result.share(OURS) is None


def test_what_was_not_measured_has_no_numbers():
    result = Result(AttentionRow(2, 7), rounds=[{OURS: [6.0]}])
    assert result.ratio(OURS) is result.quartiles(OURS) is result.median(BUILTIN) is None
    assert Result(AttentionRow(2, 7), rounds=[{OURS: [6.0], BUILTIN: [3.0]}]).quartiles(OURS) == (2.0, 2.0)


def test_notes_are_gathered(report):
    for result in report.results[1:]:
        result.notes["torch"] = "not here"
    assert report.notes == {("torch", "not here"): [result.row for result in report.results[1:]]}
    assert report.contenders == [BUILTIN, OURS, "addons"]


def test_json_has_everything(report):
    report.interrupted = True
    report.results[0].notes["torch"] = "not here"
    again = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert again["command"] == "kmha bench --plot series.png"
    assert again["machine"]["versions"] == {"tensorflow": "2.21.0", "kmha": "0.1.0"}
    assert again["gemm_flops_per_second"] == 1e9
    assert again["rows"][0]["gemm_flops_per_second"] == [0.5e9, 1e9, 2e9]
    assert again["interrupted"] is True
    row = again["rows"][0]
    assert (row["batch"], row["length"], row["kind"], row["step"], row["mode"]) == (1, 64, "causal", False, "graph")
    assert (row["path"], row["flops"]) == ("blocked", 64_000_000)
    assert row["contenders"][OURS] == {
        "median_ms": 80.0,
        "min_ms": 64.0,
        "max_ms": 96.0,
        "ratio": 0.625,
        "ratio_quartiles": [0.5625, 0.6875],
        "share_of_gemm_rate": 0.8,
        "peak_bytes": 64_000_000,
        "note": None,
        "rounds_ms": [[64.0], [96.0]],
    }
    assert row["contenders"]["torch"]["note"] == "not here"
    assert row["contenders"]["torch"]["median_ms"] is None
    assert row["contenders"]["torch"]["rounds_ms"] == []
