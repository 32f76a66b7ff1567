import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kmha.cli import main
from kmha.verify.comparing.ecosystem.table import ROWS

ROOT = Path(__file__).parents[2]
PACKAGES = ("ai_edge_litert", "cloudpickle", "keras_hub", "onnxruntime", "openvino", "pydot", "tf2onnx")

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(1800)]  # four minutes on two idle cores


def _rows(text):
    """Return what each line of the table says: the feature and the two marks."""
    return re.findall(r"^│ (.+?) +│ ([✓✗–]) +│ ([✓✗≠–]) +│", text, re.MULTILINE)


def test_the_readme_quotes_the_table(tmp_path, monkeypatch):
    for package in PACKAGES:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["compare", "--ecosystem", "--json", "found.json"])
    assert result.exit_code == 0, result.output
    rows = _rows(result.output)
    assert len(rows) == len(json.loads((tmp_path / "found.json").read_text()))
    quoted = _rows((ROOT / "kmha/layers/README.md").read_text(encoding="utf-8"))
    assert _sure(quoted) == _sure([row for row in rows if row[1] != "–"])


def _sure(rows):
    """Leave out the built-in's mark where it damages the process's memory, so that it aborts on some days."""
    apart = {row.feature for row in ROWS if row.apart}
    return [(feature, "" if feature in apart else builtin, ours) for feature, builtin, ours in rows]
