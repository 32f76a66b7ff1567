"""The validation set: in batches for the loss, and translated for a score."""

from collections.abc import Iterator

from kmha.translation import batches, scores
from kmha.translation.corpora import Pairs
from kmha.translation.tokenizer import END, START
from kmha.translation.translator import Translator

TOKENS = 4096  # of the sources of a batch that is translated


def pairs_in_order(source_ids: batches.Ids, target_ids: batches.Ids, tokens: int) -> Iterator[batches.Batch]:
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
    targets = batches.Ragged(target_ids)
    for rows, source in batches.in_order(source_ids, tokens=tokens):
        size = max(1, tokens // (int(targets.lengths[rows].max()) + 1))
        for begin in range(0, len(rows), size):
            chosen = rows[begin : begin + size]
            width = int(targets.lengths[chosen].max()) + 1
            target_in, target_out = targets.padded(chosen, width, start=START), targets.padded(chosen, width, end=END)
            yield batches.Batch((source[begin : begin + size], target_in), target_out)


class Scorer:
    """Translates the validation set greedily and scores it: BLEU, or exact match where there is one right answer.

    Args:
        translator: of the model, whose current weights are used at each call.
        pairs: the validation set.
        exact: whether there is one right answer.
        count: how many of the pairs are translated, from the first; 0: all.
        samples: how many of them are shown.
    """

    def __init__(self, translator: Translator, pairs: Pairs, *, exact: bool, count: int = 0, samples: int = 3) -> None:
        self._source, self._target = (texts[: count or None] for texts in (pairs.source, pairs.target))
        self._translator, self._exact, self._samples = translator, exact, samples

    def __call__(self) -> tuple[str, float, list[str]]:
        """`exact_match` or `bleu`, its value of 100, and samples: source, reference and translation of each."""
        translations = self._translator.translate(self._source, "greedy", batch_tokens=TOKENS, note=_silent)
        found = [best.text for best, *_ in translations]
        score = (scores.exact_match if self._exact else scores.bleu)(found, self._target)
        shown = list(zip(self._source, self._target, found, strict=True))[: self._samples]
        lines = [f"  source     {one}\n  reference  {two}\n  model      {three}" for one, two, three in shown]
        return "exact_match" if self._exact else "bleu", score.value, lines


def _silent(row: int, text: str) -> None:
    """At first much is cut off, and nobody need hear of it."""
