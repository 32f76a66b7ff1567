"""The validation set: in batches for the loss, and translated for a score."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kmha.translation import batches, scores
from kmha.translation.corpora import Pairs
from kmha.translation.decoding import usual_length
from kmha.translation.search import Greedy
from kmha.translation.tokenizer import END, START, Tokenizer

TOKENS = 4096  # of the sources of a batch that is translated

Batch = tuple[tuple[np.ndarray, np.ndarray], np.ndarray]


def pairs_in_order(source_ids: batches.Ids, target_ids: batches.Ids, tokens: int) -> Iterator[Batch]:
    """All pairs once, for `model.evaluate`.

    Args:
        source_ids: without end.
        target_ids: without start and end.
        tokens: of the sources of a batch, at most; where the targets are longer, the batch is cut smaller.

    Yields:
        ((source (B, S), target_in (B, T)), target_out (B, T)), int32, padded with 0.

    >>> [((source, _), target_out)] = pairs_in_order([[5, 6]], [[7]], tokens=64)
    >>> source.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[7, 2]])
    """
    for rows, source in batches.in_order(source_ids, tokens=tokens):
        longest = max(len(target_ids[row]) for row in rows) + 1
        size = max(1, tokens // longest)
        for begin in range(0, len(rows), size):
            chosen = rows[begin : begin + size]
            width = max(len(target_ids[row]) for row in chosen) + 1
            target = np.zeros((2, len(chosen), width), "int32")
            for number, row in enumerate(chosen):
                ids = target_ids[row]
                target[0, number, : len(ids) + 1] = [START, *ids]
                target[1, number, : len(ids) + 1] = [*ids, END]
            yield (source[begin : begin + size], target[0]), target[1]


class Scorer:
    """Translates the validation set greedily and scores it: BLEU, or exact match where there is one right answer.

    Args:
        model: a `kmha.layers.Transformer`; its current weights are used at each call.
        tokenizer: of the model.
        pairs: the validation set.
        exact: whether there is one right answer.
        max_source: tokens of a source, its end included; longer ones are cut.
        max_length: tokens after which a translation is cut.
        count: how many of the pairs are translated, from the first; 0: all.
        samples: how many of them are shown.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        pairs: Pairs,
        *,
        exact: bool,
        max_source: int,
        max_length: int,
        count: int = 0,
        samples: int = 3,
    ) -> None:
        self._source, self._target = (texts[: count or None] for texts in (pairs.source, pairs.target))
        self._ids = [ids[: max_source - 1] for ids in tokenizer.encode(self._source)]
        self._tokenizer, self._exact, self._samples = tokenizer, exact, samples
        # A model that has learnt little yet does not end by itself: where it must is a matter of minutes at first.
        self._search = Greedy(model, max_length=lambda length: min(max_length, usual_length(length)))

    def __call__(self) -> tuple[str, float, list[str]]:
        """`exact_match` or `bleu`, its value of 100, and samples: source, reference and translation of each."""
        found = [""] * len(self._ids)
        for rows, source in batches.in_order(self._ids, tokens=TOKENS):
            for row, hypotheses in zip(rows, self._search(source), strict=True):
                found[row] = self._tokenizer.decode(hypotheses[0].ids)
        score = (scores.exact_match if self._exact else scores.bleu)(found, self._target)
        shown = list(zip(self._source, self._target, found, strict=True))[: self._samples]
        lines = [f"  source     {one}\n  reference  {two}\n  model      {three}" for one, two, three in shown]
        return "exact_match" if self._exact else "bleu", score.value, lines
