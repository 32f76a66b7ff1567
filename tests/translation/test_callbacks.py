import csv
import dataclasses

import keras
import numpy as np
import pytest

from kmha.translation import callbacks, folder, scores
from kmha.translation.checkpoint import Journal
from kmha.translation.corpora import Pairs
from kmha.translation.folder import Config
from kmha.translation.search import METHODS, Hypothesis, SearchMethod
from kmha.translation.settings import Settings
from kmha.translation.tokenizer import END, PAD, Tokenizer
from kmha.translation.translator import Translator

pytestmark = pytest.mark.tensorflow


def _config(*entries):
    return Config("dates", "en", "de", Settings.load("cpu", "dates", entries), 0, "float32", {}, 30)


class _Model:
    """The parts of a model that callbacks use."""

    def __init__(self):
        self.stop_training = False
        self.optimizer = keras.optimizers.SGD(0.25)
        self.transformer = self
        self.saved = []

    def save_weights(self, path):
        path.write_text("weights")


class _Time:
    now = 0.0

    def __call__(self):
        return self.now


def _with(callback, model=None):
    callback.set_model(model or _Model())
    return callback


def _logs(**values):
    return {"loss": 1.5, "val_loss": 2.5, "exact_match": 25.0, **values}


def test_time_and_speed():
    time, journal = _Time(), Journal(step=7, seconds=30.0)
    timer = _with(callbacks.Timer(journal, None, time))
    time.now = 5.0
    timer.on_epoch_begin(0)
    for now in (7.0, 9.0):
        time.now = now
        timer.on_train_batch_end(0)
    time.now = 19.0  # after the validation, which does not count
    logs = {"tokens": 60.0, "val_tokens": 3.0}
    timer.on_epoch_end(0, logs)
    assert logs == {"tokens_per_second": 15.0}
    assert journal.step == 9
    assert timer.elapsed() == 49.0
    assert not timer.model.stop_training


@pytest.mark.parametrize(("before", "stops"), [(0.0, False), (35.0, False), (46.0, True)])
def test_training_ends_in_time_for_the_work_after_it(before, stops):
    """Earlier sessions took a part of the minute, and four times the three seconds of a check are reserved."""
    time, journal = _Time(), Journal(seconds=before)
    timer = _with(callbacks.Timer(journal, 1.0, time))
    timer.on_epoch_begin(0)
    for epoch, (trained, checked) in enumerate([(2.0, 5.0), (8.0, 10.0)], start=1):
        time.now = trained
        timer.on_train_batch_end(0)
        time.now = checked
        timer.on_epoch_begin(epoch)
    assert timer.model.stop_training == stops
    assert journal.ended == ("minutes" if stops else "")


def _records(values, *entries, name="exact_match"):
    journal = Journal()
    record = _with(callbacks.RecordCheck(journal, _config(*entries), callbacks.Timer(journal, None, _Time())))
    for value in values:
        journal.step += 10
        record.on_epoch_end(0, _logs(**{name: value}))
        if journal.ended:
            break
    assert record.model.stop_training == bool(journal.ended)
    return journal


def test_a_row_of_the_history():
    journal = _records([25.0], "training.steps=100")
    assert journal.rows == [
        {"step": 10, "minutes": 0.0, "loss": 1.5, "val_loss": 2.5, "exact_match": 25.0, "learning_rate": 0.25}
    ]


def test_nan_is_never_the_best_score():
    nan = float("nan")
    journal = _records([nan, 3.0, 2.0, nan, 4.0], "training.stop_on=loss", name="val_loss")
    assert (journal.best_step, journal.best) == (30, -2.0)
    assert _records([nan, nan, 1.0]).best_step == 30


def test_a_loss_of_nan_ends_training():
    journal = Journal(step=10)
    record = _with(callbacks.RecordCheck(journal, _config(), callbacks.Timer(journal, None, _Time())))
    record.on_epoch_end(0, _logs(loss=float("nan"), exact_match=0.0))
    assert record.model.stop_training
    assert journal.ended == "diverged"


@pytest.mark.parametrize(
    ("values", "entries", "step", "best", "ended"),
    [
        ([1.0, 3.0, 2.0, 2.0, 2.0], ["training.patience=0"], 50, 20, ""),
        ([1.0, 3.0, 2.0, 3.0, 2.0], ["training.patience=2"], 40, 20, "patience"),
        ([1.0, 3.0, 2.0, 3.5, 2.0], ["training.patience=2"], 50, 40, ""),
        ([1.0, 3.0, 2.0, 2.0, 2.0], ["training.steps=30"], 30, 20, "steps"),
    ],
)
def test_when_training_ends(values, entries, step, best, ended):
    journal = _records(values, *entries)
    assert (journal.step, journal.best_step, journal.ended) == (step, best, ended)


def test_the_loss_must_fall_and_the_score_must_rise():
    journal = _records([3.0, 2.0, 2.5, 2.5], "training.stop_on=loss", "training.patience=2", name="val_loss")
    assert (journal.step, journal.best_step, journal.ended) == (40, 20, "patience")
    assert callbacks.score_of({"bleu": 3.0, "val_loss": 1.0}) == ("bleu", 3.0)


