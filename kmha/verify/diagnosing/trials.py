"""The calls that a diagnosis makes. Each call tells some mistakes from other mistakes.

Sizes are pairwise different if the candidate allows this, so that swapped axes show. Some trials have equal sizes,
because some mistakes are only possible with equal sizes. The trials depend on what the candidate accepts:

| the candidate accepts | trials |
| --- | --- |
| anything | self-attention; with a separate key, T < S and T = S; logits of tens of thousands |
| a mask | a mask for each item, and one mask for all items; T = S; B = H; rows with nothing to attend to; logits that are exactly zero; a key that is zero; hidden logits that are far larger than the others |
| a causal flag | T = S, T < S, T > S |
| padding | padding of the keys; of keys and queries with T = S; B = T |
| several of these arguments | each pair of the arguments together |
| dropout | in training, and not in training |
| float16 | some of the trials with masks, and logits that overflow before they are scaled |

In trials with large logits, a right layer's rounding must not show. A softmax of logits of tens of thousands is one or
zero, except where two logits are close and a rounding error decides. So such trials are drawn until no two logits of a
row are close. If no draw achieves this, the best draw is taken.
"""  # noqa: E501 - a table

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, State, Trial, causal, run

# Pairs of H and O for which 1, H, O, √O, O², H·O and O/H are all different, so that each wrong scale is different.
HEADS = ((2, 3), (3, 2), (2, 5), (3, 4), (4, 3), (3, 5), (5, 3))
# Kinds of sizes: all different; I = E = H·O and O even, for code that splits features; also T = S, a power of two.
SQUARE = "square"
SQUARE_LENGTH = 16
SIZE_KINDS = ("different", "even", SQUARE)
EVEN = ((2, 8), (4, 8), (2, 16))  # candidates for H and O if O must be even
LENGTHS = (3, 4, 5, 6, 7, 8, 11)  # candidates for B, T and S
RATE = 0.4  # dropout rate
DROPPED = (4, 5)  # T and S in training, which are small because all 2^S dropout masks are tried
SPREAD = 3e4  # standard deviation of large logits
CLOSE = 12.0  # two large logits are close if rounding could reverse their order
# Exponentials of such logits are infinite or zero in float32 and not in float64, so the same code gives two results.
BETWEEN = (80.0, 760.0)
DRAWS = 120  # maximum number of draws of a trial
HALF = 65504.0  # the largest float16
HALF_CLOSE = 0.005 * HALF  # float16 rounds query, key and their kernels by 1/2048 of their size


