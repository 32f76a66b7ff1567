"""`TrainingRun`, which trains a new or a stopped run until the model is finished."""

import dataclasses
import importlib.util
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from kmha.translation import batches, callbacks, checkpoint, folder
from kmha.translation.checkpoint import Journal
from kmha.translation.corpora import Corpus, Pairs
from kmha.translation.devices import Devices
from kmha.translation.folder import Config
from kmha.translation.preparation import TrainingListener
from kmha.translation.settings import TrainingSettings
from kmha.translation.subword_dropout import SubwordDropout
from kmha.translation.task import compiled_task
from kmha.translation.tokenizer import Tokenizer
from kmha.translation.translator import Translator


class TrainingRun:
    """One session of training.

    The weights after a step depend only on the settings, the seed, the data and the step, however often the run was
    stopped. See `checkpoint.save` for the state, and `batches.training_batches` for the data.

    Args:
        path: Model folder that `preparation.prepare_folder` created.
        config, tokenizer: Config and tokenizer of the folder.
        corpus: Corpus to train and to validate on.
        minutes: Time limit for all sessions together. `None` means no limit.
        listener: Listener that receives the progress.
        started: Start of the session as a value of `time.monotonic`. `None` means now.
        devices: Devices to train on, from `devices.start`. `None` means one device.
        probe: Source and its translation, whose attention to record at each check. `None` means none.

    Raises:
        CheckpointError: The source of the probe has no words.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        tokenizer: Tokenizer,
        corpus: Corpus,
        *,
        minutes: float | None = None,
        listener: TrainingListener | None = None,
        started: float | None = None,
        devices: Devices | None = None,
        probe: tuple[str, str] | None = None,
    ) -> None:
        started = time.monotonic() if started is None else started
        self._path, self._config, self._minutes = path, config, minutes
        self._listener = listener or TrainingListener()
        self._clock: Callable[[], float] = lambda: time.monotonic() - started
        keras.utils.set_random_seed(config.seed)
        self._devices = devices or Devices()
        with self._devices.scope():
            self.task = compiled_task(folder.build(config), config.settings.training)
        texts, *self._pairs = self._encoded(tokenizer, corpus.train, "training")
        rate, longest = config.settings.data.subword_dropout, config.settings.data.max_length - 1
        self._vary = [SubwordDropout(tokenizer, side, rate, config.seed, longest) for side in texts] if rate else []
        _, source, target = self._encoded(tokenizer, corpus.validation, "validation")
        self._validation = list(batches.validation_batches(source, target, self._training.tokens_per_batch))
        self._translator, self._probe = Translator(self.task.transformer, tokenizer, config.settings.search), probe
        self._recorders: list[callbacks.RecordAttention] = []
        if probe is not None and not tokenizer.encode([probe[0]])[0]:
            raise checkpoint.CheckpointError(f"the first text of --probe has no words. Received: {probe[0]!r}.")
        self._scorer = callbacks.Scorer(
            self._translator,
            corpus.validation,
            exact=config.task == "dates",
            count=self._training.scored_sentences,
            samples=self._training.samples,
        )

    def train(self) -> Config:
        """Train to the end or the time limit, leave a usable model in the folder, and return its new config.

        Raises:
            CheckpointError: The run cannot be resumed from the state in the folder.
        """
        journal = self._resume()
        self._devices.prepare(self.task)
        timer = callbacks.Timer(journal, self._minutes, self._clock)
        if self._probe is not None:
            path = self._path / folder.LOGS / folder.ATTENTION
            self._recorders = [callbacks.RecordAttention(journal, self._translator, path, self._probe, self._listener)]
        while not journal.ended:
            self._fit(journal, timer)
        return self._finish(journal, timer)

    @property
    def _training(self) -> TrainingSettings:
        return self._config.settings.training

    @property
    def _state(self) -> Path:
        return self._path / folder.CHECKPOINTS / folder.STATE

    def _encoded(self, tokenizer: Tokenizer, pairs: Pairs, what: str) -> tuple[list[list[str]], Any, Any]:
        """Return the texts, and the ids of sources and targets, without pairs longer than data.max_length."""
        source, target = tokenizer.encode(pairs.source), tokenizer.encode(pairs.target)
        longest = self._config.settings.data.max_length
        rows = batches.rows_that_fit(source, target, longest)
        left_out = len(pairs) - len(rows)
        if left_out:
            self._listener.note(f"left out {left_out:,} {what} pairs longer than data.max_length={longest} tokens")
        texts = [[side[row] for row in rows] for side in (pairs.source, pairs.target)]
        return texts, [source[row] for row in rows], [target[row] for row in rows]

    def _resume(self) -> Journal:
        """Load the state of earlier sessions into the task and return their journal, or return a new journal."""
        if not self._state.exists():
            callbacks.write_logs(self._path / folder.LOGS, Journal())
            return Journal()
        journal = checkpoint.load(self._state, self.task)
        folder.remove_checkpoints(self._path, after=journal.step)  # a killed run may be ahead of its state
        self._listener.resumed(journal.step)
        callbacks.write_logs(self._path / folder.LOGS, journal)
        if journal.ended == "minutes":
            journal.ended = ""
        return journal

    def _fit(self, journal: Journal, timer: callbacks.Timer) -> None:
        """Train to the end, to the first step of two passes, or to the next regular check if a session ended before."""
        training = self._training
        end, consistency = training.steps, training.consistency
        if consistency and journal.step < training.steps_before_consistency:
            end, consistency = min(end, training.steps_before_consistency), 0.0
        if self.task.consistency != consistency:
            self.task.consistency, self.task.train_function = consistency, None  # which is then traced again
        remaining = end - journal.step
        length = min(training.steps_between_checks - journal.step % training.steps_between_checks, remaining)
        regular = length == training.steps_between_checks
        self.task.fit(
            self._batches(journal.step),
            steps_per_epoch=length,
            epochs=remaining // length if regular else 1,
            **{f"validation_{name}": value for name, value in self._validation_data().items()},
            callbacks=self._callbacks(journal, timer),
            shuffle=False,  # the batches are already shuffled
            verbose=0,
        )

    def _callbacks(self, journal: Journal, timer: callbacks.Timer) -> list[Any]:
        with_board = importlib.util.find_spec("tensorboard") is not None
        return [
            timer,
            callbacks.ScoreTranslations(journal, self._scorer),
            callbacks.RecordCheck(journal, self._config, timer),
            callbacks.KeepWeights(journal, self._config, self._path),
            callbacks.WriteLogs(journal, self._path, with_board),
            *self._recorders,
            callbacks.SaveState(journal, self._state),
            callbacks.NotifyListener(journal, self._listener.step, self._listener.check),
        ]

    def _batches(self, step: int) -> Any:
        training, longest = self._training, self._config.settings.data.max_length
        options: dict[str, Any] = {"tokens": training.tokens_per_batch, "seed": self._config.seed, "vary": self._vary}
        return self._devices.dataset(
            lambda: batches.training_batches(*self._pairs, **options, start_step=step, max_length=longest), longest
        )

    def _validation_data(self) -> dict[str, Any]:
        """Return the validation set as endless data, and its number of batches, which Keras would not count."""
        count, longest = len(self._validation), self._config.settings.data.max_length
        return {"data": self._devices.dataset(lambda: itertools.cycle(self._validation), longest), "steps": count}

    def _finish(self, journal: Journal, timer: callbacks.Timer) -> Config:
        """Save the average of the last checks, that of their later half, or the best check: what validates best."""
        steps = [step for step in folder.checkpoint_steps(self._path) if step <= journal.step]
        last = folder.last_steps(steps, self._training.average, self._training.steps_between_checks)
        best = [step for step in steps if step == journal.best_step]
        scored = []
        for chosen in map(list, dict.fromkeys(map(tuple, (last, last[len(last) // 2 :], best or last)))):
            folder.average_weights(self.task.transformer, self._path, chosen)
            scored.append((self._score(), chosen))
        (name, value), chosen = max(scored, key=lambda one: callbacks.goodness(*one[0]))
        folder.average_weights(self.task.transformer, self._path, chosen)
        folder.save_weights(self.task.transformer, self._path / folder.WEIGHTS)
        result = {
            "finished": journal.ended != "minutes",
            "ended": journal.ended,
            "step": journal.step,
            "minutes": round(timer.elapsed() / 60, 2),
            "minutes_allowed": self._minutes,
            "average_of_steps": chosen,
            "validation": {name: round(value, 4)},
        }
        config = dataclasses.replace(self._config, result=result)
        folder.save_config(self._path, config)
        if config.finished:
            self._state.unlink(missing_ok=True)
        return config

    def _score(self) -> tuple[str, float]:
        if self._training.stop_on == "score":
            return self._scorer()[:2]
        validation = self._validation_data()
        logs = self.task.evaluate(validation["data"], steps=validation["steps"], verbose=0, return_dict=True)
        return "val_loss", float(logs["loss"])
