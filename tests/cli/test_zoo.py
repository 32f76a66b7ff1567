import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from kmha.cli import main, zoo


def test_an_unknown_package():
    result = CliRunner().invoke(main, ["diagnose", "--zoo", "--package", "no-such-package"])
    assert result.exit_code == 2
    assert "no package 'no-such-package'" in result.output


def test_the_tables_and_the_list(capsys):
    about = {
        "half": "tuned",
        "entry": 0,
        "package": "p",
        "where": "p:Attention",
        "options": False,
        "seed": 0,
        "kept": True,
    }
    results = [
        {**about, "do": "right", "outcome": "refused", "ids": [], "says": "no query"},
        {**about, "do": "mutant", "id": "p/Attention: mix-key@3", "operator": "mix-key", "right_ids": ["mix-key"]}
        | {"outcome": "wrong id", "ids": ["logits-key-key"]},
    ]
    screen = Console(width=118, highlight=False)
    zoo._show(screen, results, ["tuned"])
    zoo._list(screen, results)
    shown = capsys.readouterr().out
    assert "1 of 1" in shown
    assert "100.0%" in shown
    assert "refused: p:Attention, seed 0: no query" in shown
    assert "wrong id: p/Attention: mix-key@3 (mix-key): logits-key-key" in shown
    assert "Mutants by operator" in shown
    zoo._show(screen, results[:1], ["tuned"])
    shown = capsys.readouterr().out
    assert "right entries accused" in shown
    assert "utants" not in shown


@pytest.mark.zoo
def test_a_package_is_measured(tmp_path, monkeypatch):
    pytest.importorskip("vit_pytorch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ["--package", "vit-pytorch", "--mutants", "5", "--seeds", "1", "--json", str(tmp_path / "zoo.json")]
    result = CliRunner().invoke(main, ["diagnose", "--zoo", *arguments])
    assert "right entries accused" in result.output
    found = json.loads((tmp_path / "zoo.json").read_text())
    assert sum(each["do"] == "mutant" for each in found) == 5
