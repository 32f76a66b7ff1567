"""Training on several devices and workers gives the numbers of one device, in processes as a user starts them."""

import csv
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from kmha.translation import batches, devices

BACKEND = os.environ["KERAS_BACKEND"]
SEVERAL = pytest.mark.skipif(BACKEND == "torch", reason="Keras on torch computes on one device")
ENTRIES = {
    "model.num_layers": 1,
    "model.embedding_dim": 12,
    "model.num_heads": 2,
    "model.fully_connected_dim": 20,
    "model.dropout_rate": 0.0,
    "model.residual_dropout_rate": 0.0,
    "data.vocabulary_size": 200,
    "data.max_length": 32,
    "training.tokens_per_batch": 60,  # seven sentences, which two devices cannot share without padding
    "training.steps": 5,
    "training.steps_between_checks": 2,
    "training.warmup_steps": 3,
    "training.clip_norm": 0.3,
    "training.average": 2,
    "training.stop_on": "loss",
    "training.scored_sentences": 2,
    "training.samples": 1,
    "search.max_length": 4,
    "search.beam_size": 2,
}
DROPOUT = {"model.dropout_rate": 0.2}
TIMES = "minutes", "tokens_per_second"

# One device, two, and two with dropout: unbroken, and stopped at step 3 and resumed.
SESSIONS = """
import json, sys
from pathlib import Path
from kmha.translation import devices, preparation
from kmha.translation.settings import Settings
folder = Path(sys.argv[1])
source = preparation.CorpusSource("files", source=folder / "text.en", target=folder / "text.de")
corpus = source.read()
two = devices.start(2)
import keras
from kmha.translation.training import TrainingRun

def session(name, used, entries, stop=0):
    settings = Settings.load("cpu", "files", [f"{key}={value}" for key, value in entries.items()])
    wanted = preparation.configure(source, corpus, settings, 1, "float32")
    config, tokenizer = preparation.prepare_folder(folder / name, wanted, corpus)
    listener = preparation.TrainingListener()
    def step(number, loss):
        if number == stop:
            raise KeyboardInterrupt
    listener.step = step
    TrainingRun(folder / name, config, tokenizer, corpus, listener=listener, devices=used).train()

entries, dropout = json.loads(sys.argv[2]), json.loads(sys.argv[3])
shared = keras.distribution.distribution()
keras.distribution.set_distribution(None)
session("one", devices.Devices(), entries)
keras.distribution.set_distribution(shared)
session("two", two, entries)
session("unbroken", two, {**entries, **dropout})
try:
    session("resumed", two, {**entries, **dropout}, stop=3)
except KeyboardInterrupt:
    session("resumed", two, {**entries, **dropout})
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sentences of about the same length, so that JAX compiles few shapes."""
    folder = tmp_path_factory.mktemp("text")
    english, german = ["a dog runs", "two cats sleep", "the bird sings"], ["ein Hund läuft", "zwei Katzen schlafen"]
    (folder / "text.en").write_text("\n".join(f"{english[number % 3]} {number % 7}" for number in range(90)))
    (folder / "text.de").write_text("\n".join(f"{german[number % 2]} {number % 7}" for number in range(90)))
    return folder


@pytest.fixture(scope="module")
def alone(text):
    """The output of a training on one device, whose folder is `alone`."""
    return _end(_train(text, "alone"))


def _start(command, **variables):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **variables}
    return subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _train(folder, name, *options, **variables):
    entries = [part for key, value in ENTRIES.items() for part in ("--set", f"{key}={value}")]
    files = "--source", str(folder / "text.en"), "--target", str(folder / "text.de"), "--out", str(folder / name)
    return _start(["-m", "kmha", "train", *files, *entries, *options], **variables)


def _end(process):
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    return output


def _rows(path):
    with open(path / "logs" / "history.csv") as file:
        return [{name: float(x) for name, x in row.items() if name not in TIMES} for row in csv.DictReader(file)]


def _assert_close(some, others):
    assert [row["step"] for row in some] == [row["step"] for row in others] == [2, 4, 5]
    for one, other in zip(some, others, strict=True):
        assert one.keys() == other.keys()
        np.testing.assert_allclose([*one.values()], [*other.values()], rtol=2e-5, atol=1e-6)


