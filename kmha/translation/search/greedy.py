"""`Greedy` search, and the loop of the methods that follow one hypothesis in every row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kmha.core.tensors import at_least_float32
from kmha.translation.decoding import Hypothesis, Search, emitted, growing, log_probability
from kmha.translation.tokenizer import END, PAD, START

Choose = Callable[[Any, Any], tuple[Any, Any]]


class Greedy(Search):
    """Takes the most probable token at every position.

    Args:
        model: a `kmha.layers.Transformer`.
        max_length: the most tokens of a hypothesis, the end included: an integer, or a function of the number of source
            ids; never more than the model has target positions for.

    Call arguments:
        source_ids: integers (B, S), each sentence with its end token, padded with 0 at its end.

    Returns:
        A list of one `Hypothesis` for each of the B sentences; its score is its log probability.

    Raises:
        ValueError: an argument does not fit; the message says how to mend it.

    >>> from kmha.layers import Transformer
    >>> search = Greedy(Transformer(1, 6, 2, 8, 11, 13, 17, 19), max_length=5)
    >>> [[hypothesis]] = search([[4, 7, 2]])
    >>> hypothesis.finished or len(hypothesis.ids) == 5
    True
    """

    def _search(self, source: Any, limits: Any) -> tuple[Any, Any]:
        cache = self.model.start_cache(source)
        return follow(self.model, cache, limits, most_probable)

    def _hypotheses(self, limits: np.ndarray, *results: np.ndarray) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in followed(limits, *results)]


def most_probable(logits: Any, step: Any) -> tuple[Any, Any]:
    """The tokens (N,) of the largest `logits` (N, V) that can be emitted, and their log probabilities (N,)."""
    logits = emitted(logits)
    ids = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return ids, log_probability(logits, ids)


def follow(model: Any, cache: Any, limits: Any, choose: Choose) -> tuple[Any, Any]:
    """Steps from the start token until every row has ended or is at its limit.

    Args:
        model: what steps.
        cache: of N rows.
        limits: int32 (N,).
        choose: of logits (N, V) and the step: tokens int32 (N,) and their log probabilities (N,).

    Returns:
        The tokens (T, N), padded after the end, and the sums of their log probabilities (N,).
    """
    rows = tf.shape(limits)[0]
    ids, done = tf.fill([rows], START), tf.zeros([rows], bool)

    def body(step: Any, ids: Any, done: Any, total: Any, written: Any, cache: Any) -> tuple[Any, ...]:
        logits, cache = model.step(ids, cache)
        ids, gained = choose(logits, step)
        ids, total = tf.where(done, PAD, ids), total + tf.where(done, tf.zeros_like(gained), gained)
        written = written.write(step, ids)
        step += 1
        return step, ids, done | (ids == END) | (step >= limits), total, written, cache

    written = tf.TensorArray(tf.int32, tf.reduce_max(limits), element_shape=[None])
    start = tf.constant(0), ids, done, tf.zeros([rows], at_least_float32(model.compute_dtype)), written, cache
    shapes = (None,) * 5 + (growing(cache),)
    end = tf.while_loop(lambda step, ids, done, *_: ~tf.reduce_all(done), body, start, shapes)
    step, _, _, total, written, _ = end
    return written.gather(tf.range(step)), total


def followed(limits: np.ndarray, tokens: np.ndarray, total: np.ndarray) -> list[Hypothesis]:
    """The hypotheses of N rows from what `follow` returns."""
    hypotheses = []
    for limit, ids, gained in zip(limits, tokens.T, total.tolist(), strict=True):
        ends = np.flatnonzero(ids == END)
        length = ends[0] if len(ends) else limit
        found = tuple(ids[:length].tolist())
        hypotheses.append(Hypothesis(found, gained, gained, finished=bool(len(ends))))
    return hypotheses