@pytest.mark.parametrize(
    ("best", "keep_all", "expected"),
    [(20, "false", [20, 30, 40, 50]), (10, "false", [10, 30, 40, 50]), (10, "true", [10, 15, 20, 30, 40, 50])],
)
def test_weights_of_the_average_one_more_and_the_best_are_kept(best, keep_all, expected, tmp_path):
    config = _config("training.average=2", "training.steps_between_checks=10", f"training.keep_all={keep_all}")
    (tmp_path / folder.CHECKPOINTS).mkdir()
    journal = Journal(best_step=best)
    keep = _with(callbacks.KeepWeights(journal, config, tmp_path))
    for step in (10, 15, 20, 30, 40, 50):
        journal.step = step
        keep.on_epoch_end(0)
    assert folder.checkpoint_steps(tmp_path) == expected


def test_logs_are_written_from_the_journal(tmp_path):
    (tmp_path / folder.LOGS).mkdir()
    journal = Journal(rows=[{"step": 10, "loss": 0.5}], samples=["step 10\n  source     ä"])
    logs = _with(callbacks.WriteLogs(journal, tmp_path, tensorboard=True))
    logs.on_epoch_end(0)
    journal.rows.append({"step": 20, "loss": 0.25, "bleu": 3.0})
    logs.on_epoch_end(1)
    logs.on_train_end()
    with open(tmp_path / "logs/history.csv") as file:
        assert list(csv.DictReader(file)) == [
            {"step": "10", "loss": "0.5", "bleu": ""},
            {"step": "20", "loss": "0.25", "bleu": "3.0"},
        ]
    assert (tmp_path / "logs/samples.txt").read_text() == "step 10\n  source     ä\n"
    assert _scalars(tmp_path / "logs/tensorboard") == {("loss", 10): 0.5, ("loss", 20): 0.25, ("bleu", 20): 3.0}


def _scalars(path):
    """The scalars that TensorBoard would show, except `step`."""
    import tensorflow as tf

    found = {}
    for file in path.iterdir():
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                if value.tag != "step":
                    found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_translations_are_scored_and_logged():
    journal, logs = Journal(step=30), _logs()
    translate = _with(
        callbacks.ScoreTranslations(journal, lambda: ("bleu", 12.5, ["  source     a", "  source     b"]))
    )
    translate.on_epoch_end(0, logs)
    assert logs["bleu"] == 12.5
    assert journal.samples == ["step 30\n  source     a\n  source     b"]


def test_listeners_receive_steps_and_checks():
    received = []
    journal = Journal(step=3, rows=[{"step": 3}], samples=["step 3\n  source     a"])
    tell = _with(
        callbacks.NotifyListener(journal, lambda *args: received.append(args), lambda *args: received.append(args))
    )
    tell.on_train_batch_end(0, {"loss": np.float32(0.5)})
    tell.on_epoch_end(0)
    assert received == [(3, 0.5), ({"step": 3}, "  source     a")]


def test_the_state_is_saved(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr("kmha.translation.checkpoint.save", lambda *args: saved.append(args))
    journal, model = Journal(), _Model()
    _with(callbacks.SaveState(journal, tmp_path / "state.npz"), model).on_epoch_end(0)
    assert saved == [(tmp_path / "state.npz", model, journal)]
    assert dataclasses.asdict(journal) == dataclasses.asdict(Journal())


class _Copies(SearchMethod):
    """Stands in for a search, and returns the source without its end."""

    def __init__(self, model, max_length):
        self.max_length = max_length(30)  # which has a limit for every length

    def __call__(self, source):
        rows = [[id_ for id_ in row if id_ not in (PAD, END)][: self.max_length] for row in source.tolist()]
        return [[Hypothesis(tuple(row), 0.0, 0.0, True)] for row in rows]


class _Transformer:
    """Stands in for a Transformer, of which only the numbers of positions are read."""

    def __init__(self, room):
        self._room = room

    def get_config(self):
        return {"max_positional_encoding_input": self._room, "max_positional_encoding_target": self._room}


@pytest.fixture
def scored(monkeypatch):
    monkeypatch.setitem(METHODS, "greedy", _Copies)
    texts = ["one two three four", "five", "six seven", "one two four three five"]
    tokenizer = Tokenizer.train(texts * 2, 60)
    pairs = Pairs(texts, [*texts[:2], "six six", "one two four three six"], "validation")
    search = dataclasses.replace(Settings.load("cpu", "dates").search, max_length=13)
    return lambda room=17, **more: callbacks.Scorer(Translator(_Transformer(room), tokenizer, search), pairs, **more)()


def test_the_scorer_keeps_the_order_of_the_text(scored):
    name, value, samples = scored(exact=True, samples=2)
    assert (name, value) == ("exact_match", 50.0)
    assert samples[1] == "  source     five\n  reference  five\n  model      five"
    assert len(samples) == 2
    name, value, _ = scored(exact=False)
    texts = ["one two three four", "five", "six seven", "one two four three five"]
    assert (name, value) == ("bleu", scores.bleu(texts, [*texts[:2], "six six", "one two four three six"]).value)


def test_the_scorer_translates_only_count_pairs(scored):
    assert scored(exact=True, count=2)[1] == 100.0
    assert scored(exact=True, count=3)[1] == pytest.approx(200 / 3)


def test_the_scorer_truncates_long_sources(scored):
    assert scored(exact=True, count=2, room=2)[1] < 100
