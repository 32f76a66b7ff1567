"""The Keras callbacks of a training run, which act at each check, share the journal, and depend on their order.

The order is Timer, ScoreTranslations, RecordCheck, KeepWeights, WriteLogs, RecordAttention, SaveState, NotifyListener.
Measuring comes before writing files. Of the files that a resumed run needs, the state is written last, so that it
implies the others.
"""

import csv
import dataclasses
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from kmha.atomic_files import write_text
from kmha.translation import checkpoint, folder, scores
from kmha.translation.checkpoint import HistoryRow, Journal
from kmha.translation.corpora import Pairs
from kmha.translation.folder import Config
from kmha.translation.preparation import TrainingListener
from kmha.translation.translator import Attention, Translator

BATCH_TOKENS = 4096  # maximum number of source tokens in a batch to translate for the score

Clock = Callable[[], float]


class Scorer:
    """Translates the validation set greedily and scores the translations, with BLEU or exact match.

    Args:
        translator: Translator with the model, whose current weights each call uses.
        pairs: Validation set.
        exact: Score by exact match, because each sentence has only one correct translation.
        count: Number of pairs to translate, starting with the first pair. 0 means all pairs.
        samples: Number of sample translations to return.
    """

    def __init__(self, translator: Translator, pairs: Pairs, *, exact: bool, count: int = 0, samples: int = 3) -> None:
        self._source, self._target = (texts[: count or None] for texts in (pairs.source, pairs.target))
        self._translator, self._exact, self._samples = translator, exact, samples

    def __call__(self) -> tuple[str, float, list[str]]:
        """Return the name `exact_match` or `bleu`, its value from 0 to 100, and samples with source and reference."""
        translations = self._translator.translate(self._source, "greedy", batch_tokens=BATCH_TOKENS, note=_ignore)
        found = [best.text for best, *_ in translations]
        score = (scores.exact_match if self._exact else scores.bleu)(found, self._target)
        shown = list(zip(self._source, self._target, found, strict=True))[: self._samples]
        lines = [f"  source     {one}\n  reference  {two}\n  model      {three}" for one, two, three in shown]
        return "exact_match" if self._exact else "bleu", score.value, lines


def _ignore(row: int, text: str) -> None:
    """Ignore a warning about a translation, because many translations are truncated early in training."""


class Timer(keras.callbacks.Callback):
    """Counts steps and time, and ends training at the time limit.

    Args:
        journal: Journal of the run.
        minutes: Time limit for all sessions together. `None` means no limit. Training ends earlier by four times the
            duration of a check, to leave time for the last check and for the work after training.
        clock: Function that returns the seconds of this session.
    """

    def __init__(self, journal: Journal, minutes: float | None, clock: Clock) -> None:
        super().__init__()
        self._journal, self._clock = journal, clock
        self._limit = math.inf if minutes is None else 60 * minutes
        self._before = journal.seconds  # seconds of earlier sessions
        self.started = self.trained = clock()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        now = self._clock()
        if epoch:
            self._journal.check = max(self._journal.check, now - self.trained)
        self.started = now

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._journal.step += 1
        self.trained = self._clock()
        if self._before + self.trained + 4 * self._journal.check >= self._limit:
            self._journal.ended = "minutes"
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["tokens_per_second"] = logs.pop("tokens") / max(self.trained - self.started, 1e-9)
        logs.pop("val_tokens", None)

    def elapsed(self) -> float:
        """Return the seconds of all sessions so far."""
        return self._before + self._clock()


class ScoreTranslations(keras.callbacks.Callback):
    """Adds the score of the validation set to the logs, and sample translations to the journal.

    It uses the current weights, as the validation loss does. Early in training, an average over checks would be far
    worse.
    """

    def __init__(self, journal: Journal, scorer: Callable[[], tuple[str, float, list[str]]]) -> None:
        super().__init__()
        self._journal, self._scorer = journal, scorer

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        name, value, lines = self._scorer()
        logs[name] = value
        self._journal.samples.append("\n".join([f"step {self._journal.step}", *lines]))


