"""Sampling, which draws targets at random from the model's distribution."""

import random
from typing import Annotated, Any

from kmha.translation.lazy import np, tf
from kmha.translation.search.loop import allowed, follow, followed, largest
from kmha.translation.search.method import Hypothesis, Length, Option, SearchMethod, usual_length
from kmha.translation.tokenizer import PAD


class Sampling(SearchMethod):
    """Draws every token at random from the model's distribution, which can be sharpened and truncated.

    The logits are divided by `temperature`. Only the `top_k` most probable tokens are kept, and their probabilities are
    renormalized. Then only the nucleus is kept, which is the smallest set of tokens whose probabilities sum to at least
    `top_p` (Holtzman et al. 2020, section 3.1).

    The random numbers of a hypothesis depend on the seed, the index of the hypothesis, and the ids of the sentence. So
    a batch gives the same samples as its sentences one by one, whatever their order and padding. Equal sentences in a
    batch get the same samples.

    Args:
        model, max_length: As in `SearchMethod`.
        temperature: Divisor of the logits, above 0. Values below 1 favour probable tokens.
        top_k: Number of tokens that can be drawn. `None` means all tokens.
        top_p: Minimum total probability of the tokens that can be drawn, above 0 and at most 1. `None` means all
            tokens.
        seed: Seed of the random numbers, not negative. `None` draws a new seed in every call from Python's generator,
            which `keras.utils.set_random_seed` seeds.
        samples: Number of hypotheses to draw for each sentence. They are independent, so they can be equal.

    Returns:
        A list of `samples` hypotheses for each of the B sentences, with the most probable hypothesis first. Log
        probabilities are computed from the full distribution at temperature 1, and also serve as the scores.

    >>> from kmha.layers import Transformer
    >>> search = Sampling(Transformer(1, 6, 2, 8, 11, 13, 17, 19), top_p=0.9, seed=3, samples=4)
    >>> ids = lambda found: [hypothesis.ids for hypothesis in found[0]]
    >>> ids(search([[4, 7, 2]])) == ids(search([[4, 7, 2, 0]]))
    True
    """

    name = "sampling"
    title = "sampling"
    flag = "--sample"
    help = "Draw translations at random from the model's distribution."

    def __init__(
        self,
        model: Any,
        *,
        temperature: Annotated[
            float,
            Option(
                "Divisor of the logits; below 1 it favours probable tokens.",
                "1 leaves the distribution as it is, 0.7 is usual; for the most probable token use Greedy.",
                lowest=1e-6,
                metavar="T",
            ),
        ] = 1.0,
        top_k: Annotated[
            int | None,
            Option(
                "Draw from the N most probable tokens.",
                "It is the number of tokens that can be drawn; leave it out for all.",
                lowest=1,
            ),
        ] = None,
        top_p: Annotated[
            float | None,
            Option(
                "Draw from the most probable tokens that together have probability P.",
                "0.9 is usual; leave it out for all tokens.",
                lowest=0,
                highest=1,
                exclusive=True,
                metavar="P",
            ),
        ] = None,
        seed: Annotated[
            int | None, Option("Seed of the random numbers.", "Leave it out for a new one in every call.", lowest=0)
        ] = None,
        samples: Annotated[
            int,
            Option(
                "Print the N best translations, with number and score.",
                "It is the number of hypotheses that are drawn for each sentence.",
                lowest=1,
                flag="--n-best",
            ),
        ] = 1,
        max_length: Length = usual_length,
    ) -> None:
        super().__init__(model, max_length=max_length)
        self.temperature = self._checked("temperature", temperature)
        self.top_k = self._checked("top_k", top_k)
        self.top_p = self._checked("top_p", top_p)
        self.seed = self._checked("seed", seed)
        self.samples = self._checked("samples", samples)

    @property
    def width(self) -> int:
        return self.samples

    def _signature(self) -> tuple[Any, ...]:
        return *super()._signature(), tf.TensorSpec([None, None], tf.float64)

    def _inputs(self, source: Any, limits: Any) -> tuple[Any, ...]:
        return source, limits, uniform(source, self.samples, limits.max(), self.seed)

    def _search(self, source: Any, limits: Any, draws: Any) -> tuple[Any, Any]:  # type: ignore[override]
        cache = self._steps.start(source, self.samples, tf.reduce_max(limits))
        limits = tf.repeat(limits, self.samples)
        return follow(self._steps, cache, limits, lambda logits, step: self._choose(logits, draws[:, step]))

    def _hypotheses(self, limits: Any, *results: Any) -> list[list[Hypothesis]]:
        drawn = followed(np.repeat(limits, self.samples), *results, width=self.samples)
        sentences = [drawn[start : start + self.samples] for start in range(0, len(drawn), self.samples)]
        return [sorted(sentence, key=lambda hypothesis: -hypothesis.score) for sentence in sentences]

    def _choose(self, logits: Any, draw: Any) -> tuple[Any, Any]:
        """Return tokens (N,) and their log probabilities (N,) for logits (N, V) and random numbers (N,) from [0, 1)."""
        logits = allowed(logits)
        tokens, probabilities = self._candidates(logits / self.temperature)
        # A sum of thousands of float32 numbers would shift the tokens' shares, so it is computed in float64.
        reached = tf.cumsum(tf.cast(probabilities, tf.float64), axis=-1)
        total = reached[:, -1:]
        # The second bound, because rounding must not let a draw pass the last token that has a share.
        place = tf.minimum(_count(reached <= draw[:, tf.newaxis] * total), _count(reached < total))
        chosen = place if tokens is None else tf.gather(tokens, place, batch_dims=1)
        return chosen, tf.gather(tf.nn.log_softmax(logits), chosen, batch_dims=1)

    def _candidates(self, logits: Any) -> tuple[Any, Any]:
        """Return the tokens (N, C) that can be drawn, or `None` for all of V, and their unnormalized probabilities."""
        if self.top_k is None and self.top_p is None:
            return None, tf.nn.softmax(logits)
        width = logits.shape[-1]
        logits, tokens = largest(logits, width if self.top_k is None else min(self.top_k, width))
        probabilities = tf.nn.softmax(logits)
        if self.top_p is not None:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < self.top_p, probabilities, tf.zeros_like(probabilities))
        return tokens, probabilities


def uniform(source: Any, samples: int, length: int, seed: int | None) -> Any:
    """Return numbers (B * samples, length) from [0, 1), float64, that depend only on seed, sample and the row's ids."""
    seed = random.getrandbits(63) if seed is None else seed
    sentences = [row[row != PAD].tolist() for row in source]
    keys = ([seed, sample, *ids] for ids in sentences for sample in range(samples))
    return np.stack([np.random.default_rng(key).random(length) for key in keys])


def _count(true: Any) -> Any:
    return tf.reduce_sum(tf.cast(true, tf.int32), axis=-1)
