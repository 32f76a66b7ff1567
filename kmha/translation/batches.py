"""Batches of sentences of similar length, with as many sentences as a limit on the number of tokens allows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kmha.translation.tokenizer import END, PAD, START

Ids = Sequence[Sequence[int]]
Array = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]

BAND = 3.0  # width of a band of target lengths, within which pairs are sorted by source length
NOISE = 1.0  # maximum number of tokens that the noise adds to a length


class Batch(NamedTuple):
    """A batch for `model.fit`, with inputs and target."""

    inputs: tuple[Array, Array]  # source (B, S), target so far (B, T)
    target: Array  # (B, T)


def rows_that_fit(source_ids: Ids, target_ids: Ids, max_length: int) -> Rows:
    """Return the indices of the pairs with at most `max_length` tokens on each side, including the start or end token.

    Raises:
        ValueError: The numbers of sources and targets differ, or all pairs are too long.

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
    vary: "Sequence[Callable[[np.random.Generator], Ragged]]" = (),
) -> Iterator[Batch]:
    """Yield batches from endless passes over the pairs, in an order determined by `seed`.

    A pass orders the pairs by their lengths with some noise, cuts the order into batches, and shuffles the batches. It
    sorts the pairs into bands of target length, and within a band by source length, in alternating directions, so that
    both sides of a batch have little padding. Every pass draws new edges of the bands, new noise and a new order of
    pairs of equal length, so that a pair shares its batch with different pairs each time.

    The order in a pass depends only on the seed and the number of the pass. To start at a later step, the earlier
    passes are planned, but their batches are not built. This takes milliseconds for each, because it only needs the
    lengths.

    Args:
        source_ids: Token ids of the source sentences, without start and end tokens.
        target_ids: Token ids of the translations of these sentences, without start and end tokens.
        tokens: Maximum number of tokens on each side of a batch, including padding.
        seed: Seed of the order.
        start_step: Index of the first batch to yield, counted from 0 over all passes.
        max_length: Maximum length of each side of a pair, including the start or end token. Longer pairs are left out.
        multiple: Number to whose multiples lengths are padded, but not above `max_length`.
        vary: Two functions that draw other ids for each pass, of all sources and of all targets, such as
            `subword_dropout.SubwordDropout`. Of `max_length` tokens they leave one for the start or end token.

    Yields:
        Batches ((source (B, S), target_in (B, T)), target_out (B, T)), int32, padded with 0. The source is followed by
        an end token. The target follows a start token in target_in, and is followed by an end token in target_out.

    Raises:
        ValueError: As in `rows_that_fit`, or the longest pair has more than `tokens` tokens on a side.

    >>> batches = training_batches([[5, 6]], [[7, 8, 9]], tokens=64, seed=1)
    >>> (source, target_in), target_out = next(batches)
    >>> source.tolist(), target_in.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[1, 7, 8, 9]], [[7, 8, 9, 2]])
    """
    rows = rows_that_fit(source_ids, target_ids, max_length)
    fixed = Ragged.of(source_ids), Ragged.of(target_ids)

    def sizes(source: Ragged, target: Ragged) -> tuple[Rows, Rows]:
        lengths = np.stack([source.lengths[rows], target.lengths[rows]], axis=1) + 1  # with the start or end token
        return lengths, np.minimum(-(-lengths // multiple) * multiple, max_length)

    widths = sizes(*fixed)[1]
    if widths.max() > tokens:
        raise ValueError(
            f"a batch must be able to hold the longest sentence, of {widths.max()} tokens. Received: tokens={tokens}. "
            "Raise it, or lower max_length."
        )
    # A closure, so that invalid arguments raise an error here instead of at the first batch.

    def batches() -> Iterator[Batch]:
        step, number = 0, 0
        while True:
            draw = np.random.default_rng([seed, number, 1])
            source, target = [one(draw) for one in vary] or fixed
            lengths, widths = sizes(source, target)
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
    """Yield batches of all sentences, longest first, so that a lack of memory shows immediately.

    Args:
        source_ids: Token ids of the sentences, without start and end tokens.
        tokens: Maximum number of tokens in a batch, including padding. A longer sentence becomes its own batch.
        sentences: Maximum number of sentences in a batch. Either this limit or `tokens` is required.
        multiple: Number to whose multiples lengths are padded.

    Yields:
        The indices (B,) of the sentences, and their source ids (B, S), int32, followed by an end token and padded with
        0.

    >>> [(rows.tolist(), ids.tolist()) for rows, ids in inference_batches([[5], [6, 7], [8]], sentences=2)]
    [([1, 0], [[6, 7, 2], [5, 2, 0]]), ([2], [[8, 2]])]
    """
    if tokens is None and sentences is None:
        raise ValueError("expected a limit for the batches: give tokens=, sentences= or both.")
    if not len(source_ids):
        return
    source = Ragged.of(source_ids)
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
    """Yield batches of all pairs for `model.evaluate`, like those of `training_batches`.

    A batch has at most `tokens` tokens on each side. Batches with long targets have fewer pairs.

    >>> [((source, _), target_out)] = validation_batches([[5, 6]], [[7]], tokens=64)
    >>> source.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[7, 2]])
    """
    targets = Ragged.of(target_ids)
    for rows, source in inference_batches(source_ids, tokens=tokens):
        size = max(1, tokens // (int(targets.lengths[rows].max()) + 1))
        for begin in range(0, len(rows), size):
            chosen = rows[begin : begin + size]
            width = int(targets.lengths[chosen].max()) + 1
            target_in, target_out = targets.padded(chosen, width, start=START), targets.padded(chosen, width, end=END)
            yield Batch((source[begin : begin + size], target_in), target_out)


def _plan(lengths: Rows, widths: Rows, tokens: int, random: np.random.Generator) -> list[Rows]:
    """Return the batches of one pass, as indices into the lengths (N, 2) of source and target."""
    noisy = lengths + random.uniform(0, NOISE, lengths.shape)
    band = np.floor((noisy[:, 1] + random.uniform(0, BAND)) / BAND).astype(np.intp)
    # The direction alternates, so that a batch that spans two bands still has similar source lengths.
    order = np.lexsort((np.where(band % 2, -noisy[:, 0], noisy[:, 0]), band))
    batches: list[Rows] = []
    most = tokens // int(widths.max(axis=1).min())  # maximum number of pairs in a batch
    begin = 0
    while begin < len(order):
        ahead = order[begin : begin + most]
        sizes = np.maximum.accumulate(widths[ahead].max(axis=1)) * np.arange(1, len(ahead) + 1)
        count = int(np.searchsorted(sizes, tokens, side="right"))
        batches.append(ahead[:count])
        begin += count
    return [batches[index] for index in random.permutation(len(batches))]


def rounded_up(number: int) -> int:
    """Return the next number of the form 2ⁿ or 3 · 2ⁿ, of which there are few.

    >>> [rounded_up(number) for number in (1, 5, 12, 13, 25)]
    [1, 6, 12, 16, 32]
    """
    part = 2 ** max(0, number.bit_length() - 2)
    return -(-number // part) * part


def padded(ids: npt.NDArray[Any], rows: int, width: int) -> npt.NDArray[Any]:
    """Return the ids (B, T) with padding up to `rows` sentences of `width` tokens.

    >>> padded(np.array([[7, 8]]), 2, 3).tolist()
    [[7, 8, 0], [0, 0, 0]]
    """
    return np.pad(ids, ((0, rows - ids.shape[0]), (0, width - ids.shape[1])), constant_values=PAD)


def _lengths(ids: Ids) -> Rows:
    return np.fromiter((len(one) for one in ids), dtype=np.intp, count=len(ids))


class Ragged:
    """Sequences of different lengths, stored in one array so that a single gather makes a padded batch."""

    def __init__(self, values: Array, lengths: Rows) -> None:
        self.lengths = lengths
        self._starts = np.cumsum(lengths) - lengths
        # One more value, so that padding after an empty last sequence has a valid index.
        self._values = np.append(values, np.int32(PAD))

    @classmethod
    def of(cls, ids: Ids) -> "Ragged":
        """Return the sequences of a list."""
        lengths = _lengths(ids)
        values = (value for one in ids for value in one)
        return cls(np.fromiter(values, dtype=np.int32, count=int(lengths.sum())), lengths)

    def rows(self) -> list[list[int]]:
        """Return the sequences as lists."""
        return [
            self._values[start : start + length].tolist()
            for start, length in zip(self._starts, self.lengths, strict=True)
        ]

    def joined(self, rows: Rows) -> Array:
        """Return the values of the sequences at the indices `rows`, one sequence after another."""
        lengths = self.lengths[rows]
        shifts = np.repeat(self._starts[rows] - (np.cumsum(lengths) - lengths), lengths)
        return self._values[np.arange(len(shifts)) + shifts]

    def padded(self, rows: Rows, width: int, *, start: int | None = None, end: int | None = None) -> Array:
        """Return the sequences at the indices `rows` (B,), padded to an array (B, width), int32.

        If given, the token `start` goes before each sequence, and the token `end` goes after each sequence.
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