class RecordCheck(keras.callbacks.Callback):
    """Adds the check to the journal, and ends training if it is complete or no longer improves."""

    def __init__(self, journal: Journal, config: Config, timer: Timer) -> None:
        super().__init__()
        self._journal, self._training, self._timer = journal, config.settings.training, timer

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        journal, training = self._journal, self._training
        journal.seconds = self._timer.elapsed()
        row = {"step": journal.step, "minutes": round(journal.seconds / 60, 3)}
        row.update({name: float(value) for name, value in logs.items()})
        row["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        journal.rows.append(row)
        name, value = ("val_loss", row["val_loss"]) if training.stop_on == "loss" else score_of(row)
        good = goodness(name, value)
        if journal.best is None or good > journal.best:
            journal.best, journal.best_step, journal.waited = good, journal.step, 0
        else:
            journal.waited += 1
        if training.patience and journal.waited >= training.patience:
            journal.ended = "patience"
        if journal.step >= training.steps:
            journal.ended = "steps"
        if not math.isfinite(row["loss"]):
            journal.ended = "diverged"
        if journal.ended:
            self.model.stop_training = True


class KeepWeights(keras.callbacks.Callback):
    """Saves the weights at each check, and removes the weights that neither the average nor the best check needs."""

    def __init__(self, journal: Journal, config: Config, path: Path) -> None:
        super().__init__()
        self._journal, self._config, self._path = journal, config, path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        folder.save_weights(self.model.transformer, folder.checkpoint(self._path, self._journal.step))
        training = self._config.settings.training
        if training.keep_all:
            return
        steps, between = folder.checkpoint_steps(self._path), training.steps_between_checks
        # One more than the average needs, because a run that is killed before writing its state repeats this check.
        wanted = {*folder.last_steps(steps, training.average + 1, between), self._journal.best_step}
        for step in steps:
            if step not in wanted:
                folder.checkpoint(self._path, step).unlink()


class WriteLogs(keras.callbacks.Callback):
    """Rewrites logs/history.csv and logs/samples.txt, and appends to the logs of TensorBoard if it is installed."""

    def __init__(self, journal: Journal, path: Path, tensorboard: bool) -> None:
        super().__init__()
        self._journal, self._path, self._with_board = journal, path / folder.LOGS, tensorboard
        self._writer: Any = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        write_logs(self._path, self._journal)
        if self._with_board:
            import tensorflow as tf

            self._writer = self._writer or tf.summary.create_file_writer(str(self._path / "tensorboard"))
            row = self._journal.rows[-1]
            with self._writer.as_default(step=int(row["step"])):
                for name, value in row.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class RecordAttention(keras.callbacks.Callback):
    """Records the attention of one pair at the start of a session and at each check, and tells the listener.

    Args:
        journal: Journal of the run.
        translator: Translator with the model.
        path: File of the scores. A resumed run adds to it.
        pair: Source with at least one word, and its translation.
        listener: Listener that receives the attention at all checks so far, and the warnings about the source.

    Raises:
        CheckpointError: The file cannot be read, or has the scores of another pair or model.
    """

    def __init__(
        self, journal: Journal, translator: Translator, path: Path, pair: tuple[str, str], listener: TrainingListener
    ) -> None:
        super().__init__()
        self._journal, self._translator, self._path, self._pair = journal, translator, path, pair
        self._listener = listener
        attention = translator.attention(*pair, note=lambda row, text: listener.note(f"--probe: {text}"))
        before = checkpoint.load_attention(path, pair, attention.scores)
        self._recorded = {step: scores for step, scores in before.items() if step <= journal.step}
        self._record(attention)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._record(self._translator.attention(*self._pair, note=_ignore))

    def _record(self, attention: Attention) -> None:
        if not all(np.isfinite(scores).all() for scores in attention.scores.values()):
            return  # the run diverges
        self._recorded[self._journal.step] = attention.scores
        checkpoint.save_attention(self._path, self._pair, self._recorded)
        self._listener.attention(
            {step: dataclasses.replace(attention, scores=scores) for step, scores in self._recorded.items()}
        )


class SaveState(keras.callbacks.Callback):
    """Writes the state from which the run can be resumed."""

    def __init__(self, journal: Journal, path: Path) -> None:
        super().__init__()
        self._journal, self._path = journal, path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        checkpoint.save(self._path, self.model, self._journal)


class NotifyListener(keras.callbacks.Callback):
    """Reports the progress, for instance to a progress bar.

    Args:
        journal: Journal of the run.
        step: Function to call after each batch, with the step and the loss since the last check.
        check: Function to call after each check, with its row of the history and its samples.
    """

    def __init__(
        self, journal: Journal, step: Callable[[int, float], Any], check: Callable[[HistoryRow, str], Any]
    ) -> None:
        super().__init__()
        self._journal, self._step, self._check = journal, step, check

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step(self._journal.step, float(logs["loss"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        samples = self._journal.samples[-1].partition("\n")[2] if self._journal.samples else ""
        self._check(self._journal.rows[-1], samples)


def score_of(row: HistoryRow) -> tuple[str, float]:
    """Return the name and the value of the row's score, which is BLEU or exact match."""
    name = "bleu" if "bleu" in row else "exact_match"
    return name, row[name]


def goodness(name: str, value: float) -> float:
    """Return a value that is higher for a better score. For NaN, which cannot be compared, return minus infinity.

    >>> goodness("val_loss", 2.5), goodness("bleu", 40.0), goodness("val_loss", math.nan)
    (-2.5, 40.0, -inf)
    """
    good = -value if name == "val_loss" else value
    return -math.inf if math.isnan(good) else good


def write_logs(path: Path, journal: Journal) -> None:
    """Write history.csv and samples.txt from the journal, so that a resumed run does not repeat entries."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in journal.rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(journal.rows)
    write_text(path / folder.HISTORY, text.getvalue())
    write_text(path / folder.SAMPLES, "\n\n".join(journal.samples) + "\n")
