"""`Beam` search with finished hypotheses kept apart, and a length penalty."""

from typing import Any

import numpy as np
import tensorflow as tf

from kmha.core.tensors import at_least_float32
from kmha.layers.cache import take
from kmha.translation.decoding import (
    Hypothesis,
    Length,
    Search,
    emitted,
    growing,
    largest,
    log_probability,
    usual_length,
)
from kmha.translation.tokenizer import END, START

NEVER = -np.inf  # the log probability of a beam that does not live, the score of a place that is free


class Beam(Search):
    """Keeps the K most probable beginnings of every sentence, and the K best hypotheses that they ended in.

    A hypothesis of n tokens, its end included, scores log_probability / lp(n), lp(n) = ((5 + n) / 6)^α (Wu et al. 2016,
    arXiv 1609.08144, equation 14, without the coverage). At every position the 2K best continuations of the K beams are
    looked at. Those among the first K that end are finished, and go into the pool of the K best so far; the first K
    that do not end live on, and there are always K of them, for no beam has two continuations that end.

    A sentence stops at its limit, or when its pool is full and no living beam can beat the worst in it. The bound: a
    beam's log probability can only fall, and lp is largest at the limit, so that nothing that comes of it can score
    more than log_probability / lp(limit). It is exact: going on would not change the pool. A beam of one stops at its
    first end, whatever the penalty: it is greedy search.

    Args:
        model: a `kmha.layers.Transformer`.
        beam_size: K.
        length_penalty: α, not negative; 0 favours short hypotheses, 1 is nearly the mean over the tokens.
        n_best: how many hypotheses are returned for each sentence, at most K.
        max_length: the most tokens of a hypothesis, the end included: an integer, or a function of the number of source
            ids; never more than the model has target positions for.

    Call arguments:
        source_ids: integers (B, S), each sentence with its end token, padded with 0 at its end.

    Returns:
        A list of `n_best` hypotheses for each of the B sentences: the finished ones, best first, and, where they are
        fewer, the beams that the limit cut off, best first. There can be fewer than `n_best` where the limit allows
        fewer.

    Raises:
        ValueError: an argument does not fit; the message says how to mend it.

    >>> from kmha.layers import Transformer
    >>> search = Beam(Transformer(1, 6, 2, 8, 11, 13, 17, 19), beam_size=4, n_best=3)
    >>> [hypotheses] = search([[4, 7, 2]])
    >>> len(hypotheses)
    3
    """

    def __init__(
        self,
        model: Any,
        *,
        beam_size: int = 5,
        length_penalty: float = 0.6,
        n_best: int = 1,
        max_length: Length = usual_length,
    ) -> None:
        super().__init__(model, max_length=max_length)
        self.beam_size = self._size("beam_size", beam_size, "It is K, the number of beams; 5 is usual.")
        fix = "0.6 is usual, 0 compares log probabilities as they are."
        expected = "a number that is not negative"
        self.length_penalty = self._number("length_penalty", length_penalty, expected, lambda x: x >= 0, fix)
        self.n_best = self._size("n_best", n_best, "It is how many hypotheses are returned for each sentence.")
        if self.n_best > self.beam_size:
            fix = f"Ask for beam_size={self.n_best} too."
            self._refuse("n_best", f"at most beam_size={beam_size}", f"n_best={n_best}", fix)

    def _search(self, source: Any, limits: Any) -> tuple[Any, ...]:
        """The record of every position, (T, B, K) each: see `_advance`."""
        count, longest, dtype = tf.shape(limits)[0], tf.reduce_max(limits), at_least_float32(self.model.compute_dtype)
        cache = self.model.start_cache(source, beams=self.beam_size)
        # The beams of a sentence begin alike: but for the first they do not live yet.
        living = tf.repeat(tf.constant([[0.0] + [NEVER] * (self.beam_size - 1)], dtype), count, axis=0)
        pool = tf.fill([count, self.beam_size], tf.constant(NEVER, dtype))
        kinds = dtype, tf.int32, tf.int32, dtype, tf.int32
        records = tuple(tf.TensorArray(kind, longest, element_shape=[None, self.beam_size]) for kind in kinds)

        def body(step: Any, ids: Any, living: Any, pool: Any, stopped: Any, records: Any, cache: Any) -> Any:
            logits, cache = self.model.step(ids, cache)
            record = self._advance(logits, living, stopped)
            records = tuple(array.write(step, x) for array, x in zip(records, record, strict=True))
            living, tokens, parents, ended, _ = record
            rows = parents + self.beam_size * tf.range(count)[:, tf.newaxis]
            cache = take(cache, tf.reshape(rows, [-1])) if self.beam_size > 1 else cache
            step += 1
            scores = ended / self._penalty(step, dtype)
            pool = tf.math.top_k(tf.concat([pool, scores], axis=1), self.beam_size).values
            stopped |= (step >= limits) | self._settled(pool, living, limits)
            return step, tf.reshape(tokens, [-1]), living, pool, stopped, records, cache

        start = tf.constant(0), tf.fill([count * self.beam_size], START), living, pool, tf.zeros([count], bool)
        shapes = (None,) * 5 + ((None,) * len(records), growing(cache))
        run = tf.while_loop(lambda *state: ~tf.reduce_all(state[4]), body, (*start, records, cache), shapes)
        return tuple(array.gather(tf.range(run[0])) for array in run[5])

    def _advance(self, logits: Any, living: Any, stopped: Any) -> tuple[Any, ...]:
        """One position's choice.

        Args:
            logits: (B * K, V).
            living: (B, K), the log probabilities of the beams.
            stopped: (B,), whose sentences finish nothing any more.

        Returns:
            (B, K) each: log probabilities, last tokens and parents of the beams that live on; log probabilities and
            parents of those that have just ended, `NEVER` where none has. A parent is the beam, from 0 to K - 1, that
            was continued.
        """
        size, count, logits = self.beam_size, tf.shape(living)[0], emitted(logits)
        values, tokens = largest(logits, 2 * size)  # of every beam; the sentence's are among them
        among = values.shape[-1]
        # Log probabilities: the largest one, and less for the others by as much as their logits are smaller.
        totals = values - values[:, :1] + log_probability(logits, tokens[:, 0])[:, tf.newaxis]
        totals = tf.reshape(totals, [count, size, among]) + living[:, :, tf.newaxis]
        totals = tf.reshape(totals, [count, size * among])
        totals, places = tf.math.top_k(totals, 2 * size)
        tokens = tf.gather(tf.reshape(tokens, [count, size * among]), places, batch_dims=1)
        parents, ends = places // among, tokens == END
        never = tf.fill(tf.shape(totals), tf.constant(NEVER, totals.dtype))
        living, kept = tf.math.top_k(tf.where(ends, never, totals), size)
        ended = tf.where(ends & ~stopped[:, tf.newaxis], totals, never)[:, :size]
        tokens, continued = tf.gather(tokens, kept, batch_dims=1), tf.gather(parents, kept, batch_dims=1)
        return living, tokens, continued, ended, parents[:, :size]

    def _settled(self, pool: Any, living: Any, limits: Any) -> Any:
        """(B,), whether no living beam can come into the pool, whose scores (B, K) are sorted like `living`."""
        if self.beam_size == 1:
            return pool[:, -1] > NEVER
        return pool[:, -1] >= living[:, 0] / self._penalty(limits, living.dtype)

    def _penalty(self, length: Any, dtype: Any) -> Any:
        return ((5 + tf.cast(length, dtype)) / 6) ** self.length_penalty

    def _hypotheses(self, limits: np.ndarray, *results: np.ndarray) -> list[list[Hypothesis]]:
        return [self._best(limit, *(x[:limit, row] for x in results)) for row, limit in enumerate(limits)]

    def _best(self, limit: int, living: Any, tokens: Any, parents: Any, ended: Any, ending: Any) -> list[Hypothesis]:
        """The hypotheses of one sentence from its record, (T, K) each."""

        def hypothesis(step: int, beam: int, total: float, finished: bool) -> Hypothesis:
            """What the beam holds after the tokens up to `step`."""
            ids = []
            length = step + finished
            while step:
                step -= 1
                ids.append(int(tokens[step, beam]))
                beam = parents[step, beam]
            score = total / ((5 + length) / 6) ** self.length_penalty
            return Hypothesis(tuple(reversed(ids)), float(total), float(score), finished)

        found = [
            hypothesis(int(step), int(ending[step, k]), ended[step, k], True) for step, k in np.argwhere(ended > NEVER)
        ]
        found.sort(key=lambda one: -one.score)
        if len(found) < self.n_best and len(living) == limit:
            cut = living[-1] > NEVER
            found += [hypothesis(limit, int(k), living[-1, k], False) for k in np.flatnonzero(cut)]
        return found[: self.n_best]
