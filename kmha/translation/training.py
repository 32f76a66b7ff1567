"""A training run from its first step, or from where it was stopped, to the finished model."""

import dataclasses
import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from kmha.translation import batches, callbacks, checkpoint, folder, weights
from kmha.translation.checkpoint import Journal
from kmha.translation.corpora import Corpus, Pairs
from kmha.translation.folder import Config
from kmha.translation.schedule import InverseSquareRoot
from kmha.translation.settings import TrainingSettings
from kmha.translation.start import Listener
from kmha.translation.task import TranslationTask
from kmha.translation.tokenizer import Tokenizer
from kmha.translation.translator import Translator
from kmha.translation.validation import Scorer, pairs_in_order

AHEAD = 8  # batches that are made while another is learnt from


class Run:
    """One session of training.

    The weights after a step depend on the settings, the seed, the data and the step, not on how often the run was
    stopped: see `checkpoint.save`, and `batches.stream` for the data.

    Args:
        path: the model folder, as `start.begin` makes it.
        config: of the folder.
        tokenizer: of the folder.
        corpus: to train and to validate on.
        minutes: for all sessions together; `None` is no limit.
        listener: is told how far it is.
        begun: by `time.monotonic`, when this session began; `None` is now.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        tokenizer: Tokenizer,
        corpus: Corpus,
        *,
        minutes: float | None = None,
        listener: Listener | None = None,
        begun: float | None = None,
    ) -> None:
        begun = time.monotonic() if begun is None else begun
        self._path, self._config, self._minutes = path, config, minutes
        self._listener = listener or Listener()
        self._clock: Callable[[], float] = lambda: time.monotonic() - begun
        keras.utils.set_random_seed(config.seed)
        self.task = make_task(folder.build(config), config.settings.training)
        self._train = self._encoded(tokenizer, corpus.train, "training")
        validation = pairs_in_order(
            *self._encoded(tokenizer, corpus.validation, "validation"), self._training.tokens_per_batch
        )
        self._validation = list(validation)
        self._scorer = Scorer(
            Translator(self.task.transformer, tokenizer, config.settings.search),
            corpus.validation,
            exact=config.task == "dates",
            count=self._training.scored_sentences,
            samples=self._training.samples,
        )

    def __call__(self) -> Config:
        """Trains to the end, or until time is up, and leaves a finished model in the folder.

        Returns:
            The config as it is in the folder then, with the result.

        Raises:
            CheckpointError: the state in the folder cannot be gone on from.
        """
        journal = self._resumed()
        timer = callbacks.Timer(journal, self._minutes, self._clock)
        while not journal.ended:
            self._fit(journal, timer)
        return self._finish(journal, timer)

    @property
    def _training(self) -> TrainingSettings:
        return self._config.settings.training

    @property
    def _state(self) -> Path:
        return self._path / weights.CHECKPOINTS / weights.STATE

    def _encoded(self, tokenizer: Tokenizer, pairs: Pairs, what: str) -> tuple[list[list[int]], list[list[int]]]:
        """Both sides as ids, without pairs that are longer than the settings allow."""
        source, target = tokenizer.encode(pairs.source), tokenizer.encode(pairs.target)
        rows = batches.fitting(source, target, self._config.settings.data.max_length)
        left_out = len(source) - len(rows)
        if left_out:
            longest = self._config.settings.data.max_length
            self._listener.note(f"{left_out:,} {what} pairs are longer than data.max_length={longest} tokens: left out")
        return [source[row] for row in rows], [target[row] for row in rows]

    def _resumed(self) -> Journal:
        """The journal of the sessions before this one, whose state the task gets; or a new one."""
        if not self._state.exists():
            callbacks.write_logs(self._path / folder.LOGS, Journal())
            return Journal()
        journal = checkpoint.load(self._state, self.task)
        weights.forget(self._path, after=journal.step)  # a killed run may have got further than its state
        self._listener.resumed(journal.step)
        callbacks.write_logs(self._path / folder.LOGS, journal)
        if journal.ended == "minutes":
            journal.ended = ""
        return journal

    def _fit(self, journal: Journal, timer: callbacks.Timer) -> None:
        """To the next regular check first, where a session ended between two; then on, as far as they are regular."""
        training = self._training
        remaining = training.steps - journal.step
        length = min(training.steps_between_checks - journal.step % training.steps_between_checks, remaining)
        regular = length == training.steps_between_checks
        self.task.fit(
            self._batches(journal.step),
            steps_per_epoch=length,
            epochs=remaining // length if regular else 1,
            validation_data=_dataset(lambda: iter(self._validation), len(self._validation)),
            callbacks=self._callbacks(journal, timer),
            shuffle=False,  # the batches come in an order of their own
            verbose=0,
        )

    def _callbacks(self, journal: Journal, timer: callbacks.Timer) -> list[Any]:
        with_board = importlib.util.find_spec("tensorboard") is not None
        return [
            timer,
            callbacks.Translate(journal, self._scorer),
            callbacks.Record(journal, self._config, timer),
            callbacks.Keep(journal, self._config, self._path),
            callbacks.Logs(journal, self._path, with_board),
            callbacks.SaveState(journal, self._state),
            callbacks.Tell(journal, self._listener.step, self._listener.check),
        ]

    def _batches(self, step: int) -> Any:
        training = self._training
        return _dataset(
            lambda: batches.stream(
                *self._train,
                tokens=training.tokens_per_batch,
                seed=self._config.seed,
                start_step=step,
                max_length=self._config.settings.data.max_length,
            )
        )

    def _finish(self, journal: Journal, timer: callbacks.Timer) -> Config:
        """The average of the last checks, or the best single one if that does better on the validation set."""
        steps = [step for step in weights.kept_steps(self._path) if step <= journal.step]
        last = weights.last(steps, self._training.average, self._training.steps_between_checks)
        best = [step for step in steps if step == journal.best_step]
        scored = []
        for chosen in [last] if best in ([], last) else [last, best]:
            weights.average(self.task.transformer, self._path, chosen)
            scored.append((self._score(), chosen))
        (name, value), chosen = max(scored, key=lambda one: callbacks.goodness(*one[0]))
        weights.average(self.task.transformer, self._path, chosen)
        weights.save(self.task.transformer, self._path / folder.WEIGHTS)
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
        data = _dataset(lambda: iter(self._validation), len(self._validation))
        return "val_loss", float(self.task.evaluate(data, verbose=0, return_dict=True)["loss"])


def make_task(transformer: Any, training: TrainingSettings) -> TranslationTask:
    """What `fit` trains, compiled, with the optimizer's variables made."""
    task = TranslationTask(transformer, training.label_smoothing)
    task.build(None)
    task.compile(
        optimizer=keras.optimizers.Adam(
            InverseSquareRoot(training.peak_learning_rate, training.warmup_steps),
            beta_1=training.beta_1,
            beta_2=training.beta_2,
            epsilon=training.epsilon,
            global_clipnorm=training.clip_norm or None,
        ),
        jit_compile=False,  # halved the speed of this model on the CPU
    )
    task.optimizer.build(task.trainable_variables)
    return task


def _dataset(generator: Callable[[], Iterator[Any]], count: int | None = None) -> Any:
    ids = tf.TensorSpec([None, None], tf.int32)
    data = tf.data.Dataset.from_generator(generator, output_signature=((ids, ids), ids))
    if count is not None:
        data = data.apply(tf.data.experimental.assert_cardinality(count))
    return data.prefetch(AHEAD)
