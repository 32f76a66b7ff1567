"""Time generation with a cache of keys and values, position by position, against KerasHub's layer."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

import kmha
from kmha.bench import contenders, timing
from kmha.bench.cases import HEADS, WIDTH

BATCHES, LENGTHS, MODES = (1, 8), (32, 128, 512, 2048), ("graph", "xla")
STEPS = 32  # number of positions to generate, which are spread over the cache
PEER, OURS = "KerasHub", "kmha"


@dataclasses.dataclass(frozen=True)
class Row:
    """The times of generating `STEPS` positions.

    Attributes:
        batch: Number of sequences (B).
        length: Number of positions in the cache (S).
        mode: "graph", or "xla" for a loop that XLA compiles.
        rounds: Milliseconds of each round's runs, keyed by the name of the layer.
    """

    batch: int
    length: int
    mode: str
    rounds: list[timing.Round]

    def milliseconds(self, name: str) -> float:
        """Return the median time of one position."""
        return statistics.median(time for one in self.rounds for time in one[name]) / STEPS

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios to KerasHub."""
        return statistics.median(statistics.median(one[OURS]) / statistics.median(one[PEER]) for one in self.rounds)


def measure(
    batches: Iterable[int] = BATCHES,
    lengths: Iterable[int] = LENGTHS,
    modes: Iterable[str] = MODES,
    rounds: int = 9,
    seconds: float = 4.0,
) -> Iterator[Row]:
    """Yield the rows, each after checking that both layers give the same output.

    A loop generates one position after the other. Each position's input is the last output and a constant. KerasHub's
    layer gets a mask that hides positions which are not written yet, and kmha's layer `use_causal_mask`.

    Raises:
        ContendersDisagree: The outputs differ.
    """
    from keras_hub.layers import CachedMultiHeadAttention  # an extra

    for mode in modes:
        for batch in batches:
            for length in lengths:
                keras.backend.clear_session()
                x = tf.random.stateless_normal((batch, 1, WIDTH), (0, 1))
                steps = {PEER: _masked(_layer(CachedMultiHeadAttention), length), OURS: _causal(_layer(_OURS))}
                runs = {name: _loop(step, x, length, mode == "xla") for name, step in steps.items()}
                results = {name: {"output": run().numpy()} for name, run in runs.items()}
                row = f"B={batch}, S={length}, {mode}"
                contenders.check_agreement(row, OURS, results[OURS], PEER, results[PEER])
                yield Row(batch, length, mode, [*timing.rounds(runs, rounds, seconds)])


_OURS = kmha.MultiHeadAttention
Step = Callable[[Any, Any, Any], tuple[Any, Any]]  # (x, cache, index) -> (output, cache)


def _layer(layer_class: type) -> Any:
    """Return a layer whose weights depend on the seed alone."""
    keras.utils.set_random_seed(0)
    layer = layer_class(HEADS, WIDTH // HEADS)
    layer.build((None, 1, WIDTH), (None, 1, WIDTH))
    return layer


def _masked(layer: Any, length: int) -> Step:
    def step(x: Any, cache: Any, index: Any) -> tuple[Any, Any]:
        mask = tf.reshape(tf.range(length) <= index, (1, 1, length))
        output, cache = layer(x, x, attention_mask=mask, cache=cache, cache_update_index=index)
        return output, cache

    return step


def _causal(layer: Any) -> Step:
    def step(x: Any, cache: Any, index: Any) -> tuple[Any, Any]:
        output, cache = layer(x, x, use_causal_mask=True, cache=cache, cache_update_index=index)
        return output, cache

    return step


def _loop(step: Step, x: Any, length: int, compiled: bool) -> Callable[[], Any]:
    """Return a function that generates `STEPS` positions in one loop."""

    def body(done: Any, last: Any, cache: Any) -> tuple[Any, Any, Any]:
        output, cache = step(x + last, cache, done * length // STEPS)
        return done + 1, output, cache

    @tf.function(jit_compile=compiled, autograph=False)
    def run() -> Any:
        cache = tf.zeros((x.shape[0], 2, length, HEADS, WIDTH // HEADS))
        start = tf.constant(0), tf.zeros_like(x), cache
        return tf.while_loop(lambda done, *_: done < STEPS, body, start, maximum_iterations=STEPS)[1]

    return run


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table, with milliseconds for each position."""
    lines = [f"| B | S | mode | {PEER}, ms | {OURS}, ms | ratio |", "| --: | --: | :-- | --: | --: | --: |"]
    for row in rows:
        times = " | ".join(f"{row.milliseconds(name):.3g}" for name in (PEER, OURS))
        lines.append(f"| {row.batch} | {row.length} | {row.mode} | {times} | {row.ratio:.2f} |")
    return "\n".join(lines)