@dataclasses.dataclass(frozen=True)
class Accepts:
    """The arguments that a candidate takes, and the sizes and dtypes that it allows.

    Attributes:
        cross: Whether the key is a separate argument. Otherwise, there is only self-attention.
        value: Whether the value is a separate argument. Otherwise, the value is the key.
        mask: Whether there is a mask (B, T, S).
        causal: Whether there is a flag for a causal mask.
        padding: Whether there is a padding mask of the keys (B, S).
        query_padding: Whether there is also a padding mask of the queries (B, T).
        training: Whether there is dropout with a rate that can be set.
        wide: Whether only I = E = H·O is allowed, as in many course solutions.
        heads: Whether the inputs of a core are (B, H, P, O). Otherwise, they are (B, P, O).
        half: Whether the candidate can compute in float16.
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
        other = f" ({self.key_features} of key)" if self.features != self.key_features else ""
        lengths = f"B={self.batch}, T={self.rows}, S={self.columns}, H={self.heads}"
        return f"{lengths}, I={self.features}{other}, O={self.size}, E={self.width}"


def draw_sizes(
    rng: np.random.Generator,
    accepts: Accepts,
    use_bias: bool = True,
    kind: str = "different",
    length: int = SQUARE_LENGTH,
) -> Sizes:
    """Draw random sizes, pairwise different as far as `accepts` allows. Key and value have the query's features.

    `kind` is one of `SIZE_KINDS`, and `length` is T and S if they must be equal.

    >>> str(draw_sizes(np.random.default_rng(0), Accepts(wide=True)))
    'B=4, T=11, S=7, H=3, I=15, O=5, E=15'
    """
    options = HEADS if kind == "different" else EVEN
    heads, size = options[rng.integers(len(options))]
    width = heads * size
    free = [number for number in LENGTHS if number not in (heads, size, width, size**2, 2 * heads)]
    batch, *rest = free
    rows, columns = rng.permutation(rest[:3])[:2].tolist()
    features = heads * (16 // heads)  # a multiple of H, because some code splits the features into heads
    features += heads * (features == width)
    if kind == SQUARE:
        batch, rows, columns = 3, length, length
    features, out = (width, width) if accepts.wide or kind != "different" else (features, 17)
    return Sizes(batch, rows, columns, heads, features, features, size, out, use_bias)


def draw_weights(rng: np.random.Generator, sizes: Sizes) -> dict[str, np.ndarray]:
    """Draw random weights in the canonical layout. They give scaled logits of the order of 1.

    >>> weights = draw_weights(np.random.default_rng(0), Sizes(2, 5, 7, 3, 13, 11, 4, 17))
    >>> weights["query/kernel"].shape, weights["key/kernel"].shape, weights["attention_output/kernel"].shape
    ((3, 13, 4), (3, 11, 4), (3, 4, 17))
    """
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
    """Draw all trials for a candidate, each with separate weights unless weights are given.

    Args:
        seed: Seed of the sizes, weights and inputs.
        accepts: Arguments that the candidate takes.
        sizes: Sizes of the trials. By default, sizes are drawn at random.
        weights: Canonical weights that the candidate has. By default, weights are drawn at random for each trial.
        core: Whether the candidate is scaled dot-product attention alone, without weights.

    >>> [trial.name for trial in draw(0, Accepts(mask=False, cross=False))]
    ['self-attention', 'large numbers']
    """
    rng = np.random.default_rng(seed)
    sizes = sizes or draw_sizes(rng, accepts)
    return list(AttentionTrials(rng, accepts, sizes, weights, core).trials())


@dataclasses.dataclass
class AttentionTrials:
    """The trials of attention. `held` are the weights of all trials, or `None` to draw weights."""

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
        # The batch is small, so that a draw without close logits is found.
        few = self.with_sizes(batch=2)
        yield with_large_logits(lambda: few.make("large numbers", *self.lengths(2, short)))
        if accepts.mask:
            yield with_large_logits(lambda: few.with_mask("large numbers, mask", *self.lengths(3, short), share=0.35))
        if accepts.half:
            yield from self._half(lengths)
            yield overflowing_in_float16(lambda: few.make("float16, large numbers", *self.lengths(2, short)))

    def _masks(self, short: int, long: int) -> Iterator[Trial]:
        lengths, heads = self.lengths(short, long), self.sizes.heads
        yield self.with_mask("mask", *lengths, full=True)
        yield self.with_mask("mask, equal lengths", *self.lengths(long, long))
        yield self.same_mask("mask, the same for all items", *lengths)
        yield self.with_sizes(batch=heads).with_mask("mask, as many items as heads", *lengths)
        yield self.zeros("mask, some logits zero", *lengths, biased=False)
        yield self.zeros("mask, a key zero", *lengths, biased=True)
        yield self.with_mask("mask with fully masked rows", *lengths, empty=True)
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
        yield self.with_sizes(batch=lengths[0]).padded("padding, as many queries as items", *lengths)
        yield self.with_sizes(batch=self.sizes.heads).padded("padding, as many items as heads", *lengths)
        if self.accepts.mask:
            yield self.padded("mask and padding", *lengths, mask=True)
        if self.accepts.causal:
            yield self.padded("causal and padding", long, causal=True)

    def _dropout(self) -> Iterator[Trial]:
        """Yield trials with dropout. Few keys and one head let the diagnosis try every possible dropout mask."""
        size = self.sizes.width if self.accepts.wide else DROPPED[1] - 1
        alone = self if self.held is not None else self.with_sizes(heads=1, size=size)
        lengths = self.lengths(*DROPPED)
        yield alone.make("dropout, not training", *lengths, rate=RATE)
        yield alone.make("dropout, training", *lengths, training=True, rate=RATE)

    def _half(self, lengths: tuple[int, ...]) -> Iterator[Trial]:
        accepts = self.accepts
        yield in_float16(self.make("float16", *lengths))
        if accepts.mask:
            yield in_float16(self.with_mask("float16, mask", *lengths))
            yield in_float16(self.with_mask("float16, mask with fully masked rows", *lengths, empty=True))
        if accepts.causal:
            yield in_float16(self.make("float16, causal", max(lengths), causal=True))
        if accepts.padding:
            yield in_float16(self.padded("float16, padding", *lengths))
        if accepts.mask and accepts.padding:
            trial = self.padded("float16, rows hidden by two masks", *lengths, mask=True)
            mask, key_mask = np.array(trial.mask), np.array(trial.key_mask)
            mask[-1, -1], key_mask[-1] = False, False
            yield in_float16(dataclasses.replace(trial, mask=mask, key_mask=key_mask))

    def lengths(self, rows: int, columns: int) -> tuple[int, ...]:
        """Return T and S, or only the larger of T and S for self-attention."""
        return (rows, columns) if self.accepts.cross else (max(rows, columns),)

    def with_sizes(self, **sizes: Any) -> "AttentionTrials":
        """Return these trials with other sizes."""
        return dataclasses.replace(self, sizes=dataclasses.replace(self.sizes, **sizes))

    def make(self, name: str, *lengths: int, **options: Any) -> Trial:
        """Make a trial with random weights and inputs, of lengths T and S, or of one length for self-attention."""
        sizes, rows = self.sizes, lengths[0]
        query = self.array(rows, sizes.features)
        if len(lengths) == 1:  # self-attention, if the kernels allow key and value to be the query
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
        """Draw a random mask (B, T, S).

        Each row has something to attend to, unless `empty`. In each item, one key is hidden from all queries.
        """
        batch = self.sizes.batch
        mask = self.rng.random((batch, rows, columns)) < share
        mask[np.arange(batch), :, 1 + np.arange(batch) % (columns - 1) if columns > 1 else 0] = False
        # Every row keeps its first position, so that it has something to attend to under a causal mask too.
        mask[..., 0] |= ~mask.any(-1)
        mask[:, :, 0] |= self.rng.random((batch, rows)) < share + 0.15
        mask[:, 0, 0] = True
        if full:
            mask[0, -1] = True
        if empty:
            mask[-1, -1], mask[0, rows // 2] = False, False
        return mask

    def padded(self, name: str, *lengths: int, mask: bool = False, **options: Any) -> Trial:
        """Make a trial with padding at the end. The padding has a different length in each item."""
        trial = self.make(name, *lengths, **options)
        rows, columns = lengths[0], lengths[-1]
        key_mask = self._real(columns)
        query_mask = key_mask if len(lengths) == 1 else self._real(rows)[::-1]
        drawn = self.mask(rows, columns) if mask else None
        given = query_mask if self.accepts.query_padding else None
        return dataclasses.replace(trial, key_mask=key_mask, query_mask=given, mask=drawn)

    def _real(self, positions: int) -> np.ndarray:
        """Return a padding mask (B, P), False at padding. The second item has no padding."""
        batch = self.sizes.batch
        padding = np.arange(batch) * max(1, positions // batch) % positions
        padding[:2] = padding[:2][::-1]
        return np.arange(positions) < (positions - padding)[:, None]

    def zeros(self, name: str, *lengths: int, biased: bool) -> Trial:
        """Make a trial in which a key is zero where attending is allowed.

        Without biases, a query is zero too, and then the logits of this key or this query are zero.
        """
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


def with_large_logits(make: Callable[[], Trial]) -> Trial:
    """Draw a trial with logits of tens of thousands.

    The exponentials of such logits overflow, and a fill that hides such logits must be larger still.
    """
    return _best(lambda: _spread(make()), _cost)


def in_float16(trial: Trial) -> Trial:
    """Return the trial for float16, with inputs that float16 represents exactly."""
    return trial.with_inputs(lambda array: array.astype("float16").astype("float64"), dtype="float16")


def overflowing_in_float16(make: Callable[[], Trial]) -> Trial:
    """Draw a float16 trial in which query · key overflows, but query · key / √O would not."""
    return _best(lambda: _shrink_to_float16(make()), _half_cost)


def _best(draw: Callable[[], Trial], cost: Callable[[Trial], float]) -> Trial:
    best, least = None, math.inf
    for _ in range(DRAWS):
        trial = draw()
        found = cost(trial)
        if found < least:
            best, least = trial, found
        if not least:
            break
    if best is None:
        raise ValueError(f"expected finite weights: none of {DRAWS} draws gives finite logits.")
    return best


def multiply_logits(trial: Trial, factor: float, items: int | None = None) -> Trial:
    """Multiply query and key of the first `items` items (all by default), so that logits grow by about `factor`."""
    roots = np.ones(len(trial.query))
    roots[:items] = math.sqrt(factor)
    same = trial.value is trial.key
    scaled = trial.with_inputs(lambda array: (array.T * roots).T)
    return scaled if same else dataclasses.replace(scaled, value=trial.value)


def _spread(trial: Trial) -> Trial:
    """Return the trial with logits scaled to tens of thousands.

    Without a mask, only the first item is scaled, so that the largest logit of all is far above the logits of the other
    items.
    """
    return multiply_logits(trial, SPREAD / float(run(trial)["scaled"].std()), items=1 if trial.mask is None else None)


def _cost(trial: Trial) -> float:
    """Return how many logits are so close to others that rounding could change the result.

    With a mask, also count the fill constants that would not show as mistakes if they were used to hide logits.
    """
    state = run(trial)
    scaled, allowed = state["scaled"], np.broadcast_to(state["allowed"], state["scaled"].shape)
    if trial.mask is None:
        scaled, allowed = scaled[:1], allowed[:1]
    size = np.abs(scaled)
    close = 10 * _close_rows(scaled, allowed, CLOSE) + _close_rows(scaled, np.ones_like(allowed), CLOSE)
    cost = float(close + ((size > BETWEEN[0]) & (size < BETWEEN[1])).sum())
    if trial.mask is None:
        return cost
    below, ahead = to_be_hidden(state)
    less = 1e4 / math.sqrt(state["heads"]["query"].shape[-1])
    for number, low, high in ((ahead, 150.0, 0.95 * less), (ahead, 1.05 * less, 9.7e3), (below, 150.0, 9e3)):
        cost += 5.0 * (not ((number > low) & (number < high)).any())
    return cost + 5.0 * (not (below > 1.1e4).any())


def to_be_hidden(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Return what a number has to exceed in each row with hidden logits, to hide them.

    A number that is filled in has to exceed how far the largest allowed logit is below zero, and one that is added, how
    far the largest hidden logit is ahead of it.
    """
    scaled, allowed = state["scaled"], np.broadcast_to(state["allowed"], state["scaled"].shape)
    partly = ~allowed.all(-1)
    scaled, allowed = scaled[partly], allowed[partly]
    best = np.max(scaled, -1, where=allowed, initial=-np.inf)
    return -best, np.max(scaled, -1, where=~allowed, initial=-np.inf) - best


