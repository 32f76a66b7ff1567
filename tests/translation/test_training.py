"""The dates task from end to end, in a small size: unbroken, killed, resumed, out of time, stopped early."""

import csv
import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from kmha.translation import checkpoint, dates, folder, preparation
from kmha.translation.preparation import TrainingListener
from kmha.translation.settings import Settings
from kmha.translation.translator import Translator

pytestmark = pytest.mark.tensorflow

SIZES = {
    "model.num_layers": 1,
    "model.embedding_dim": 12,
    "model.num_heads": 2,
    "model.fully_connected_dim": 20,
    "data.vocabulary_size": 300,
    "data.subword_dropout": 0.2,
    "training.steps": 7,
    "training.steps_between_checks": 3,
    "training.tokens_per_batch": 150,
    "training.warmup_steps": 5,
    "training.consistency": 2.0,
    "training.steps_before_consistency": 3,
    "training.average": 2,
    "training.scored_sentences": 5,
    "training.samples": 2,
    "search.max_length": 4,
}
ENTRIES = [f"{name}={value}" for name, value in SIZES.items()]
SEED = 11
CORPUS = dates.corpus(0, pairs=400)
PAIR = "3 mai 1984", "1984-05-03"

# A session in a process of its own, which ends at the `os.replace` whose target has this name, for the n-th time.
KILLED = f"""
import os, signal, sys
replace, left = os.replace, int(sys.argv[3])
def killing(one, other):
    global left
    left -= os.path.basename(other) == sys.argv[2]
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(one, other)
os.replace = killing
from pathlib import Path
from kmha.translation import dates, preparation
from kmha.translation.settings import Settings
corpus = dates.corpus(0, pairs=400)
source, settings = preparation.CorpusSource("dates"), Settings.load("cpu", "dates", {ENTRIES!r})
wanted = preparation.configure(source, corpus, settings, {SEED}, "float32")
config, tokenizer = preparation.prepare_folder(Path(sys.argv[1]), wanted, corpus)
from kmha.translation.training import TrainingRun
TrainingRun(Path(sys.argv[1]), config, tokenizer, corpus, probe={PAIR!r}).train()
"""


class _Recorder(TrainingListener):
    """Records what it receives, and raises an error at a step."""

    def __init__(self, error=None, at=0):
        self.notes, self.steps, self.rows, self.samples, self.from_step = [], [], [], [], None
        self._error, self._at = error, at

    def note(self, text):
        self.notes.append(text)

    def resumed(self, step):
        self.from_step = step

    def step(self, step, loss):
        self.steps.append(step)
        if step == self._at:
            raise self._error

    def attention(self, recorded):
        self.recorded = recorded

    def check(self, row, samples):
        self.rows.append(row)
        self.samples.append(samples)


def _session(path, *more, listener=None, minutes=None, corpus=CORPUS, probe=None):
    from kmha.translation.training import TrainingRun

    settings = Settings.load("cpu", "dates", [*ENTRIES, *more])
    wanted = preparation.configure(preparation.CorpusSource("dates"), corpus, settings, SEED, "float32")
    config, tokenizer = preparation.prepare_folder(path, wanted, corpus)
    options = {"minutes": minutes, "listener": listener, "probe": probe}
    return TrainingRun(path, config, tokenizer, corpus, **options).train()


def _rows(path):
    with open(path / "logs" / "history.csv") as file:
        return list(csv.DictReader(file))


def _same(path, unbroken):
    """Compare all weights bit for bit, and the history except its times."""
    assert folder.checkpoint_steps(path) == folder.checkpoint_steps(unbroken)
    for name in [
        "model.weights.h5",
        *(f"checkpoints/step-{step:08d}.weights.h5" for step in folder.checkpoint_steps(path)),
    ]:
        models = [folder.build(folder.load_config(one)) for one in (path, unbroken)]
        for model, one in zip(models, (path, unbroken), strict=True):
            folder.load_weights(model, one / name)
        for one, other in zip(*(model.get_weights() for model in models), strict=True):
            np.testing.assert_array_equal(one, other)
    histories = [[{**row, "minutes": "", "tokens_per_second": ""} for row in _rows(one)] for one in (path, unbroken)]
    assert histories[0] == histories[1]
    assert (path / "logs/samples.txt").read_text() == (unbroken / "logs/samples.txt").read_text()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    path, received = tmp_path_factory.mktemp("unbroken") / "model", _Recorder()
    return path, _session(path, listener=received), received


