"""`Pruning`, which removes the least important heads of a translation model in steps, and measures each step."""

import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from kmha import __version__
from kmha.layers import ablation_importance, gradient_importance, prune_heads
from kmha.translation import batches, folder, scores
from kmha.translation.callbacks import BATCH_TOKENS
from kmha.translation.corpora import Pairs
from kmha.translation.devices import Devices
from kmha.translation.task import TranslationTask
from kmha.translation.translator import Translator

RANKS = "gradient", "ablation"
STEPS = 12  # default of the maximum number of steps
SECONDS, ROUNDS = 2.0, 9  # the validation set is translated again until this time has passed, at most this often

OnProgress = Callable[[str], Any]  # called with what is being done


class PruningError(ValueError):
    """Raised if a model cannot be pruned as asked for."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """The model after a step. `removed` names heads by layer and their number in the whole model, counted from 0."""

    heads: int
    parameters: int
    loss: float  # per token of the validation set, with the label smoothing of the training
    score_name: str  # "bleu" or "exact_match"
    score: float
    seconds: float  # to translate the validation set greedily, without compilation; the median of some rounds
    tokens_per_second: float
    removed: tuple[tuple[str, int], ...]


class Pruning:
    """Removes heads from the model of a translator. It looks at the validation set only.

    The heads are ranked again at each step, because the others change their importance when one is removed. The
    model's layers keep at least one head each.

    Args:
        translator: Translator with the model of a folder. Its model changes.
        pairs: Validation set.
        rank: "gradient" ranks by `kmha.layers.gradient_importance`, with one backward pass over the validation set.
            "ablation" ranks by the change of the loss without each head, which takes a pass for each head.
        progress: Function to call with what is being done.

    Raises:
        PruningError: All pairs are too long for the model.
    """

    def __init__(
        self, translator: Translator, pairs: Pairs, rank: str = "gradient", progress: OnProgress = lambda text: None
    ) -> None:
        if rank not in RANKS:
            raise ValueError(f"rank must be one of {', '.join(map(repr, RANKS))}. Received: {rank!r}.")
        if translator.config is None:
            raise ValueError("Pruning needs a translator with a config: load it with Translator.load(folder).")
        self._config: folder.Config = translator.config
        self._model, self._tokenizer, self._pairs = translator.model, translator.tokenizer, pairs
        self._rank, self._progress = rank, progress
        training = self._config.settings.training
        source, target = (self._tokenizer.encode(texts) for texts in (pairs.source, pairs.target))
        try:
            rows = batches.rows_that_fit(source, target, self._config.settings.data.max_length)
        except ValueError as error:
            raise PruningError(f"{pairs.name}: {error}") from None
        chosen = [source[row] for row in rows], [target[row] for row in rows]
        self._batches = list(batches.validation_batches(*chosen, training.tokens_per_batch))
        self._task = TranslationTask(self._model, training.label_smoothing)
        self._task.build(None)
        self._task.compile(jit_compile=keras.backend.backend() == "jax")
        self._left = {name: self._numbers(name, layer) for name, layer in self._model.attentions().items()}

    @property
    def heads(self) -> int:
        """Number of heads of all layers together."""
        return sum(map(len, self._left.values()))

    def run(self, keep: float, steps: int | None = None) -> Iterator[Measured]:
        """Remove heads, and yield the measures of the whole model and of the model after each step.

        Args:
            keep: Share of the heads to keep, more than 0 and at most 1.
            steps: Number of steps. `None` means a step for each head, but at most `STEPS`.

        Raises:
            PruningError: More heads would be removed than can be, or there are more steps than heads to remove.
        """
        whole = self.heads
        remove = whole - round(keep * whole)
        if whole - remove < len(self._left):
            least = math.ceil(1000 * len(self._left) / whole) / 1000
            raise PruningError(
                f"each of the {len(self._left)} attention layers keeps at least one head of {whole}. Received: "
                f"keep={keep:g}, which leaves {whole - remove}. Give at least {least:g}."
            )
        steps = min(remove, STEPS) if steps is None else steps
        if steps > remove:
            raise PruningError(f"there are {remove} heads to remove. Received: {steps} steps. Give at most {remove}.")
        yield self.measure()
        for step in range(1, steps + 1):
            count = self.heads - (whole - round(remove * step / steps))
            yield self.measure(self.remove(count))

    def measure(self, removed: tuple[tuple[str, int], ...] = ()) -> Measured:
        """Return the measures of the model as it is, after a step that has `removed` heads."""
        self._progress("translating")
        translator = Translator(self._model, self._tokenizer, self._config.settings.search, self._config)
        options: dict[str, Any] = {"batch_tokens": BATCH_TOKENS, "note": lambda row, text: None}
        translator.translate(self._pairs.source[:1], "greedy", **options)  # compiles
        times: list[float] = []
        while sum(times) < SECONDS and len(times) < ROUNDS:
            start = time.perf_counter()
            found = [best for best, *_ in translator.translate(self._pairs.source, "greedy", **options)]
            times.append(time.perf_counter() - start)
        seconds = statistics.median(times)
        exact = self._config.task == "dates"
        score = (scores.exact_match if exact else scores.bleu)([one.text for one in found], self._pairs.target)
        tokens = sum(len(one.ids) + one.finished for one in found)
        name = "exact_match" if exact else "bleu"
        values = self.heads, self._model.count_params(), self.loss(), name, score.value, seconds, tokens / seconds
        return Measured(*values, removed)

    def loss(self) -> float:
        """Return the loss per token of the validation set."""
        self._progress("computing the loss")
        longest = self._config.settings.data.max_length
        data = Devices().dataset(lambda: iter(self._batches), longest)
        logs = self._task.evaluate(data, steps=len(self._batches), verbose=0, return_dict=True)
        return float(logs["loss"])

    def importance(self) -> dict[str, np.ndarray]:
        """Return the importance (H,) of the heads of each layer. A head of little importance can be removed."""
        self._progress("ranking the heads")
        layers = list(self._model.attentions().values())
        if self._rank == "ablation":
            found = ablation_importance(layers, self.loss)
        else:
            found = [np.zeros(layer.num_heads) for layer in layers]
            for batch in self._batches:
                rows = len(batch.target)
                of_batch = gradient_importance(layers, functools.partial(self._sum_of_losses, batch), rows)
                found = [total + rows * one for total, one in zip(found, of_batch, strict=True)]
            sentences = sum(len(batch.target) for batch in self._batches)
            found = [total / sentences for total in found]
        return dict(zip(self._left, found, strict=True))

    def remove(self, count: int) -> tuple[tuple[str, int], ...]:
        """Remove the `count` least important heads, and return their names and numbers in the whole model."""
        ranked = sorted(
            (value, name, head) for name, values in self.importance().items() for head, value in enumerate(values)
        )
        chosen: dict[str, list[int]] = {name: [] for name in self._left}
        order: list[tuple[str, int]] = []
        for _, name, head in ranked:
            if len(order) < count and len(chosen[name]) + 1 < len(self._left[name]):
                chosen[name].append(head)
                order.append((name, self._left[name][head]))
        for name, heads in chosen.items():
            prune_heads(self._model.attentions()[name], heads, self._task)
            self._left[name] = [number for head, number in enumerate(self._left[name]) if head not in heads]
        return tuple(order)

    def config(self, last: Measured) -> folder.Config:
        """Return the config of the folder for the model after the `last` step."""
        result = {**self._config.result, "pruned": {"rank": self._rank, "heads": self._left}}
        result["validation"] = {last.score_name: round(last.score, 4)}
        heads = self._model.heads or {}
        return dataclasses.replace(self._config, heads=heads, result=result, kmha=__version__, format=folder.FORMAT)

    def _numbers(self, name: str, layer: Any) -> list[int]:
        """Return the numbers in the whole model of a layer's heads, which the config has if the model is pruned."""
        found: Any = self._config.result
        whole = range(self._config.settings.model.num_heads)
        for key in ("pruned", "heads", name):
            found = found.get(key) if isinstance(found, dict) else None
        usable = isinstance(found, list) and all(type(number) is int and number in whole for number in found)
        if usable and len(set(found)) == len(found) == layer.num_heads:
            return list(found)
        return list(range(layer.num_heads))

    def _sum_of_losses(self, batch: batches.Batch) -> Any:
        return self._task.sums(self._task(batch.inputs, training=False), batch.target).loss
