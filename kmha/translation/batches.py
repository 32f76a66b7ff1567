"""Batches of sentences of like length, as large as a number of tokens allows, in an order that (seed, step) decides."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kmha.translation.tokenizer import END, PAD, START

Ids = Sequence[Sequence[int]]
Array = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]

BAND = 3.0  # target lengths that are sorted by source length together
NOISE = 1.0  # tokens by which a length may seem longer than it is, drawn anew for every pass


class Batch(NamedTuple):
    """As `model.fit` takes it: the inputs, and the target."""

    inputs: tuple[Array, Array]  # source (B, S), target so far (B, T)
    target: Array  # (B, T)


def fitting(source_ids: Ids, target_ids: Ids, max_length: int) -> Rows:
    """The rows whose two sides, with the token that starts or ends them, have at most `max_length` tokens.

    Raises:
        ValueError: the two sides are not of one length, or no pair fits.

    >>> fitting([[5, 6], [5, 6, 7], [5]], [[8], [8], [8, 9, 10]], max_length=3).tolist()
    [0]
    """
    if len(source_ids) != len(target_ids):
        raise ValueError(
            f"Every source needs its target. Received: {len(source_ids)} sources and {len(target_ids)} targets."
        )
    longest = np.maximum(_lengths(source_ids), _lengths(target_ids)) + 1
    rows = np.flatnonzero(longest <= max_length)
    if not len(rows):
        raise ValueError(f"None of {len(source_ids)} pairs has at most {max_length} tokens on both sides.")
    return rows


def stream(
    source_ids: Ids,
    target_ids: Ids,
    *,
    tokens: int,
    seed: int,
    start_step: int = 0,
    max_length: int = 256,
    multiple: int = 1,
) -> Iterator[Batch]:
    """Endless passes over the pairs, in batches for `model.fit`.

    A pass orders the pairs by their lengths with some noise, cuts the order into batches, and shuffles the batches. The
    pairs are sorted by bands of target length, and within a band by source length, up and down in turn, so that both
    sides of a batch have little padding. Where the bands begin, the noise, and the order of pairs of equal length are
    drawn anew for every pass, so that a pair meets others every time.

    A pass depends on `(seed, pass)` alone. To start at a step, the passes before are planned (milliseconds each, for
    which lengths suffice) and not built.

    Args:
        source_ids: token ids of the source sentences, without start and end.
        target_ids: likewise of their translations.
        tokens: a batch has at most so many, padding included, on each side.
        seed: of the order.
        start_step: the batch to begin with, counted from 0 over all passes.
        max_length: pairs with a longer side, its start or end included, are left out; see `fitting`.
        multiple: lengths are rounded up to a multiple of it, but not beyond `max_length`.

    Yields:
        ((source (B, S), target_in (B, T)), target_out (B, T)), int32, padded with 0: the source followed by its end,
        the target after its start, and the target followed by its end.

    Raises:
        ValueError: as `fitting`, or a batch could not hold the longest pair.

    >>> batches = stream([[5, 6]], [[7, 8, 9]], tokens=64, seed=1)
    >>> (source, target_in), target_out = next(batches)
    >>> source.tolist(), target_in.tolist(), target_out.tolist()
    ([[5, 6, 2]], [[1, 7, 8, 9]], [[7, 8, 9, 2]])
    """
    rows = fitting(source_ids, target_ids, max_length)
    source, target = Ragged(source_ids), Ragged(target_ids)
    lengths = np.stack([source.lengths[rows], target.lengths[rows]], axis=1) + 1  # with start or end
    widths = np.minimum(-(-lengths // multiple) * multiple, max_length)
    if widths.max() > tokens:
        raise ValueError(
            f"A batch must hold the longest sentence, of {widths.max()} tokens. Received: tokens={tokens}. "
            "Raise it, or lower max_length."
        )
    # A closure, so that wrong arguments are refused here and not at the first batch.

    def batches() -> Iterator[Batch]:
        step, number = 0, 0
        while True:
            plan = _plan(lengths, widths, tokens, np.random.default_rng([seed, number]))
            for chosen in plan[max(0, start_step - step) :]:
                width, target_width = widths[chosen].max(axis=0)
                targets = rows[chosen]
                inputs = source.padded(targets, width, end=END), target.padded(targets, target_width, start=START)
                yield Batch(inputs, target.padded(targets, target_width, end=END))
            step, number = step + len(plan), number + 1

    return batches()


def in_order(
    source_ids: Ids, *, tokens: int | None = None, sentences: int | None = None, multiple: int = 1
) -> Iterator[tuple[Rows, Array]]:
    """All sentences once, longest first (memory that does not suffice shows at once), for inference.

    Args:
        source_ids: token ids, without start and end.
        tokens: a batch has at most so many, padding included; a sentence that is longer is a batch of its own.
        sentences: a batch has at most so many sentences. One of the two limits must be given.
        multiple: lengths are rounded up to a multiple of it.

    Yields:
        rows (B,), which sentences these are, and source (B, S), int32: each followed by its end, padded with 0.

    >>> [(rows.tolist(), source.tolist()) for rows, source in in_order([[5], [6, 7], [8]], sentences=2)]
    [([1, 0], [[6, 7, 2], [5, 2, 0]]), ([2], [[8, 2]])]
    """
    if tokens is None and sentences is None:
        raise ValueError("How large may a batch be? Give tokens=, sentences= or both.")
    if not len(source_ids):
        return
    source = Ragged(source_ids)
    widths = -(-(source.lengths + 1) // multiple) * multiple
    order = np.argsort(-source.lengths, kind="stable")
    begin = 0
    while begin < len(order):
        width = widths[order[begin]]
        count = min(
            len(order) if tokens is None else max(1, tokens // width), len(order) if sentences is None else sentences
        )
        rows = order[begin : begin + count]
        yield rows, source.padded(rows, width, end=END)
        begin += count


def _plan(lengths: Rows, widths: Rows, tokens: int, random: np.random.Generator) -> list[Rows]:
    """The batches of one pass, each as indices into the lengths (N, 2) of source and target."""
    seeming = lengths + random.uniform(0, NOISE, lengths.shape)
    band = np.floor((seeming[:, 1] + random.uniform(0, BAND)) / BAND).astype(np.intp)
    # Up in one band and down in the next: where a batch lies across two of them, its source lengths are still alike.
    order = np.lexsort((np.where(band % 2, -seeming[:, 0], seeming[:, 0]), band))
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
    """Sequences of different lengths in one array, from which a padded batch is one gather."""

    def __init__(self, ids: Ids) -> None:
        self.lengths = _lengths(ids)
        self._begins = np.cumsum(self.lengths) - self.lengths
        values = (value for one in ids for value in one)
        # One more, so that the index of padding behind an empty last sequence is an index still.
        self._values = np.append(np.fromiter(values, dtype=np.int32, count=int(self.lengths.sum())), np.int32(PAD))

    def padded(self, rows: Rows, width: int, *, start: int | None = None, end: int | None = None) -> Array:
        """The sequences (B, width) int32, each after `start` if there is one, and followed by `end` if there is one."""
        lengths = self.lengths[rows][:, None]
        positions = np.arange(width) - (start is not None)
        inside = (positions >= 0) & (positions < lengths)
        batch = np.where(inside, self._values[np.where(inside, self._begins[rows][:, None] + positions, 0)], PAD)
        if start is not None:
            batch[:, 0] = start
        if end is not None:
            np.put_along_axis(batch, lengths, end, axis=1)
        return batch.astype(np.int32, copy=False)
