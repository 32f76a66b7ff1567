import json
import sys

import pytest
from click.testing import CliRunner

from kmha.cli import diagnosis, main

CODE = """
import numpy as np

def right(query, key, value, mask=None):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    logits = logits if mask is None else np.where(mask, logits, -1e9)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ value

def unscaled(query, key, value, mask=None):
    return right(query * np.sqrt(query.shape[-1]), key, value, mask)

def strange(query, key, value):
    return right(query, key, value) ** 3

def added(query, key, value, mask=None):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    logits = logits if mask is None else logits + mask
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ value

def failing(query, key, value):
    raise KeyError("weights")

def coloured(query, key, value, colour):
    return right(query, key, value)

number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "learners_attention.py").write_text(CODE)
    (tmp_path / "broken_attention.py").write_text("import nothing_of_this_name\n")
    monkeypatch.delitem(sys.modules, "learners_attention", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _run(*arguments):
    return CliRunner().invoke(main, ["diagnose", *arguments])


def test_right():
    result = _run("learners_attention:right")
    assert result.exit_code == 0, result.output
    assert "right is right" in result.output


def test_what_a_mask_means_can_be_said():
    assert _run("learners_attention:added", "--mask", "adds").exit_code == 0
    wrong = _run("learners_attention:right", "--mask", "hides")
    assert wrong.exit_code == 1
    assert "mask-inverted" in wrong.output


def test_wrong_is_named_shown_and_written(folder):
    result = _run("learners_attention:unscaled", "--json", "found.json")
    assert result.exit_code == 1
    for part in ("is wrong", "scale-missing", "Look at", "Known from", "cross-attention", "# right:", "█"):
        assert part in result.output, part
    found = json.loads((folder / "found.json").read_text())
    assert found["mistakes"][0]["id"] == "scale-missing"
    assert found["code"] in result.output.replace(" \n", "\n") or "from learners_attention import" in found["code"]


def test_what_is_unknown_has_a_clue():
    result = _run("learners_attention:strange")
    assert result.exit_code == 1
    assert "not in the bank" in result.output
    assert "The first step that departs" in result.output


def test_what_raises():
    result = _run("learners_attention:failing")
    assert result.exit_code == 1
    assert "cannot be run" in result.output
    assert "KeyError" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("learners_attention:rihgt",), 1, "has no rihgt. It has: right"),
        (("learners_attention:coloured",), 1, "--set colour=VALUE"),
        (("learners_attention:number",), 1, "expected a layer or a function. Received: 3"),
        (("learners_attention",), 2, "expected MODULE:NAME"),
        (("learners_attention.py:right",), 2, "without .py"),
        (("no_such_module:right",), 1, "cannot import no_such_module"),
        (("broken_attention:right",), 1, "nothing_of_this_name"),
        (("learners_attention:right", "--set", "colour"), 2, "expected NAME=VALUE"),
        (("learners_attention:right", "--mask", "shows"), 2, "attends"),
        (("learners_attention:right", "--json", "no/such/folder.json"), 2, "does not exist"),
    ],
)
def test_errors_teach(arguments, status, message):
    result = _run(*arguments)
    assert result.exit_code == status, result.output
    assert message in " ".join(result.output.split()), result.output
    assert "Traceback" not in result.output


def test_settings_are_json_or_text():
    given = ("a=4", "b=true", "c=[1, 2]", "d=None", "e=gelu")
    assert diagnosis.parsed(given) == {"a": 4, "b": True, "c": [1, 2], "d": None, "e": "gelu"}
