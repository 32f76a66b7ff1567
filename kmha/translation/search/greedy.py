"""Greedy search, which follows the most probable tokens."""

from typing import Any

from kmha.translation.lazy import tf
from kmha.translation.search.loop import allowed, follow, followed, log_probability
from kmha.translation.search.method import Hypothesis, SearchMethod


class Greedy(SearchMethod):
    """Takes the most probable token at every position. The score of a hypothesis is its log probability.

    >>> from kmha.layers import Transformer
    >>> search = Greedy(Transformer(1, 6, 2, 8, 11, 13, 17, 19), max_length=5)
    >>> [[hypothesis]] = search([[4, 7, 2]])
    >>> hypothesis.finished or len(hypothesis.ids) == 5
    True
    """

    name = "greedy"
    title = "greedy search"
    flag = "--greedy"
    help = "Take the most probable token every time: faster, but worse."

    def _search(self, source: Any, limits: Any) -> tuple[Any, Any]:
        return follow(self._steps, self._steps.start(source, 1, tf.reduce_max(limits)), limits, _most_probable)

    def _hypotheses(self, limits: Any, *results: Any) -> list[list[Hypothesis]]:
        return [[hypothesis] for hypothesis in followed(limits, *results)]


def _most_probable(logits: Any, step: Any) -> tuple[Any, Any]:
    """Return the tokens (N,) of the largest allowed `logits` (N, V), and their log probabilities (N,)."""
    logits = allowed(logits)
    ids = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return ids, log_probability(logits, ids)
