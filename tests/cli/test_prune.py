import csv
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from kmha.cli import main
from kmha.translation import corpora, folder

SOURCES = ["two dogs run on the sand .", "a cat sleeps .", "the old tree", "three birds sing", "a bird sings"]
TARGETS = ["zwei Hunde laufen am Strand .", "eine Katze schläft .", "der alte Baum", "drei Vögel singen", "ein Vogel"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr("sys.argv", ["/somewhere/kmha", "prune", "model"])
    (tmp_path / "mine.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "mine.de").write_text("".join(f"{line}\n" for line in TARGETS))


FILES = "--source", "mine.en", "--target", "mine.de"


def _run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.slow
def test_files(model_folder, tmp_path):
    before = {path.name: path.read_bytes() for path in model_folder.iterdir() if path.is_file()}
    outputs = "--out", "small", "--csv", "steps.csv", "--json", "steps.json"
    result = _run("prune", model_folder, *FILES, "--steps", 2, *outputs)
    assert result.exit_code == 0, result.output
    assert {path.name: path.read_bytes() for path in model_folder.iterdir() if path.is_file()} == before
    assert "heads removed by gradient, 5 validation sentences, greedy search" in result.stdout
    assert "removed: layer, and its head from 0" in result.stdout
    with open(tmp_path / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["heads"]) for row in rows] == [18, 14, 9]  # 6 layers with 3 heads
    report = json.loads((tmp_path / "steps.json").read_text())
    assert (report["rank"], report["data"], report["sentences"]) == ("gradient", "mine.en", 5)
    assert (report["command"], report["parameters"]) == ("kmha prune model", report["steps"][0]["parameters"])
    for row, step in zip(rows, report["steps"], strict=True):
        assert float(row["bleu"]) == step["bleu"]
        assert f"{step['loss']:.4f}" in result.stdout
        assert f"{step['parameters']:,}" in result.stdout
        assert row["removed"] == " ".join(f"{name}:{head}" for name, head in step["removed"])
    model, _, config = folder.load(tmp_path / "small")
    assert sum(layer.num_heads for layer in model.attentions().values()) == 9
    assert model.count_params() == report["steps"][-1]["parameters"]
    assert config.heads == model.heads
    for command in (["translate", "small", "the old tree"], ["evaluate", "small", *FILES]):
        result = _run(*command)
        assert result.exit_code == 0, result.output
    assert f"{model.count_params():,} parameters" in result.stdout


@pytest.mark.slow
def test_ablation_without_files(model_folder, tmp_path):
    result = _run("prune", model_folder, *FILES, "--keep", 0.95, "--rank", "ablation")
    assert result.exit_code == 0, result.output
    assert "heads removed by ablation" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [int(line[0]) for line in lines if line and line[0].isdecimal()] == [18, 17]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.de", "mine.en"]


@pytest.mark.slow
def test_dates_see_the_validation_set_only(another_task, monkeypatch):
    class Secret(corpora.Pairs):
        @property
        def source(self):
            raise AssertionError("the test set was read")

    pairs = corpora.Pairs(SOURCES, TARGETS, "validation")
    secret = object.__new__(Secret)
    corpus = corpora.Corpus(secret, pairs, {"test": secret}, None, "en", "de")
    monkeypatch.setattr("kmha.translation.preparation.CorpusSource.read", lambda source: corpus)
    result = _run("prune", another_task("dates"), "--keep", 0.95, "--json", "steps.json")
    assert result.exit_code == 0, result.output
    assert "exact matches, %" in result.stdout
    with open("steps.json") as file:
        assert json.load(file)["steps"][0]["exact_match"] in np.arange(0, 101, 20)


@pytest.mark.slow
def test_an_interrupt(model_folder, tmp_path, monkeypatch):
    from kmha.translation.pruning import Pruning

    def interrupt(run, count):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pruning, "remove", interrupt)
    result = _run("prune", model_folder, *FILES, "--out", "small", "--csv", "steps.csv", "--json", "steps.json")
    assert result.exit_code == 130
    assert "Interrupted." in result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [int(line[0]) for line in lines if line and line[0].isdecimal()] == [18]  # what was measured before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.de", "mine.en"]


def test_an_interrupt_while_loading(model_folder, monkeypatch):
    from kmha.translation.translator import Translator

    def interrupt(folder, step=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "load", interrupt)
    result = _run("prune", model_folder, *FILES)
    assert (result.exit_code, result.stderr, result.stdout) == (130, "Interrupted.\n", "")


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(model_folder, tmp_path, monkeypatch):
    def fail(*arguments):
        raise folder.FolderError("the disk is full")

    monkeypatch.setattr(folder, "save_finished", fail)
    outputs = "--out", "small", "--csv", "steps.csv", "--json", "steps.json"
    result = _run("prune", model_folder, *FILES, "--keep", 0.95, *outputs)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert "heads removed by gradient" in result.stdout
    assert len((tmp_path / "steps.csv").read_text().splitlines()) == 3
    assert len(json.loads((tmp_path / "steps.json").read_text())["steps"]) == 2


@pytest.mark.slow
def test_a_table_that_cannot_be_written(model_folder, monkeypatch):
    def fail(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr("kmha.atomic_files.write_text", fail)
    result = _run("prune", model_folder, *FILES, "--keep", 0.95, "--csv", "steps.csv")
    assert result.exit_code != 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [int(line[0]) for line in lines if line and line[0].isdecimal()] == [18, 17]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FILES, "--keep", "0.1"), "keeps at least one head of 18"),
        ((*FILES, "--steps", "10"), "there are 9 heads to remove. Received: 10 steps"),
        ((*FILES, "--keep", "0"), "0<x<=1"),
        ((*FILES, "--out", "."), "exists already"),
        ((*FILES, "--out", "no/such"), "the folder no does not exist"),
        ((), "this model was trained on your own files"),
        (("--source", "mine.en"), "--source and --target go together"),
        ((*FILES, "--rank", "size"), "'size' is not one of 'gradient', 'ablation'"),
    ],
)
def test_errors_are_one_line(model_folder, tmp_path, arguments, message):
    result = _run("prune", model_folder, *arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.de", "mine.en"]


def test_a_folder_that_is_no_model(tmp_path):
    (tmp_path / "empty").mkdir()
    result = _run("prune", "empty")
    assert result.exit_code == 1
    assert "empty is not a model folder" in result.stderr


def test_help_has_examples():
    result = _run("prune", "--help")
    assert "kmha prune dates-model" in result.stdout