@SEVERAL
@pytest.mark.slow
def test_two_devices_give_the_numbers_of_one_and_resume(text):
    _end(_start(["-c", SESSIONS, str(text), json.dumps(ENTRIES), json.dumps(DROPOUT)]))
    _assert_close(_rows(text / "two"), _rows(text / "one"))
    assert _rows(text / "resumed") == _rows(text / "unbroken")
    assert _rows(text / "unbroken") != _rows(text / "two")


@SEVERAL
@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_two_workers_give_the_numbers_of_one_process(text):
    """Only the first worker writes into the model folder, and both resume a run that is finished."""
    for _ in range(2):
        both = [_train(text, "together", **variables) for variables in _cluster()]
        outputs = [_end(process) for process in both]
    assert not any("steps" in output for output in outputs)  # the second time, there is nothing to do
    _assert_close(_rows(text / "together"), _rows(text / "alone"))


def _cluster():
    with socket.socket() as one, socket.socket() as other:
        for opened in (one, other):
            opened.bind(("localhost", 0))
        addresses = [f"localhost:{opened.getsockname()[1]}" for opened in (one, other)]
    for index in range(2):
        if BACKEND == "tensorflow":
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            yield {"TF_CONFIG": json.dumps(task)}
        else:
            name = "KERAS_DISTRIBUTION_{}".format
            values = {"JOB_ADDRESSES": ",".join(addresses), "NUM_PROCESSES": "2", "PROCESS_ID": str(index)}
            yield {name(key): value for key, value in values.items()}


@pytest.mark.slow
def test_a_model_is_trained_and_translates_on_every_backend(text, alone):
    assert "5 steps" in alone
    rows = _rows(text / "alone")
    assert rows[-1]["val_loss"] < rows[0]["val_loss"]
    translated = _end(_start(["-m", "kmha", "translate", str(text / "alone"), "a dog runs 3", "the bird sings 5"]))
    assert len(translated.splitlines()) == 2


@pytest.mark.skipif(BACKEND != "torch", reason="the other backends compute on several devices")
def test_torch_says_that_it_computes_on_one_device():
    with pytest.raises(devices.DevicesError, match=r"issue 23418.*KERAS_BACKEND=jax"):
        devices.start(2)


@pytest.mark.tensorflow
def test_more_devices_than_there_are():
    """TensorFlow has started, so the CPU cannot be divided any more."""
    import tensorflow as tf

    tf.constant(0)
    with pytest.raises(devices.DevicesError, match="--devices 64: there are"):
        devices.start(64)


def test_parts_of_a_batch_have_equal_numbers_of_rows_and_lose_nothing():
    ids = np.arange(1, 16, dtype="int32").reshape(5, 3)
    shared = devices.Devices(number=2, worker=0, workers=2)
    parts = [shared._part(batches.Batch((ids, ids[:, :2]), ids[:, 1:]), index, 4, longest=6) for index in range(4)]
    assert {len(part.target) for part in parts} == {2}
    whole = np.concatenate([part.inputs[0] for part in parts])
    assert whole[:5, :3].tolist() == ids.tolist()
    assert not whole[5:].any()
    assert not whole[:, 3:].any()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (0, 1)),
        ({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}, (1, 2)),
        ({"cluster": {"worker": ["a:1"], "chief": ["b:1"]}, "task": {"type": "worker", "index": 0}}, (1, 2)),
    ],
)
def test_workers_of_tf_config(config, expected, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert devices.workers_of("tensorflow") == expected


@pytest.mark.parametrize("config", ["{", '{"cluster": {"worker": ["a:1"]}}', '{"cluster": {"ps": ["a:1"]}}'])
def test_a_broken_tf_config(config, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(devices.DevicesError, match="TF_CONFIG does not describe the workers"):
        devices.workers_of("tensorflow")


def test_workers_of_keras_on_jax(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "3")
    with pytest.raises(devices.DevicesError, match="KERAS_DISTRIBUTION_"):
        devices.workers_of("jax")
    monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", "2")
    assert devices.workers_of("jax") == (2, 3)
