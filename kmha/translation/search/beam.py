"""Beam search with a pool of finished hypotheses and a length penalty."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

from kmha.translation.lazy import np, tf
from kmha.translation.search.loop import allowed, largest, log_probability, repeat
from kmha.translation.search.method import Hypothesis, Length, Option, SearchMethod, usual_length
from kmha.translation.tokenizer import END, START

NEVER = -math.inf  # log probability of a beam that does not exist yet, or score of a free place in the pool


class Beam(SearchMethod):
    """Keeps the K most probable beginnings of every sentence, and the K best finished hypotheses.

    A hypothesis of n tokens, including its end token, has the score log_probability / lp(n) with lp(n) = ((5 + n) /
    6)^α (Wu et al. 2016, arXiv 1609.08144, equation 14, without the coverage penalty). At every position, the search
    looks at the 2K best continuations of the K beams. Among the first K continuations, those with an end token are
    finished. They enter the pool, which keeps the K best hypotheses so far. The first K continuations without an end
    token become the next beams. There are always K of these, because each beam has only one continuation with an end
    token.

    The search for a sentence stops at the sentence's limit, or when the pool is full and no beam can beat the worst
    hypothesis in the pool. A beam's log probability can only fall, and lp is largest at the limit, so no continuation
    can score more than log_probability / lp(limit). So more steps would not change the pool. With one beam, the search
    is greedy search, and stops at the first end token, whatever the penalty.

    Args:
        model, max_length: As in `SearchMethod`.
        beam_size: Number of beams (K).
        length_penalty: Exponent α of the length penalty, from 0 to 10. 0 favours short hypotheses. With 1, the score is
            nearly the mean over the tokens.
        n_best: Number of hypotheses to return for each sentence, at most K.

    Returns:
        A list of `n_best` hypotheses for each of the B sentences: first the finished hypotheses, then those that the
        limit truncated, both sorted from the best. A low limit can allow fewer than `n_best` hypotheses.

    >>> from kmha.layers import Transformer
    >>> search = Beam(Transformer(1, 6, 2, 8, 11, 13, 17, 19), beam_size=4, n_best=3)
    >>> [hypotheses] = search([[4, 7, 2]])
    >>> len(hypotheses)
    3
    """

    name = "beam"
    title = "the beam search"

    def __init__(
        self,
        model: Any,
        *,
        beam_size: Annotated[
            int,
            Option(
                "Number of beams.",
                "It is K, the number of beams; 5 is usual.",
                lowest=1,
                flag="--beam",
                metavar="K",
                setting=True,
            ),
        ] = 5,
        length_penalty: Annotated[
            float,
            Option(
                "Exponent of the length penalty; larger values give longer translations.",
                "0.6 is usual, 0 compares the log probabilities themselves.",
                lowest=0,
                highest=10,
                metavar="A",
                setting=True,
            ),
        ] = 0.6,
        n_best: Annotated[
            int,
            Option(
                "Print the N best translations, with number and score.",
                "It is the number of hypotheses that are returned for each sentence.",
                lowest=1,
            ),
        ] = 1,
        max_length: Length = usual_length,
    ) -> None:
        super().__init__(model, max_length=max_length)
        self.beam_size = self._checked("beam_size", beam_size)
        self.length_penalty = self._checked("length_penalty", length_penalty)
        self.n_best = self._checked("n_best", n_best)
        self.check({"beam_size": self.beam_size, "n_best": self.n_best})

    @property
    def width(self) -> int:
        return self.beam_size

    @classmethod
    def arguments(cls, settings: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments. Widen the beam of the model's settings to `n_best` if necessary."""
        arguments = super().arguments(settings, given)
        if "beam_size" in arguments and "beam_size" not in given:
            arguments["beam_size"] = max(arguments["beam_size"], given.get("n_best", 1))
        return arguments

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Raise a ValueError if the beam is narrower than `n_best`."""
        if "beam_size" in options and options.get("n_best", 1) > options["beam_size"]:
            raise ValueError(
                f"Beam: n_best must be at most beam_size. Received: n_best={options['n_best']}, "
                f"beam_size={options['beam_size']}. Raise beam_size (--beam), or lower n_best (--n-best)."
            )

    def _search(self, source: Any, limits: Any) -> tuple[Any, ...]:
        """Return the records of all positions as arrays (T, B, K), see `_advance`."""
        count, longest, dtype = tf.shape(limits)[0], tf.reduce_max(limits), self._steps.dtype
        cache = self._steps.start(source, self.beam_size, longest)
        # All beams of a sentence start alike, so only the first beam exists at first.
        living = tf.repeat(tf.constant([[0.0] + [NEVER] * (self.beam_size - 1)], dtype), count, axis=0)
        pool = tf.fill([count, self.beam_size], tf.constant(NEVER, dtype))
        kinds = dtype, tf.int32, tf.int32, dtype, tf.int32
        records = tuple(tf.TensorArray(kind, longest, element_shape=[None, self.beam_size]) for kind in kinds)

        def body(step: Any, ids: Any, living: Any, pool: Any, stopped: Any, records: Any, cache: Any) -> Any:
            logits, cache = self._steps.step(ids, cache)
            record = self._advance(logits, living, stopped)
            records = tuple(array.write(step, x) for array, x in zip(records, record, strict=True))
            living, tokens, parents, ended, _ = record
            rows = parents + self.beam_size * tf.range(count)[:, tf.newaxis]
            cache = self._steps.take(cache, tf.reshape(rows, [-1])) if self.beam_size > 1 else cache
            step += 1
            scores = ended / self._penalty(step, dtype)
            pool = tf.math.top_k(tf.concat([pool, scores], axis=1), self.beam_size).values
            stopped |= (step >= limits) | self._settled(pool, living, limits)
            return step, tf.reshape(tokens, [-1]), living, pool, stopped, records, cache

        start = tf.constant(0), tf.fill([count * self.beam_size], START), living, pool, tf.zeros([count], bool)
        end = repeat(lambda *state: ~tf.reduce_all(state[4]), body, (*start, records, cache))
        return tuple(array.gather(tf.range(end[0])) for array in end[5])

    def _advance(self, logits: Any, living: Any, stopped: Any) -> tuple[Any, ...]:
        """Choose the beams of the next position from logits (B * K, V) and the beams' log probabilities (B, K).

        `stopped` (B,) marks the sentences whose search has finished.

        Returns:
            Arrays (B, K): log probabilities, last tokens and parents of the next beams, and log probabilities and
            parents of the hypotheses that have just ended. A log probability is `NEVER` where no hypothesis has ended.
            A parent is the index of the beam that was continued, from 0 to K - 1.
        """
        size, count, logits = self.beam_size, tf.shape(living)[0], allowed(logits)
        values, tokens = largest(logits, 2 * size)  # the best tokens of every beam include the best of the sentence
        width = values.shape[-1]
        # Log probabilities differ from the largest log probability by as much as logits differ from the largest logit.
        totals = values - values[:, :1] + log_probability(logits, tokens[:, 0])[:, tf.newaxis]
        totals = tf.reshape(totals, [count, size, width]) + living[:, :, tf.newaxis]
        totals = tf.reshape(totals, [count, size * width])
        totals, indices = tf.math.top_k(totals, 2 * size)
        tokens = tf.gather(tf.reshape(tokens, [count, size * width]), indices, batch_dims=1)
        parents, ends = indices // width, tokens == END
        never = tf.fill(tf.shape(totals), tf.constant(NEVER, totals.dtype))
        living, kept = tf.math.top_k(tf.where(ends, never, totals), size)
        ended = tf.where(ends & ~stopped[:, tf.newaxis], totals, never)[:, :size]
        tokens, continued = tf.gather(tokens, kept, batch_dims=1), tf.gather(parents, kept, batch_dims=1)
        return living, tokens, continued, ended, parents[:, :size]

    def _settled(self, pool: Any, living: Any, limits: Any) -> Any:
        """Return a mask (B,), True if no beam can enter the sentence's pool. `pool` and `living` (B, K) are sorted."""
        if self.beam_size == 1:
            return pool[:, -1] > NEVER
        return pool[:, -1] >= living[:, 0] / self._penalty(limits, living.dtype)

    def _penalty(self, length: Any, dtype: Any) -> Any:
        return ((5 + tf.cast(length, dtype)) / 6) ** self.length_penalty

    def _hypotheses(self, limits: Any, *results: Any) -> list[list[Hypothesis]]:
        return [self._best(limit, *(x[:limit, row] for x in results)) for row, limit in enumerate(limits)]

    def _best(self, limit: int, living: Any, tokens: Any, parents: Any, ended: Any, ending: Any) -> list[Hypothesis]:
        """Return the best hypotheses of one sentence from its records, which are arrays (T, K)."""

        def hypothesis(step: int, beam: int, total: float, finished: bool) -> Hypothesis:
            """Return the hypothesis of the beam after `step` tokens."""
            ids, beams = [], [beam] * finished
            length = step + finished
            while step:
                step -= 1
                ids.append(int(tokens[step, beam]))
                beam = int(parents[step, beam])
                beams.append(beam)
            score = total / ((5 + length) / 6) ** self.length_penalty
            return Hypothesis(tuple(reversed(ids)), float(total), float(score), finished, tuple(reversed(beams)))

        found = [
            hypothesis(int(step), int(ending[step, k]), ended[step, k], True) for step, k in np.argwhere(ended > NEVER)
        ]
        found.sort(key=lambda one: -one.score)
        if len(found) < self.n_best and len(living) == limit:
            truncated = np.flatnonzero(living[-1] > NEVER)
            found += [hypothesis(limit, int(k), living[-1, k], False) for k in truncated]
        return found[: self.n_best]
