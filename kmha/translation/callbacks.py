"""What happens at each check of a training run, as Keras callbacks: they share the journal, and their order matters.

Timer, Translate, Record, Keep, Logs, SaveState, Tell: time first, then what is measured, then what is written, the
state last of all that a resumed run needs, for it says that everything before it is there.
"""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from kmha.files import write_text
from kmha.translation import checkpoint, folder, weights
from kmha.translation.checkpoint import Journal
from kmha.translation.folder import Config

Clock = Callable[[], float]


class Timer(keras.callbacks.Callback):
    """Counts steps and time; ends training when its time is up.

    Args:
        journal: of the run.
        minutes: for everything, all sessions together; `None` is no limit. Three times what a check takes is kept free,
            for the last one and for what comes after training.
        clock: seconds of this session.
    """

    def __init__(self, journal: Journal, minutes: float | None, clock: Clock) -> None:
        super().__init__()
        self._journal, self._clock = journal, clock
        self._limit = math.inf if minutes is None else 60 * minutes
        self._before = journal.seconds  # of sessions before this one
        self.begun = self.trained = clock()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        now = self._clock()
        if epoch:
            self._journal.check = max(self._journal.check, now - self.trained)
        self.begun = now

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._journal.step += 1
        self.trained = self._clock()
        if self._before + self.trained + 3 * self._journal.check >= self._limit:
            self._journal.ended = "minutes"
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["tokens_per_second"] = logs.pop("tokens") / max(self.trained - self.begun, 1e-9)
        logs.pop("val_tokens", None)

    def elapsed(self) -> float:
        """Seconds of all sessions."""
        return self._before + self._clock()


class Translate(keras.callbacks.Callback):
    """Adds the score of the validation set to the logs, and a few translations to the journal.

    The weights are the current ones, as for the validation loss: early in training an average over the last checks
    would be far behind them.

    Args:
        journal: of the run.
        scorer: returns the score's name, its value and sample lines.
    """

    def __init__(self, journal: Journal, scorer: Callable[[], tuple[str, float, list[str]]]) -> None:
        super().__init__()
        self._journal, self._scorer = journal, scorer

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        name, value, lines = self._scorer()
        logs[name] = value
        self._journal.samples.append("\n".join([f"step {self._journal.step}", *lines]))


class Record(keras.callbacks.Callback):
    """Puts the check into the journal, and ends training that no longer improves or is complete.

    Args:
        journal: of the run.
        config: for the number of steps, the patience, and what must improve.
        timer: for the time.
    """

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


class Keep(keras.callbacks.Callback):
    """Keeps the weights of this check, and drops those that neither the average nor the best need any longer.

    Args:
        journal: of the run.
        config: for how many there are in an average.
        path: the model folder.
    """

    def __init__(self, journal: Journal, config: Config, path: Path) -> None:
        super().__init__()
        self._journal, self._config, self._path = journal, config, path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        weights.save(self.model.transformer, weights.kept(self._path, self._journal.step))
        training = self._config.settings.training
        if training.keep_all:
            return
        steps, between = weights.kept_steps(self._path), training.steps_between_checks
        # One more than an average has: a run that is killed before its state is written does this check again.
        wanted = {*weights.last(steps, training.average + 1, between), self._journal.best_step}
        for step in steps:
            if step not in wanted:
                weights.kept(self._path, step).unlink()


class Logs(keras.callbacks.Callback):
    """Writes logs/history.csv and logs/samples.txt, whole, and for TensorBoard what is new.

    Args:
        journal: of the run.
        path: the model folder.
        tensorboard: whether to write for it too; it needs the package.
    """

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


class SaveState(keras.callbacks.Callback):
    """Writes the state from which the same command goes on.

    Args:
        journal: of the run.
        path: of the file.
    """

    def __init__(self, journal: Journal, path: Path) -> None:
        super().__init__()
        self._journal, self._path = journal, path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        checkpoint.save(self._path, self.model, self._journal)


class Tell(keras.callbacks.Callback):
    """Passes on how far the run is: to a progress bar, or to nobody.

    Args:
        journal: of the run.
        step: is told the step after each batch, and the loss since the last check.
        check: is told the row of each check, and its samples.
    """

    def __init__(
        self, journal: Journal, step: Callable[[int, float], Any], check: Callable[[checkpoint.Row, str], Any]
    ) -> None:
        super().__init__()
        self._journal, self._step, self._check = journal, step, check

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step(self._journal.step, float(logs["loss"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        samples = self._journal.samples[-1].partition("\n")[2] if self._journal.samples else ""
        self._check(self._journal.rows[-1], samples)


def score_of(row: checkpoint.Row) -> tuple[str, float]:
    """BLEU or exact match, whichever the task has."""
    name = "bleu" if "bleu" in row else "exact_match"
    return name, row[name]


def goodness(name: str, value: float) -> float:
    """What must grow; nothing is worse than what is no number, whereas NaN compares with nothing.

    >>> goodness("val_loss", 2.5), goodness("bleu", 40.0), goodness("val_loss", math.nan)
    (-2.5, 40.0, -inf)
    """
    good = -value if name == "val_loss" else value
    return -math.inf if math.isnan(good) else good


def write_logs(path: Path, journal: Journal) -> None:
    """history.csv and samples.txt as the journal has them, so that a resumed run repeats nothing."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in journal.rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(journal.rows)
    write_text(path / folder.HISTORY, text.getvalue())
    write_text(path / folder.SAMPLES, "\n\n".join(journal.samples) + "\n")
