"""`Sampling`: targets drawn from the model's distribution."""

import random
from typing import Any

import numpy as np
import tensorflow as tf

from kmha.layers import arguments
from kmha.translation.decoding import Hypothesis, Length, Search, emitted, largest, usual_length
from kmha.translation.greedy import follow, followed
from kmha.translation.tokenizer import PAD


class Sampling(Search):
    """Draws every token from the model's distribution, sharpened or cut as asked for.

    The logits are divided by `temperature`; of the tokens only the `top_k` most probable ones stay, and of their
    distribution the nucleus, the fewest tokens whose probabilities sum to `top_p` (Holtzman et al. 2020, section 3.1).
    The random numbers of a hypothesis are drawn from the seed, its number and its sentence's own ids: a batch gives
    what its sentences give one by one, whatever their order and padding, and a sentence that stands twice in a batch
    gives the same samples twice.

    Args:
        model: a `kmha.layers.Transformer`.
        temperature: above 0; below 1 it favours what is probable.
        top_k: how many tokens can be drawn; `None` means all.
        top_p: the probability that the tokens that can be drawn hold at least, above 0 and at most 1; `None` means all.
        seed: of the random numbers, an integer that is not negative; `None` takes a new one in every call, from
            Python's generator, which `keras.utils.set_random_seed` seeds.
        samples: how many hypotheses are drawn for each sentence, independently: they can be equal.
        max_length: the most tokens of a hypothesis, the end included: an integer, or a function of the number of source
            ids; never more than the model has target positions for.

    Call arguments:
        source_ids: integers (B, S), each sentence with its end token, padded with 0 at its end.

    Returns:
        A list of `samples` hypotheses for each of the B sentences, the most probable first. Log probabilities, which
        are the scores too, are those at temperature 1 with nothing cut off.

    Raises:
        ValueError: an argument does not fit; the message says how to mend it.

    >>> from kmha.layers import Transformer
    >>> search = Sampling(Transformer(1, 6, 2, 8, 11, 13, 17, 19), top_p=0.9, seed=3, samples=4)
    >>> ids = lambda found: [hypothesis.ids for hypothesis in found[0]]
    >>> ids(search([[4, 7, 2]])) == ids(search([[4, 7, 2, 0]]))
    True
    """

    signature = (*Search.signature, tf.TensorSpec([None, None], tf.float64))

    def __init__(
        self,
        model: Any,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        samples: int = 1,
        max_length: Length = usual_length,
    ) -> None:
        super().__init__(model, max_length=max_length)
        fix = "1 leaves the distribution as it is, 0.7 is usual; for the most probable token use Greedy."
        self.temperature = self._number("temperature", temperature, "a number above 0", lambda x: x > 0, fix)
        fix = "It is how many tokens can be drawn; leave it out for all."
        self.top_k = None if top_k is None else self._size("top_k", top_k, fix)
        fix, expected = "0.9 is usual; leave it out for all tokens.", "a number above 0 and at most 1"
        self.top_p = None if top_p is None else self._number("top_p", top_p, expected, lambda x: 0 < x <= 1, fix)
        self.samples = self._size("samples", samples, "It is how many hypotheses are drawn for each sentence.")
        self.seed = arguments.seed(type(self).__name__, seed)
        if seed is not None and seed < 0:
            fix = "Leave it out for a new one in every call."
            raise arguments.invalid(type(self).__name__, "seed", "an integer that is not negative", seed, fix)

    def _inputs(self, source: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, ...]:
        return source, limits, uniform(source, self.samples, limits.max(), self.seed)

    def _search(self, source: Any, limits: Any, draws: Any) -> tuple[Any, Any]:  # type: ignore[override]
        cache, limits = self.model.start_cache(source, beams=self.samples), tf.repeat(limits, self.samples)
        return follow(self.model, cache, limits, lambda logits, step: self._choose(logits, draws[:, step]))

    def _hypotheses(self, limits: np.ndarray, *results: np.ndarray) -> list[list[Hypothesis]]:
        drawn = followed(np.repeat(limits, self.samples), *results)
        sentences = [drawn[start : start + self.samples] for start in range(0, len(drawn), self.samples)]
        return [sorted(sentence, key=lambda hypothesis: -hypothesis.score) for sentence in sentences]

    def _choose(self, logits: Any, draw: Any) -> tuple[Any, Any]:
        """Tokens (N,) and their log probabilities (N,) for logits (N, V) and numbers from [0, 1) (N,)."""
        logits = emitted(logits)
        tokens, probabilities = self._candidates(logits / self.temperature)
        # In float64, for a sum of thousands of float32 would shift the tokens' shares.
        reached = tf.cumsum(tf.cast(probabilities, tf.float64), axis=-1)
        total = reached[:, -1:]
        # The second bound: rounding must not let a draw pass the last token that has a share.
        place = tf.minimum(_count(reached <= draw[:, tf.newaxis] * total), _count(reached < total))
        chosen = place if tokens is None else tf.gather(tokens, place, batch_dims=1)
        return chosen, tf.gather(tf.nn.log_softmax(logits), chosen, batch_dims=1)

    def _candidates(self, logits: Any) -> tuple[Any, Any]:
        """The tokens (N, C) that can be drawn, `None` for all, and their probabilities (N, C) up to a factor."""
        if self.top_k is None and self.top_p is None:
            return None, tf.nn.softmax(logits)
        width = logits.shape[-1]
        logits, tokens = largest(logits, width if self.top_k is None else min(self.top_k, width))
        probabilities = tf.nn.softmax(logits)
        if self.top_p is not None:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < self.top_p, probabilities, tf.zeros_like(probabilities))
        return tokens, probabilities


def uniform(source: np.ndarray, samples: int, length: int, seed: int | None) -> np.ndarray:
    """Numbers from [0, 1), float64 (B * samples, length), that depend on seed, sample and the row's ids alone."""
    seed = random.getrandbits(63) if seed is None else seed
    sentences = [row[row != PAD].tolist() for row in source]
    keys = ([seed, sample, *ids] for ids in sentences for sample in range(samples))
    return np.stack([np.random.default_rng(key).random(length) for key in keys])


def _count(true: Any) -> Any:
    return tf.reduce_sum(tf.cast(true, tf.int32), axis=-1)
