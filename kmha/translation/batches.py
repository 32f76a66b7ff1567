"""Batches of sentences of similar length, with as many sentences as a number of tokens allows."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kmha.translation.tokenizer import END, PAD, START

Ids = Sequence[Sequence[int]]
Array = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]

BAND = 3.0  # width of a band of target lengths, within which pairs are sorted by source length
NOISE = 1.0  # largest number of tokens that the noise adds to a length


class Batch(NamedTuple):
    """A batch for `model.fit`: the inputs, and the target."""

    inputs: tuple[Array, Array]  # source (B, S), target so far (B, T)
    target: Array  # (B, T)


def rows_that_fit(source_ids: Ids, target_ids: Ids, max_length: int) -> Rows:
    """Return the rows whose two sides, including start or end token, have at most `max_length` tokens.

    Raises:
        ValueError: The numbers of sources and targets differ, or no pair fits.

    >>> rows_that_fit([[5, 6], [5, 6, 7], [5]], [[8], [8], [8, 9, 10]], max_length=3).tolist()
    [0]
    """
    if len(source_ids) != len(target_ids):
        raise ValueError(
            f"every source needs a target. Received: {len(source_ids)} sources and {len(target_ids)} targets."
        )
    longest = np.maximum(_lengths(source_ids), _lengths(target_ids)) + 1
    rows = np.flatnonzero(longest <= max_length)
    if not len(rows):
        raise ValueError(f"none of {len(source_ids)} pairs has at most {max_length} tokens on both sides.")
    return rows


def training_batches(
    source_ids: Ids,
    target_ids: Ids,
    *,
    tokens: int,
    seed: int,
    start_step: int = 0,
    max_length: int = 256,
    multiple: int = 1,
) -> Iterator[Batch]:
    """Yield batches from endless passes over the pairs, in an order that depends on seed and step.

    A pass orders the pairs by their lengths with some noise, cuts the order into batches, and shuffles the batches. It
    sorts the pairs into bands of target length, and within a band by source length, in alternating directions, so that
    both sides of a batch have little padding. Every pass draws the edges of the bands, the noise and the order of pairs
    of equal length anew, so that a pair meets different pairs each time.

    A pass depends only on `(seed, pass)`. To start at a later step, the earlier passes are planned, which takes
    milliseconds because it needs only the lengths, but their batches are not built.

    Args:
        source_ids: Token ids of the source sentences, without start and end.
        target_ids: Token ids of their translations, without start and end.
        tokens: Largest number of tokens in a batch on each side, including padding.
        seed: Seed of the order.
        start_step: First batch, counted from 0 over all passes.
        max_length: Longest side of a pair, including start or end; longer pairs are left out, see `rows_that_fit`.
        multiple: Lengths are rounded up to a multiple of this number, but not above `max_length`.

    Yields:
        ((source (B, S), target_in (B, T)), target_out (B, T)), int32, padded with 0. The source is followed by its end,
        target_in is the target after its start, and target_out is the target followed by its end.

    Raises:
        ValueError: As `rows_that_fit`, or the longest pair does not fit into a batch.

    >>> batches = training_batches([[5, 6]], [[7, 8, 9]], tokens=64, seed=1)
    >>> (source, target_in), target_out = next(batches)
    >>> source.tolist(), target_in.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[1, 7, 8, 9]], [[7, 8, 9, 2]])
    """
    rows = rows_that_fit(source_ids, target_ids, max_length)
    source, target = Ragged(source_ids), Ragged(target_ids)
    lengths = np.stack([source.lengths[rows], target.lengths[rows]], axis=1) + 1  # with start or end
    widths = np.minimum(-(-lengths // multiple) * multiple, max_length)
    if widths.max() > tokens:
        raise ValueError(
            f"a batch must be able to hold the longest sentence, of {widths.max()} tokens. Received: tokens={tokens}. "
            "Raise it, or lower max_length."
        )
    # A closure, so that wrong arguments raise here and not at the first batch.

    def batches() -> Iterator[Batch]:
        step, number = 0, 0
        while True:
            plan = _plan(lengths, widths, tokens, np.random.default_rng([seed, number]))
            for chosen in plan[max(0, start_step - step) :]:
                width, target_width = widths[chosen].max(axis=0)
                pairs = rows[chosen]
                inputs = source.padded(pairs, width, end=END), target.padded(pairs, target_width, start=START)
                yield Batch(inputs, target.padded(pairs, target_width, end=END))
            step, number = step + len(plan), number + 1

    return batches()


def inference_batches(
    source_ids: Ids, *, tokens: int | None = None, sentences: int | None = None, multiple: int = 1
) -> Iterator[tuple[Rows, Array]]:
    """Yield all sentences once, longest first, so that a lack of memory shows at once.

    Args:
        source_ids: Token ids, without start and end.
        tokens: Largest number of tokens in a batch, including padding; a longer sentence is a batch of its own.
        sentences: Largest number of sentences in a batch. One of the two limits is required.
        multiple: Lengths are rounded up to a multiple of this number.

    Yields:
        The rows (B,) of the sentences, and their source ids (B, S), int32: each followed by its end, padded with 0.

    >>> [(rows.tolist(), ids.tolist()) for rows, ids in inference_batches([[5], [6, 7], [8]], sentences=2)]
    [([1, 0], [[6, 7, 2], [5, 2, 0]]), ([2], [[8, 2]])]
    """
    if tokens is None and sentences is None:
        raise ValueError("expected a limit for the batches: give tokens=, sentences= or both.")
    if not len(source_ids):
        return
    source = Ragged(source_ids)
    widths = -(-(source.lengths + 1) // multiple) * multiple
    order = np.argsort(-source.lengths, kind="stable")
    begin = 0
    while begin < len(order):
        width = widths[order[begin]]
        fitting = len(order) if tokens is None else max(1, tokens // width)
        count = fitting if sentences is None else min(fitting, sentences)
        rows = order[begin : begin + count]
        yield rows, source.padded(rows, width, end=END)
        begin += count


def validation_batches(source_ids: Ids, target_ids: Ids, tokens: int) -> Iterator[Batch]:
    """Yield all pairs once, for `model.evaluate`, in batches like those of `training_batches`.

    A batch has at most `tokens` tokens on each side; batches with long targets have fewer pairs.

    >>> [((source, _), target_out)] = validation_batches([[5, 6]], [[7]], tokens=64)
    >>> source.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[7, 2]])
    """
    targets = Ragged(target_ids)
    for rows, source in inference_batches(source_ids, tokens=tokens):
        size = max(1, tokens // (int(targets.lengths[rows].max()) + 1))
        for begin in range(0, len(rows), size):
            chosen = rows[begin : begin + size]
            width = int(targets.lengths[chosen].max()) + 1
            target_in, target_out = targets.padded(chosen, width, start=START), targets.padded(chosen, width, end=END)
            yield Batch((source[begin : begin + size], target_in), target_out)


def _plan(lengths: Rows, widths: Rows, tokens: int, random: np.random.Generator) -> list[Rows]:
    """Return the batches of one pass, each as indices into the lengths (N, 2) of source and target."""
    noisy = lengths + random.uniform(0, NOISE, lengths.shape)
    band = np.floor((noisy[:, 1] + random.uniform(0, BAND)) / BAND).astype(np.intp)
    # The direction alternates, so that a batch that spans two bands still has similar source lengths.
    order = np.lexsort((np.where(band % 2, -noisy[:, 0], noisy[:, 0]), band))
    batches: list[Rows] = []
    most = tokens // int(widths.max(axis=1).min())  # pairs in a batch
    begin = 0
    while begin < len(order):
        ahead = order[begin : begin + most]
        sizes = np.maximum.accumulate(widths[ahead].max(axis=1)) * np.arange(1, len(ahead) + 1)
        count = int(np.searchsorted(sizes, tokens, side="right"))
        batches.append(ahead[:count])
        begin += count
    return [batches[index] for index in random.permutation(len(batches))]


def _lengths(ids: Ids) -> Rows:
    return np.fromiter((len(one) for one in ids), dtype=np.intp, count=len(ids))


class Ragged:
    """Sequences of different lengths in one array, from which one gather makes a padded batch."""

    def __init__(self, ids: Ids) -> None:
        self.lengths = _lengths(ids)
        self._starts = np.cumsum(self.lengths) - self.lengths
        values = (value for one in ids for value in one)
        # One more value, so that padding after an empty last sequence has a valid index.
        self._values = np.append(np.fromiter(values, dtype=np.int32, count=int(self.lengths.sum())), np.int32(PAD))

    def padded(self, rows: Rows, width: int, *, start: int | None = None, end: int | None = None) -> Array:
        """Return the padded sequences, int32 (B, width).

        `start` goes before each sequence and `end` after it, if given.
        """
        lengths = self.lengths[rows][:, None]
        positions = np.arange(width) - (start is not None)
        inside = (positions >= 0) & (positions < lengths)
        batch = np.where(inside, self._values[np.where(inside, self._starts[rows][:, None] + positions, 0)], PAD)
        if start is not None:
            batch[:, 0] = start
        if end is not None:
            np.put_along_axis(batch, lengths, end, axis=1)
        return batch.astype(np.int32, copy=False)