def _close_rows(logits: np.ndarray, allowed: np.ndarray, distance: float) -> int:
    """Return the number of rows in which the two largest allowed logits are close."""
    if logits.shape[-1] == 1:
        return 0
    largest = np.sort(np.where(allowed, logits, -np.inf), axis=-1)[..., -2:]
    return int((largest[..., 1] - largest[..., 0] < distance).sum())


def _shrink_to_float16(trial: Trial) -> Trial:
    """Keep scaled logits below the largest float16, in whatever order the products are summed."""
    for _ in range(2):  # the second time because of the biases, which the factor does not multiply
        heads, scale = (run(trial)[step] for step in ("heads", "scale"))
        terms = np.abs(heads["query"]) @ np.swapaxes(np.abs(heads["key"]), -1, -2)
        trial = multiply_logits(trial, 0.95 * HALF / float(terms.max() * scale))
    return in_float16(trial)


def _half_cost(trial: Trial) -> float:
    state = run(trial)
    logits = state["logits"]
    around = (np.abs(logits) > 0.95 * HALF) & (np.abs(logits) < 1.05 * HALF)
    close = _close_rows(state["scaled"], np.ones(logits.shape, bool), HALF_CLOSE)
    return float(around.sum() + 10 * close + 100.0 * (not (logits > 1.05 * HALF).any()))
