"""The calls that a diagnosis tries: each is there to separate some mistakes from the others.

Sizes are pairwise different where the candidate lets them be, so that swapped axes show; some trials have equal lengths,
because some mistakes are possible only there.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kmha.verify.chain import ROLES, Trial, causal

RATE = 0.4  # of dropout
LARGE = 60.0  # by what inputs are multiplied where exp of the logits must overflow, and small constants must not hide


@dataclasses.dataclass(frozen=True)
class Accepts:
    """What a candidate can be called with.

    Attributes:
        cross: a key of its own; else self-attention only.
        value: a value of its own; else the value is the key.
        mask: a mask (B, T, S).
        causal: a flag for a causal mask.
        padding: a mask of the keys (B, S).
        query_padding: it also gets the query's own padding (B, T).
        training: dropout, of a rate that can be set.
        wide: it must have I = E = H·O, as many course solutions have.
        heads: core only: (B, H, P, O) is allowed; else (B, P, O).
        half: it can compute in float16.
    """

    cross: bool = True
    value: bool = True
    mask: bool = True
    causal: bool = False
    padding: bool = False
    query_padding: bool = False
    training: bool = False
    wide: bool = False
    heads: bool = True
    half: bool = False


@dataclasses.dataclass(frozen=True)
class Sizes:
    """B, T, S, H, I of the query, I of key and value, O and E."""

    batch: int
    rows: int
    columns: int
    heads: int
    features: int
    key_features: int
    size: int
    width: int
    use_bias: bool = True

    def __str__(self) -> str:
        features = f"I={self.features}" + (
            f" ({self.key_features} of key)" if self.features != self.key_features else ""
        )
        return f"B={self.batch}, T={self.rows}, S={self.columns}, H={self.heads}, {features}, O={self.size}, E={self.width}"


def draw_sizes(rng: np.random.Generator, accepts: Accepts, use_bias: bool = True) -> Sizes:
    """Pairwise different sizes, as far as `accepts` lets them be.

    >>> draw_sizes(np.random.default_rng(0), Accepts(wide=True)).width
    8
    """
    heads, size = ((2, 3), (3, 2), (2, 4), (4, 2), (3, 4), (2, 5))[rng.integers(6)]
    width = heads * size
    taken = {heads, size, width}
    free = [number for number in (2, 3, 4, 5, 7, 9, 11) if number not in taken]
    batch, *rest = free
    rows, columns = sorted(rng.permutation(rest)[:2].tolist(), key=lambda _: rng.random())
    if accepts.wide:
        return Sizes(batch, rows, columns, heads, width, width, size, width, use_bias)
    features, key_features, out = (13, 14, 17) if accepts.cross else (13, 13, 17)
    return Sizes(batch, rows, columns, heads, features, key_features, size, out, use_bias)


def draw_weights(rng: np.random.Generator, sizes: Sizes) -> dict[str, np.ndarray]:
    """Random weights in the canonical layout; the logits that they give are of the order of 1 after scaling."""
    weights = {}
    inner = (sizes.heads, sizes.size)
    for role in ROLES:
        features = sizes.features if role == "query" else sizes.key_features
        weights[f"{role}/kernel"] = rng.normal(size=(inner[0], features, inner[1])) * 1.3 / math.sqrt(features)
        if sizes.use_bias:
            weights[f"{role}/bias"] = rng.normal(size=inner) * 0.7
    weights["attention_output/kernel"] = rng.normal(size=(*inner, sizes.width))
    if sizes.use_bias:
        weights["attention_output/bias"] = rng.normal(size=sizes.width)
    return weights


def draw(
    seed: int, accepts: Accepts, sizes: Sizes | None = None, weights: Any = None, core: bool = False
) -> list[Trial]:
    """All trials for a candidate: with the same weights, unless these are drawn.

    Args:
        seed: of sizes, weights and inputs.
        accepts: what the candidate takes.
        sizes: drawn, if not given.
        weights: canonical ones that the candidate holds; drawn, if not given.
        core: scaled dot-product attention alone: no weights.

    >>> [trial.name for trial in draw(0, Accepts(mask=False, cross=False))]
    ['self-attention', 'large numbers']
    """
    rng = np.random.default_rng(seed)
    sizes = sizes or draw_sizes(rng, accepts)
    return list(_Maker(rng, accepts, sizes, weights, core).trials())


@dataclasses.dataclass
class _Maker:
    rng: np.random.Generator
    accepts: Accepts
    sizes: Sizes
    held: Any
    core: bool

    def trials(self) -> Iterator[Trial]:
        accepts, sizes = self.accepts, self.sizes
        rows, columns = sizes.rows, sizes.columns
        short, long = sorted((rows, columns))
        if accepts.cross:
            yield self.make("cross-attention", short, long)
            yield self.make("equal lengths", long, long)
        yield self.make("self-attention", long)
        yield from self._masked(short, long)
        if accepts.training:
            for lengths in ((short, long),) if accepts.cross else ((short,),):
                yield self.make("dropout, not training", *lengths, rate=RATE)
                yield self.dropped(*lengths)
        yield self.large(short, long)
        if accepts.half:
            yield dataclasses.replace(self.make("float16", *self.lengths(short, long)), dtype="float16")

    def _masked(self, short: int, long: int) -> Iterator[Trial]:
        accepts = self.accepts
        if accepts.mask:
            yield self.with_mask("mask", *self.lengths(short, long))
            yield self.with_mask("mask, equal lengths", long, long if accepts.cross else None)
            yield self.zeros(*self.lengths(short, long))
            yield self.with_mask("mask with rows of nothing", *self.lengths(short, long), empty=True)
            if not accepts.causal:
                trial = self.make("causal mask, as a mask", long)
                yield dataclasses.replace(
                    trial, mask=np.broadcast_to(causal(long, long), (self.sizes.batch, long, long))
                )
        if accepts.causal:
            yield self.make("causal", long, causal=True)
            if accepts.cross:
                yield self.make("causal, T < S", short, long, causal=True)
                yield self.make("causal, T > S", long, short, causal=True)
        if accepts.padding:
            yield self.padded("padding", *self.lengths(short, long))
            yield self.padded("padding, self-attention", long)
            if accepts.mask:
                yield self.padded("mask and padding", *self.lengths(short, long), mask=True)
            if accepts.causal:
                yield self.padded("causal and padding", long, causal=True)
        if accepts.causal and accepts.mask:
            yield self.with_mask("causal and mask", long, causal=True)

    def lengths(self, short: int, long: int) -> tuple[int, ...]:
        return (short, long) if self.accepts.cross else (long,)

    def make(self, name: str, rows: int, columns: int | None = None, **options: Any) -> Trial:
        """Self-attention if there are no `columns`; all weights and inputs are drawn anew."""
        sizes = self.sizes
        query = self.array(rows, sizes.features)
        if columns is None:  # self-attention, where the kernels let key and value be the query
            same = self.core or sizes.features == sizes.key_features
            key = value = query if same else self.array(rows, sizes.key_features)
        else:
            key = self.array(columns, sizes.key_features)
            value = self.array(columns, sizes.key_features) if self.accepts.value else key
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

    def with_mask(self, name: str, rows: int, columns: int | None = None, empty: bool = False, **options: Any) -> Trial:
        trial = self.make(name, rows, columns, **options)
        return dataclasses.replace(trial, mask=self.mask(rows, columns or rows, empty))

    def mask(self, rows: int, columns: int, empty: bool = False) -> np.ndarray:
        """Each row has something to attend to, unless it must not; each column is hidden from some row."""
        mask = self.rng.random((self.sizes.batch, rows, columns)) < 0.55
        # With a causal mask too, the first position of every row stays.
        mask[..., 0] |= ~mask.any(-1)
        mask[:, :, 0] |= self.rng.random((self.sizes.batch, rows)) < 0.7
        mask[:, 0, 0] = True
        if empty:
            mask[-1, -1], mask[0, rows // 2] = False, False
        return mask

    def padded(self, name: str, rows: int, columns: int | None = None, mask: bool = False, **options: Any) -> Trial:
        """Of each item but the first, a different number of positions at the end are padding."""
        trial = self.make(name, rows, columns, **options)
        key_mask = self._lengths(columns or rows)
        query_mask = key_mask if columns is None else self._lengths(rows)
        more = {"query_mask": query_mask} if self.accepts.query_padding else {}
        drawn = self.mask(rows, columns or rows) if mask else None
        return dataclasses.replace(trial, key_mask=key_mask, mask=drawn, **more)

    def _lengths(self, positions: int) -> np.ndarray:
        real = positions - np.arange(self.sizes.batch) % positions
        return np.arange(positions) < real[:, None]

    def zeros(self, *lengths: int) -> Trial:
        """Some logits are exactly zero where attending is allowed."""
        trial = self.with_mask("mask, some logits zero", *lengths)
        weights = dict(trial.weights)
        if self.held is None and "key/bias" in weights:
            weights["key/bias"] = np.zeros_like(weights["key/bias"])
        key = trial.key.copy()
        key[..., 1, :] = 0.0
        mask = np.array(trial.mask)
        mask[:, :, :2] = True
        value = key if trial.value is trial.key else trial.value
        query = key if trial.query is trial.key else trial.query
        return dataclasses.replace(trial, query=query, key=key, value=value, weights=weights, mask=mask)

    def large(self, short: int, long: int) -> Trial:
        """Logits of some hundreds: exp of them is too large for any dtype unless the largest is taken off."""
        trial = self.make("large numbers", *self.lengths(short, long))
        query = trial.query * LARGE**2
        same = trial.key is trial.query
        key = query if same else trial.key
        value = key if trial.value is trial.key else trial.value
        return dataclasses.replace(trial, query=query, key=key, value=value)

    def dropped(self, *lengths: int) -> Trial:
        """In training. `kept` is unknown until the candidate has drawn it, and found by trying all: so with one head."""
        sizes = self.sizes
        size = sizes.width if self.accepts.wide else sizes.size
        alone = dataclasses.replace(self, sizes=dataclasses.replace(sizes, heads=1, size=size))
        lengths = tuple(min(length, 5) for length in lengths)
        return alone.make("dropout, training", *lengths, training=True, rate=RATE)
