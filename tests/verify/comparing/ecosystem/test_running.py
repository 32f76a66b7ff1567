import pytest

from kmha.verify.comparing.ecosystem import running
from kmha.verify.comparing.ecosystem.row import Row
from kmha.verify.comparing.ecosystem.running import ABORTED, Outcome, try_all
from kmha.verify.comparing.ecosystem.table import ROWS

pytestmark = pytest.mark.tensorflow

ROW = Row("a feature", lambda layer, folder: [])
ON_PURPOSE = Row("another", lambda layer, folder: [], differs="it is so on purpose")
ABORTING = """
import json, os, sys

for task in sys.argv[1:]:
    print(json.dumps({"begins": task}), flush=True)
    if task == "0:builtin":
        os.abort()
    print(json.dumps({"task": task, "said": "", "arrays": [1.0]}), flush=True)
"""


@pytest.mark.parametrize(
    ("outcome", "marks", "note", "holds"),
    [
        (Outcome(ROW, difference=2e-7), ("✓", "✓"), "2e-07", True),
        (Outcome(ROW, difference=0.3), ("✓", "≠"), "3e-01", False),
        (Outcome(ROW, ours="E: no"), ("✓", "✗"), "kmha: E: no", False),
        (Outcome(ROW, builtin="E: no"), ("✗", "✓"), "built-in: E: no", True),
        (Outcome(ROW, builtin="E: no", ours="E: no"), ("✗", "✗"), "E: no", True),
        (Outcome(ON_PURPOSE, difference=0.3), ("✓", "≠"), "it is so on purpose", True),
        (Outcome(ON_PURPOSE, builtin="E: no"), ("✗", "✓"), "it is so on purpose", True),
        (Outcome(ROW, skipped="on jax"), ("–", "–"), "on jax", True),
    ],
)
def test_what_a_row_says(outcome, marks, note, holds):
    assert (outcome.marks, outcome.note, outcome.holds) == (marks, note, holds)


def test_features_have_one_row_on_each_backend():
    places = [(row.feature, backend) for row in ROWS for backend in row.backends]
    assert len(places) == len(set(places))
    assert len(ROWS) > 60


def test_a_row_that_aborts_its_process_does_not_stop_the_others(tmp_path, monkeypatch):
    (tmp_path / "aborting.py").write_text(ABORTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(running, "WORKER", "aborting")
    found = dict(running._results("tensorflow", ["0:builtin", "0:ours", "1:ours"]))
    assert {task: result["said"] for task, result in found.items()} == {
        "0:builtin": ABORTED,
        "0:ours": "",
        "1:ours": "",
    }


def test_a_process_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(running, "WORKER", "kmha.nothing")
    with pytest.raises(RuntimeError, match="did not start"):
        list(running._results("tensorflow", ["0:ours"]))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(running, "find_spec", lambda package: None)
    [outcome] = try_all("tensorflow", ["export: LiteRT"])
    assert outcome.skipped == "needs pip install 'kmha[export]'"


@pytest.mark.slow
def test_rows_are_tried_with_both_layers():
    chosen = ["inner outputs as features", "torch.compile", "summary, count_params"]
    outcomes = {outcome.row.feature: outcome for outcome in try_all("tensorflow", chosen)}
    assert set(outcomes) == set(chosen)
    assert outcomes["torch.compile"].skipped == "on torch"
    for feature in (chosen[0], chosen[2]):
        assert outcomes[feature].marks == ("✓", "✓")
        assert outcomes[feature].difference < 1e-6