def test_an_unbroken_run_leaves_a_finished_folder(unbroken):
    path, config, received = unbroken
    assert config == folder.load_config(path)
    assert config.finished
    assert config.result["ended"] == "steps"
    assert config.result["step"] == 7
    assert set(config.result["validation"]) == {"exact_match"}
    assert {file.name for file in path.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "model.weights.h5",
        "logs",
        "checkpoints",
    }
    assert {file.name for file in (path / "logs").iterdir()} == {"history.csv", "samples.txt", "tensorboard"}
    assert folder.checkpoint_steps(path) == [3, 6, 7]
    assert received.steps == [1, 2, 3, 4, 5, 6, 7]
    assert received.from_step is None
    assert "reference  " in received.samples[0]


def test_the_history_has_a_row_for_each_check(unbroken):
    rows = _rows(unbroken[0])
    assert [row["step"] for row in rows] == ["3", "6", "7"]
    assert set(rows[0]) == {
        *("step", "minutes", "loss", "token_accuracy", "perplexity", "val_loss", "val_token_accuracy"),
        *("val_perplexity", "exact_match", "learning_rate", "tokens_per_second"),
    }
    assert all(float(row["tokens_per_second"]) > 0 for row in rows)
    rates = [row["learning_rate"] for row in rows]  # that of the step to come
    np.testing.assert_allclose([float(rate) for rate in rates[:1]], [4 / 5 * _peak()], rtol=1e-5)
    assert (unbroken[0] / "logs/samples.txt").read_text().count("  reference  ") == 3 * 2


def _peak():
    return Settings.load("cpu", "dates").training.peak_learning_rate


