import importlib.util
import json
import os
import sys

import pytest
from click.testing import CliRunner

from kmha.cli import common, comparison, main

pytestmark = pytest.mark.tensorflow

WRONG = """
import os

import keras
import kmha

print("imported")


class NoScale(kmha.MultiHeadAttention):
    def _compute_attention(self, query, *args, **kwargs):
        return super()._compute_attention(query * self.key_dim**0.5, *args, **kwargs)


class Crashes(kmha.MultiHeadAttention):
    def _compute_attention(self, *args, **kwargs):
        os._exit(3)


class TakesNothing(keras.layers.Layer):
    pass


NOT_A_CLASS = 3
"""


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    """A folder with a module of a learner's, to run from."""
    monkeypatch.delitem(sys.modules, "learner", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("os.environ", dict(os.environ))
    (tmp_path / "learner.py").write_text(WRONG)
    (tmp_path / "broken.py").write_text("import keras\n\n1 / 0\n")


def _run(*arguments):
    return CliRunner().invoke(main, ["compare", *arguments])


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_ours_agrees(tmp_path):
    result = _run("--cases", "5", "--seed", "2", "--json", "report.json")
    assert result.exit_code == 0, result.output
    assert "All agree: 5 cases (seed 2), forward and gradients." in result.output
    assert "Different on purpose" in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["agrees"] is True
    assert report["cases"] == 5
    assert len(report["differences"]) == 14
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_a_learners_mistake_is_shown(tmp_path):
    result = _run("--layer", "learner:NoScale", "--cases", "3", "--json", "report.json")
    assert result.exit_code == 1
    assert "3 of 3 cases" in result.output
    assert "from learner import NoScale" in result.output
    assert "Different on purpose" not in result.output
    assert "code" in json.loads((tmp_path / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_several_processes_report_what_one_reports(tmp_path, capfd):
    for jobs in ("1", "2"):
        result = _run("--layer", "learner:NoScale", "--cases", "4", "--jobs", jobs, "--json", f"{jobs}.json")
        assert result.exit_code == 1, result.output
    one, two = ((tmp_path / f"{jobs}.json").read_text() for jobs in "12")
    assert one == two
    assert "imported" not in capfd.readouterr().out  # what the module prints does not mix with the report
    assert json.loads(one)["cases"] == 4


@pytest.mark.slow
def test_the_differences_on_purpose_do_not_depend_on_what_ran_before():
    import keras

    keras.layers.Dense(1)  # Keras counts layers for their names
    first = comparison._differences()
    assert comparison._differences() == first


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_a_process_that_crashes_is_told():
    result = _run("--layer", "learner:Crashes", "--cases", "2", "--jobs", "2")
    assert result.exit_code == 1
    assert "a process that compares has ended: the layer's code crashed" in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("_folder")
def test_a_layer_that_only_raises_has_no_table():
    result = _run("--layer", "learner:TakesNothing", "--cases", "2")
    assert result.exit_code == 1
    assert "tolerance" not in result.output
    output = " ".join(result.output.split())
    assert "The layer raised an error in 2 of 2 cases (seed 0). In the smallest one, " in output
    assert "it could not be built with the built-in's arguments: ValueError: Unrecognized keyword arguments" in output


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("nowhere:Layer", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("broken:Layer", "cannot import broken: ZeroDivisionError: division by zero"),
        ("learner:Noscale", "learner does not have Noscale. It has: NoScale"),
        ("learner:NOT_A_CLASS", "learner:NOT_A_CLASS is not a class. `kmha compare` needs a class."),
        ("learner", "expected MODULE:NAME"),
        ("learner.py:NoScale", "name the module without .py"),
    ],
)
def test_a_layer_that_cannot_be_loaded(layer, message):
    result = _run("--layer", layer)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    if layer == "broken:Layer":
        assert "broken.py, line 3" in " ".join(result.output.split())


@pytest.mark.usefixtures("_folder")
def test_a_backend_that_is_missing(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else found(name))
    result = _run("--backend", "jax")
    assert result.exit_code == 1
    assert "pip install 'kmha[jax]'" in result.output


@pytest.mark.usefixtures("_folder")
def test_ctrl_c_prints_what_was_done(monkeypatch):
    monkeypatch.setattr("rich.progress.Progress.update", _interrupt)
    result = _run("--cases", "3")
    assert result.exit_code == common.INTERRUPTED
    assert "1 cases (seed 0), forward and gradients, then interrupted" in result.output


@pytest.mark.usefixtures("_folder")
def test_ctrl_c_before_the_first_case_claims_nothing(monkeypatch):
    monkeypatch.setattr("kmha.verify.comparing.comparison.measured", _interrupt)
    result = _run("--cases", "3")
    assert result.exit_code == common.INTERRUPTED
    assert result.output.endswith("Nothing was compared: the first case was interrupted.\n")


def _interrupt(*args, **kwargs):
    raise KeyboardInterrupt
