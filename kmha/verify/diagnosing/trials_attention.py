"""How each trial of the attention is made; `kmha.verify.diagnosing.trials` says what they are for."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial, causal
from kmha.verify.diagnosing import trials_extreme
from kmha.verify.diagnosing.trials_sizes import Accepts, Sizes, draw_weights

RATE = 0.4  # of dropout
DROPPED = (4, 5)  # T and S in training: all 2^S ways to drop are tried


@dataclasses.dataclass
class Maker:
    """Makes trials; `held` are the weights of all of them, or `None`."""

    rng: np.random.Generator
    accepts: Accepts
    sizes: Sizes
    held: Any
    core: bool

    def trials(self) -> Iterator[Trial]:
        accepts, (short, long) = self.accepts, sorted((self.sizes.rows, self.sizes.columns))
        lengths = self.lengths(short, long)
        if accepts.cross:
            yield self.make("cross-attention", short, long)
            yield self.make("equal lengths", long, long)
        yield self.make("self-attention", long)
        if accepts.mask:
            yield from self._masks(short, long)
        if accepts.causal:
            yield from self._causal(short, long)
        if accepts.padding:
            yield from self._padding(short, long)
        if accepts.training:
            yield from self._dropout()
        # Few numbers, so that draws without two that are close are found.
        few = self.of(batch=2)
        yield trials_extreme.large(lambda: few.make("large numbers", *self.lengths(2, short)))
        if accepts.mask:
            yield trials_extreme.large(
                lambda: few.with_mask("large numbers, mask", *self.lengths(3, short), share=0.35)
            )
        if accepts.half:
            yield from self._half(lengths)
            yield trials_extreme.overflowing(lambda: few.make("float16, large numbers", *self.lengths(2, short)))

    def _masks(self, short: int, long: int) -> Iterator[Trial]:
        lengths, heads = self.lengths(short, long), self.sizes.heads
        yield self.with_mask("mask", *lengths, full=True)
        yield self.with_mask("mask, equal lengths", *self.lengths(long, long))
        yield self.same_mask("mask, the same for all items", *lengths)
        yield self.of(batch=heads).with_mask("mask, as many items as heads", *lengths)
        yield self.zeros("mask, some logits zero", *lengths, biased=False)
        yield self.zeros("mask, a key zero", *lengths, biased=True)
        yield self.with_mask("mask with rows of nothing", *lengths, empty=True)
        if not self.accepts.causal:
            trial = self.make("causal mask, as a mask", long)
            yield dataclasses.replace(trial, mask=np.broadcast_to(causal(long, long), (self.sizes.batch, long, long)))

    def _causal(self, short: int, long: int) -> Iterator[Trial]:
        yield self.make("causal", long, causal=True)
        if self.accepts.cross:
            yield self.make("causal, T < S", short, long, causal=True)
            yield self.make("causal, T > S", long, short, causal=True)
        if self.accepts.mask:
            yield self.with_mask("causal and mask", long, causal=True)

    def _padding(self, short: int, long: int) -> Iterator[Trial]:
        lengths = self.lengths(short, long)
        yield self.padded("padding", *lengths)
        yield self.padded("padding, self-attention", long)
        if self.accepts.cross:
            yield self.padded("padding, equal lengths", long, long)
        yield self.of(batch=lengths[0]).padded("padding, as many queries as items", *lengths)
        yield self.of(batch=self.sizes.heads).padded("padding, as many items as heads", *lengths)
        if self.accepts.mask:
            yield self.padded("mask and padding", *lengths, mask=True)
        if self.accepts.causal:
            yield self.padded("causal and padding", long, causal=True)

    def _dropout(self) -> Iterator[Trial]:
        """What was kept is unknown, and found by trying all: so with one head, and few keys."""
        size = self.sizes.width if self.accepts.wide else DROPPED[1] - 1
        alone = self if self.held is not None else self.of(heads=1, size=size)
        lengths = self.lengths(*DROPPED)
        yield alone.make("dropout, not training", *lengths, rate=RATE)
        yield alone.make("dropout, training", *lengths, training=True, rate=RATE)

    def _half(self, lengths: tuple[int, ...]) -> Iterator[Trial]:
        accepts, rounded = self.accepts, trials_extreme.rounded
        yield rounded(self.make("float16", *lengths))
        if accepts.mask:
            yield rounded(self.with_mask("float16, mask", *lengths))
            yield rounded(self.with_mask("float16, mask with rows of nothing", *lengths, empty=True))
        if accepts.causal:
            yield rounded(self.make("float16, causal", max(lengths), causal=True))
        if accepts.padding:
            yield rounded(self.padded("float16, padding", *lengths))
        if accepts.mask and accepts.padding:
            trial = self.padded("float16, rows hidden by two masks", *lengths, mask=True)
            mask, key_mask = np.array(trial.mask), np.array(trial.key_mask)
            mask[-1, -1], key_mask[-1] = False, False
            yield rounded(dataclasses.replace(trial, mask=mask, key_mask=key_mask))

    def lengths(self, rows: int, columns: int) -> tuple[int, ...]:
        """T and S, or for self-attention the larger alone."""
        return (rows, columns) if self.accepts.cross else (max(rows, columns),)

    def of(self, **sizes: Any) -> "Maker":
        """The same with other sizes."""
        return dataclasses.replace(self, sizes=dataclasses.replace(self.sizes, **sizes))

    def make(self, name: str, *lengths: int, **options: Any) -> Trial:
        """Of T and S; self-attention if there is one length. All weights and inputs are drawn anew."""
        sizes, rows = self.sizes, lengths[0]
        query = self.array(rows, sizes.features)
        if len(lengths) == 1:  # self-attention, where the kernels let key and value be the query
            same = self.core or sizes.features == sizes.key_features
            key = value = query if same else self.array(rows, sizes.key_features)
        else:
            key = self.array(lengths[1], sizes.key_features)
            value = self.array(lengths[1], sizes.key_features) if self.accepts.value else key
        return Trial(name, query, key, value, self.weights(), **options)

    def array(self, positions: int, features: int) -> np.ndarray:
        sizes = self.sizes
        if not self.core:
            return self.rng.normal(size=(sizes.batch, positions, features))
        heads = sizes.heads if self.accepts.heads else 1
        return self.rng.normal(size=(sizes.batch, heads, positions, sizes.size)) * 1.3

    def weights(self) -> dict[str, np.ndarray]:
        if self.core:
            return {}
        return dict(self.held) if self.held is not None else draw_weights(self.rng, self.sizes)

    def with_mask(self, name: str, *lengths: int, share: float = 0.55, **options: Any) -> Trial:
        kinds = {kind: options.pop(kind) for kind in ("empty", "full") if kind in options}
        trial = self.make(name, *lengths, **options)
        return dataclasses.replace(trial, mask=self.mask(lengths[0], lengths[-1], share, **kinds))

    def same_mask(self, name: str, *lengths: int) -> Trial:
        trial = self.with_mask(name, *lengths)
        mask = np.array(trial.mask)
        return dataclasses.replace(trial, mask=np.broadcast_to(mask[:1], mask.shape))

    def mask(self, rows: int, columns: int, share: float = 0.55, empty: bool = False, full: bool = False) -> np.ndarray:
        """Each row has something to attend to, unless it must not; in each item a key is hidden from all queries."""
        batch = self.sizes.batch
        mask = self.rng.random((batch, rows, columns)) < share
        mask[np.arange(batch), :, 1 + np.arange(batch) % (columns - 1) if columns > 1 else 0] = False
        # With a causal mask too, the first position of every row stays.
        mask[..., 0] |= ~mask.any(-1)
        mask[:, :, 0] |= self.rng.random((batch, rows)) < share + 0.15
        mask[:, 0, 0] = True
        if full:
            mask[0, -1] = True
        if empty:
            mask[-1, -1], mask[0, rows // 2] = False, False
        return mask

    def padded(self, name: str, *lengths: int, mask: bool = False, **options: Any) -> Trial:
        """Positions at the end are padding, in each item a different number."""
        trial = self.make(name, *lengths, **options)
        rows, columns = lengths[0], lengths[-1]
        key_mask = self._real(columns)
        query_mask = key_mask if len(lengths) == 1 else self._real(rows)[::-1]
        drawn = self.mask(rows, columns) if mask else None
        given = query_mask if self.accepts.query_padding else None
        return dataclasses.replace(trial, key_mask=key_mask, query_mask=given, mask=drawn)

    def _real(self, positions: int) -> np.ndarray:
        """(B, P), False at padding: at the end, of different lengths; the second item has none."""
        batch = self.sizes.batch
        padding = np.arange(batch) * max(1, positions // batch) % positions
        padding[:2] = padding[:2][::-1]
        return np.arange(positions) < (positions - padding)[:, None]

    def zeros(self, name: str, *lengths: int, biased: bool) -> Trial:
        """A key is zero where attending is allowed; without biases a query too, and then their logits are zero."""
        trial = self.with_mask(name, *lengths)
        weights = dict(trial.weights)
        if not biased and self.held is None:
            weights |= {bias: np.zeros_like(weights[bias]) for bias in ("query/bias", "key/bias") if bias in weights}
        key, query = trial.key.copy(), trial.query.copy()
        key[..., 1, :] = 0.0
        if not biased:
            query[..., -1, :] = 0.0
        mask = np.array(trial.mask)
        mask[:, :, :2] = True
        mask[:, -1] &= ~(np.arange(mask.shape[-1]) == mask.shape[-1] - 1)
        query = key if trial.query is trial.key else query
        value = key if trial.value is trial.key else trial.value
        return dataclasses.replace(trial, query=query, key=key, value=value, weights=weights, mask=mask)
