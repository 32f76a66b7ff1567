import json

from click.testing import CliRunner

from kmha.cli import main
from kmha.verify.bank import self_test


def _run(*arguments):
    return CliRunner().invoke(main, ["diagnose", "--bank", *arguments])


def test_the_table_and_the_file(tmp_path):
    result = _run("--configurations", "0", "--pairs", "0", "--rights", "9", "--json", str(tmp_path / "bank.json"))
    assert result.exit_code == 0, result.output
    assert "none: right layers" in result.output
    assert "100.00%" in result.output
    assert json.loads((tmp_path / "bank.json").read_text())["none: right layers"]["named"] == 9


def test_too_few_named_is_a_failure(monkeypatch):
    found = self_test.Tally(9, 10, ("scale-missing (scale-keys)",))
    monkeypatch.setattr(self_test, "singles", lambda *_: found)
    result = _run("--configurations", "1", "--pairs", "0", "--rights", "0")
    assert result.exit_code == 1
    assert "one mistake, attention: scale-missing (scale-keys)" in result.output
    assert "90.00%" in result.output


def test_the_two_forms_of_the_command():
    result = CliRunner().invoke(main, ["diagnose"])
    assert result.exit_code == 2
    assert "MODULE:NAME" in result.output
