"""Texts whose words fall into other subwords in each pass, by BPE dropout (Provilkov et al. 2020, arXiv 1910.13267).

Encoding drops some of the merges of byte pair encoding at random. So a model sees rare words in parts, and parts in
many words. The `tokenizers` library does this too, but its random numbers have no seed. A stopped run could not resume.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kmha.translation.batches import Ragged, Rows
from kmha.translation.tokenizer import UNKNOWN, Tokenizer

DRAWS = 16  # random splits of each word, of which every occurrence takes one


class SubwordDropout:
    """Draws token ids for texts.

    Args:
        tokenizer: Tokenizer that has learnt the merges.
        texts: Texts to encode.
        rate: Probability that a merge is dropped, each time it is possible.
        seed: Seed of the splits.
        longest: Maximum number of tokens in a text. If a draw has more, the text is encoded without dropout.

    >>> tokenizer = Tokenizer.train(["two dogs run", "two cats run"] * 2, vocabulary_size=30)
    >>> draws = SubwordDropout(tokenizer, ["two dogs"], rate=0.5, seed=1, longest=9)
    >>> ids = draws(np.random.default_rng(1)).rows()[0]
    >>> tokenizer.tokens(ids), tokenizer.decode(ids)
    (['▁', 't', 'w', 'o', '▁', 'd', 'o', 'g', 's'], 'two dogs')
    """

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], rate: float, seed: int, longest: int) -> None:
        words = tokenizer.words(texts)
        numbers = {word: number for number, word in enumerate(dict.fromkeys(word for text in words for word in text))}
        self._words = np.array([numbers[word] for text in words for word in text], np.intp)
        self._counts = np.array([len(text) for text in words], np.intp)
        self._longest = longest
        draw, ids, merges = random.Random(seed).random, tokenizer.ids, tokenizer.merges
        splits = [_split(word, merges, one, draw) for word in numbers for one in (0.0, *[rate] * DRAWS)]
        self._splits = Ragged.of([_known(split, ids) for split in splits])  # of each word the one without dropout first

    def __call__(self, generator: np.random.Generator) -> Ragged:
        """Return the token ids of all texts, with one of the random splits for each word."""
        whole = self._words * (DRAWS + 1)
        rows = whole + 1 + generator.integers(DRAWS, size=whole.shape)
        lengths = self._lengths(rows)
        too_long = np.repeat(lengths > self._longest, self._counts)
        if too_long.any():
            rows = np.where(too_long, whole, rows)
            lengths = self._lengths(rows)
        return Ragged(self._splits.joined(rows), lengths)

    def _lengths(self, rows: Rows) -> Rows:
        """Return the number of tokens in each text, if its words have the splits at `rows`."""
        before = np.append(0, np.cumsum(self._splits.lengths[rows]))
        ends = np.cumsum(self._counts)
        return before[ends] - before[ends - self._counts]


def _split(word: str, merges: Mapping[tuple[str, str], int], rate: float, draw: Callable[[], float]) -> list[str]:
    """Return the subwords of a word after all merges. Before each merge, a pair is left out with probability `rate`.

    >>> _split("abab", {("a", "b"): 0, ("ab", "ab"): 1}, 0.0, random.random)
    ['abab']
    """
    parts = list(word)
    while True:
        ranks = ((merges.get(pair), at) for at, pair in enumerate(itertools.pairwise(parts)))
        possible = [(rank, at) for rank, at in ranks if rank is not None and draw() >= rate]
        if not possible:
            return parts
        at = min(possible)[1]
        parts[at : at + 2] = ["".join(parts[at : at + 2])]


def _known(parts: Sequence[str], ids: Mapping[str, int]) -> list[int]:
    """Return the ids of subwords. Unknown characters side by side are a single [UNK]."""
    found = [ids.get(part, UNKNOWN) for part in parts]
    return [one for one, before in zip(found, [None, *found], strict=False) if not one == before == UNKNOWN]