def test_the_finished_model_is_the_average_or_the_best(unbroken):
    path, config, _ = unbroken
    chosen = config.result["average_of_steps"]
    assert chosen == [6, 7] or len(chosen) == 1
    model, averaged = folder.load(path)[0], folder.build(config)
    folder.average_weights(averaged, path, chosen)
    for one, other in zip(model.get_weights(), averaged.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_two_passes_begin_after_their_step(tmp_path, unbroken):
    _session(tmp_path / "model", "training.consistency=0.0")
    one, other = (_rows(path) for path in (tmp_path / "model", unbroken[0]))
    assert one[0]["loss"] == other[0]["loss"]
    assert float(one[1]["loss"]) < float(other[1]["loss"])


@pytest.mark.slow
def test_a_killed_and_resumed_run_ends_bit_for_bit_like_an_unbroken_one(tmp_path, unbroken):
    """It is killed while it writes the second state, half of which lies beside the first. It has recorded attention."""
    path, received = tmp_path / "killed", _Recorder()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", KILLED, str(path), "state.npz", "2"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert len(list(path.glob("checkpoints/.state.npz.*"))) == 1
    assert not folder.load_config(path).finished
    config = _session(path, listener=received, probe=PAIR)
    assert received.from_step == 3
    assert received.steps == [4, 5, 6, 7]
    assert config.finished
    _same(path, unbroken[0])
    assert not list(path.glob("**/.*"))
    _check_attention(path, received.recorded)


def _check_attention(path, received):
    """The recorded attention is that of the weights of each check."""
    translator = Translator.load(path)
    scores = translator.attention(*PAIR).scores
    recorded = checkpoint.load_attention(path / "logs/attention.npz", PAIR, scores)
    assert list(recorded) == list(received) == [0, 3, 6, 7]
    for step in (3, 6, 7):
        folder.load_weights(translator.model, folder.checkpoint(path, step))
        scores = translator.attention(*PAIR).scores
        assert recorded[step].keys() == scores.keys()
        for name, one in scores.items():
            np.testing.assert_allclose(recorded[step][name], one, rtol=0, atol=1e-6, err_msg=name)
            np.testing.assert_array_equal(received[step].scores[name], recorded[step][name])


@pytest.mark.slow
def test_a_run_stopped_after_the_last_step_only_finishes(tmp_path, unbroken, monkeypatch):
    path, received, replace = tmp_path / "model", _Recorder(), os.replace

    def stopping(one, other):
        if os.path.basename(other) == "model.weights.h5":
            raise KeyboardInterrupt
        replace(one, other)

    monkeypatch.setattr("os.replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        _session(path)
    monkeypatch.undo()
    assert not folder.load_config(path).finished
    _session(path, listener=received)
    assert (received.from_step, received.steps) == (7, [])
    _same(path, unbroken[0])


@pytest.mark.slow
def test_a_run_interrupted_between_two_checks_resumes_from_the_last(tmp_path, unbroken):
    path, received = tmp_path / "model", _Recorder(KeyboardInterrupt(), at=5)
    with pytest.raises(KeyboardInterrupt):
        _session(path, listener=received)
    assert [row["step"] for row in _rows(path)] == ["3"]
    with pytest.raises(folder.FolderError, match="no finished model yet"):
        folder.load(path)
    state = path / "checkpoints/state.npz"
    whole = state.read_bytes()
    state.write_bytes(whole[:100])
    with pytest.raises(checkpoint.CheckpointError, match="Start again with --restart"):
        _session(path)
    state.write_bytes(whole)
    again = _Recorder()
    _session(path, listener=again)
    assert again.steps == [4, 5, 6, 7]
    _same(path, unbroken[0])


@pytest.mark.slow
def test_a_run_out_of_time_has_a_model_and_continues_with_more_time(tmp_path, unbroken):
    path = tmp_path / "model"
    first = _session(path, minutes=1e-6)
    assert first.result["ended"] == "minutes"
    assert not first.finished
    assert first.result["step"] == 1
    assert folder.load(path)[2] == first
    received = _Recorder()
    last = _session(path, listener=received)
    assert received.from_step == 1
    assert [row["step"] for row in received.rows] == [3, 6, 7]
    assert last.result["minutes"] > first.result["minutes"]
    for one, other in zip(*(folder.load(one, 7)[0].get_weights() for one in (path, unbroken[0])), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_run_without_improvement_ends_early(tmp_path):
    path, received = tmp_path / "model", _Recorder()
    entries = "stop_on=loss", "patience=2", "steps=40", "steps_between_checks=1", "peak_learning_rate=1e-12"
    config = _session(path, *(f"training.{entry}" for entry in entries), listener=received)
    assert config.result["ended"] == "patience"
    assert received.steps == [1, 2, 3]  # weights that do not move give the same loss at each check
    assert config.finished
    losses = [float(row["val_loss"]) for row in _rows(path)]
    assert config.result["validation"] == {"val_loss": round(losses[0], 4)}


def test_a_probe_without_words(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match=r"first text of --probe has no words\. Received: ' '"):
        _session(tmp_path / "model", probe=(" ", "1984-05-03"))


@pytest.mark.slow
def test_a_probe_of_a_run_that_only_finishes(tmp_path, monkeypatch):
    """No `fit` follows, but the attention is there, and another pair is refused. Long texts are named once."""
    path, received = tmp_path / "model", _Recorder()
    monkeypatch.setattr("kmha.translation.training.TrainingRun._finish", lambda self, *rest: self._config)
    _session(path)
    monkeypatch.undo()
    pair = " ".join(["3 mai 1984"] * 99), PAIR[1]
    _session(path, listener=received, probe=pair)
    assert received.steps == []
    assert list(received.recorded) == [7]
    assert [note.partition(" has ")[0] for note in received.notes if "--probe" in note] == ["--probe: the text"]
    folder.save_config(path, dataclasses.replace(folder.load_config(path), result={}))
    with pytest.raises(checkpoint.CheckpointError, match=r"attention.npz is of --probe .* Give that again"):
        _session(path, probe=PAIR)


@pytest.mark.slow
def test_a_probe_of_a_run_that_diverges(tmp_path):
    entries = "training.peak_learning_rate=1e30", "training.warmup_steps=1"
    received = _Recorder()
    config = _session(tmp_path / "model", *entries, listener=received, probe=PAIR)
    assert config.result["ended"] == "diverged"
    assert (tmp_path / "model/model.weights.h5").exists()
    assert list(received.recorded) == [0]
