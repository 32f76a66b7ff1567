"""The calls that a diagnosis of an encoder layer, decoder layer or embedding makes.

`kmha.verify.diagnosing.trials` explains the purpose of such calls.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kmha.verify.chains import blocks, embedding
from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import trials

EPSILON = blocks.EPSILON
# Factors that scale the inputs to variances near 1e-6 and near 1e-12, where a wrong epsilon shows.
TINY, TINIEST = 1e-3, 1e-6
MEAN = 5.0  # mean of the inputs in one trial, where a mean that is not subtracted shows


@dataclasses.dataclass(frozen=True)
class BlockAccepts:
    """The arguments that a block takes, and the block's settings.

    Attributes:
        chain: Kind of block: "encoder", "decoder" or "embedding".
        mask: Whether the block takes a padding mask of the encoder's input. False means no masks at all.
        causal: Whether self-attention takes a look-ahead mask.
        query_padding: Whether a decoder's look-ahead mask may hide the target's padding too.
        equal: Whether a decoder only allows T = S.
        crossing: Whether an encoder layer's only attention attends to a memory.
        memory: Whether the encoder's output may have another number of features than x.
        norm_first: Whether the block normalizes before each sublayer.
        epsilon: Epsilon of the normalizations.
        activation: Activation of the feed-forward network.
        pad_id: Token id of padding.
    """

    chain: str = "encoder"
    mask: bool = True
    causal: bool = True
    query_padding: bool = True
    equal: bool = False
    crossing: bool = False
    memory: bool = False
    norm_first: bool = False
    epsilon: float = EPSILON
    activation: str = "relu"
    pad_id: int = 0

    @property
    def has_memory(self) -> bool:
        return self.crossing or self.chain == "decoder"

    @property
    def more(self) -> dict[str, Any]:
        more = {"norm_first": self.norm_first, "epsilon": self.epsilon, "activation": self.activation}
        return {**more, "crossing": True} if self.crossing else more


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """B, T, S, H, O, E, the feed-forward network's hidden features, the encoder's output features (D), and V.

    `gated` says whether the network has a gate. `extra` is the number of normalizations that the usual block lacks.
    """

    batch: int
    rows: int
    columns: int
    heads: int
    size: int
    width: int
    inner: int
    memory: int
    vocabulary: int = 19
    gated: bool = False
    extra: int = 0

    def __str__(self) -> str:
        return (
            f"B={self.batch}, T={self.rows}, S={self.columns}, H={self.heads}, O={self.size}, E={self.width}, "
            f"{self.inner} hidden features"
        )


def draw_block_sizes(rng: np.random.Generator, accepts: BlockAccepts = BlockAccepts()) -> BlockSizes:
    """Draw random sizes that are pairwise different, except that E = H·O, as in the paper, and D may be E.

    Sizes are left out if they make two mistakes the same. If O = H² or H = O², √H is the same as √(O/H) or O. If
    E = 10, positions with the base 100,000 are the same as positions with E - 2 instead of E.

    >>> str(draw_block_sizes(np.random.default_rng(0)))
    'B=4, T=9, S=5, H=6, O=2, E=12, 13 hidden features'
    """
    heads, size = ((2, 3), (3, 2), (3, 4), (4, 3), (2, 6), (6, 2))[rng.integers(6)]
    width = heads * size
    batch, *rest = [number for number in (2, 3, 4, 5, 7, 9, 11) if number not in (heads, size, width)][1:]
    rows, columns = rng.permutation(rest[:3])[:2].tolist()
    memory = 14 if accepts.memory else width
    return BlockSizes(batch, rows, columns, heads, size, width, 13, memory)


def draw_block_weights(rng: np.random.Generator, sizes: BlockSizes, chain: str) -> dict[str, np.ndarray]:
    """Draw weights with the canonical names in `kmha.verify.chains.blocks`, with no gain near 1 and no bias near 0."""
    if chain == "embedding":
        return {"embedding/embeddings": rng.normal(size=(sizes.vocabulary, sizes.width))}
    weights: dict[str, np.ndarray] = {}
    attentions = {"encoder": {"mha": sizes.width}, "decoder": {"mha1": sizes.width, "mha2": sizes.memory}}[chain]
    for layer, features in attentions.items():
        shapes = trials.Sizes(0, 0, 0, sizes.heads, sizes.width, features, sizes.size, sizes.width)
        weights |= {f"{layer}/{name}": array for name, array in trials.draw_weights(rng, shapes).items()}
    for layer, shape in (("dense1", (sizes.width, sizes.inner)), ("dense2", (sizes.inner, sizes.width))):
        weights[f"ffn/{layer}/kernel"] = rng.normal(size=shape) / math.sqrt(shape[0])
        weights[f"ffn/{layer}/bias"] = rng.normal(size=shape[1])
    if sizes.gated:
        weights["ffn/gate/kernel"] = rng.normal(size=(sizes.width, sizes.inner)) / math.sqrt(sizes.width)
        weights["ffn/gate/bias"] = rng.normal(size=sizes.inner)
    extra = [f"extra{number}" for number in range(1, sizes.extra + 1)]
    for layer in (*filter(None, blocks.NORMS[chain]), *extra):
        weights[f"{layer}/gamma"] = rng.uniform(0.5, 2.0, sizes.width)
        weights[f"{layer}/beta"] = rng.normal(size=sizes.width)
    return weights


def draw_block(
    seed: int, accepts: BlockAccepts = BlockAccepts(), sizes: BlockSizes | None = None, weights: Any = None
) -> list[Trial]:
    """Draw all trials for a block or an embedding.

    Args:
        seed: Seed of the sizes, weights and inputs.
        accepts: Arguments that the candidate takes, and its settings.
        sizes: Sizes of the trials. By default, sizes are drawn at random.
        weights: Canonical weights that the candidate has. By default, weights are drawn at random for each trial.

    >>> [trial.name for trial in draw_block(0, BlockAccepts(mask=False, causal=False))]
    ['plain', 'large mean', 'variance near 1e-06', 'variance near 1e-12']
    >>> [trial.name for trial in draw_block(0, BlockAccepts("embedding"))]
    ['ids', 'ids, padded', 'one id only', 'one position', 'table of zeros']
    """
    rng = np.random.default_rng(seed)
    maker = _BlockTrials(rng, accepts, sizes or draw_block_sizes(rng, accepts), weights)
    return list(maker.embeddings() if accepts.chain == "embedding" else maker.blocks())


@dataclasses.dataclass
class _BlockTrials:
    """The trials of blocks and embeddings. `held` are the weights of all trials, or `None` to draw weights."""

    rng: np.random.Generator
    accepts: BlockAccepts
    sizes: BlockSizes
    held: Any

    def blocks(self) -> Iterator[Trial]:
        accepts, sizes = self.accepts, self.sizes
        rows = sizes.rows
        columns = rows if accepts.equal else sizes.columns
        yield self.make("plain", rows, columns)
        yield from self._masked(rows, columns)
        if accepts.has_memory and not accepts.equal:
            yield self.make("T = S", rows, rows)
            yield self.make("S < T" if columns > rows else "S > T", columns, rows)
            yield from self._masked(rows, rows, ", T = S")
        mean = self.make("large mean", rows, columns)
        yield self.like(mean, mean.query + MEAN, mean.key + MEAN)
        for factor in (TINY, TINIEST):
            yield self.tiny(rows, columns, factor)

    def _masked(self, rows: int, columns: int, ending: str = "") -> Iterator[Trial]:
        accepts, sizes = self.accepts, self.sizes
        decoder = accepts.chain == "decoder"
        if accepts.mask:
            yield self.padded(f"padding{ending}", rows, columns)
            yield self.with_batch(sizes.heads).padded(f"padding, B = H{ending}", rows, columns)
            yield self.with_batch(rows).padded(f"padding, B = T{ending}", rows, columns)
        if accepts.causal:
            yield self.make(f"look-ahead{ending}", rows, columns, causal=True)
        if accepts.mask and accepts.causal:
            yield self.padded(f"look-ahead and padding{ending}", rows, columns, causal=True)
        if decoder and accepts.query_padding:
            yield self.padded(f"padding of the target{ending}", rows, columns, target=True)
            if accepts.mask and accepts.causal:
                yield self.padded(f"look-ahead and both paddings{ending}", rows, columns, target=True, causal=True)

    def with_batch(self, batch: int) -> "_BlockTrials":
        """Return these trials with another batch size, because some masks that lack an axis broadcast only then."""
        return dataclasses.replace(self, sizes=dataclasses.replace(self.sizes, batch=batch))

    def make(self, name: str, rows: int, columns: int, **options: Any) -> Trial:
        """Make a trial with x (B, T, E), and for a layer with a memory the encoder's output (B, S, D)."""
        sizes, chain = self.sizes, self.accepts.chain
        query = self.rng.normal(size=(sizes.batch, rows, sizes.width))
        key = self.rng.normal(size=(sizes.batch, columns, sizes.memory)) if self.accepts.has_memory else query
        return Trial(name, query, key, key, self.weights(), chain=chain, more=self.accepts.more, **options)

    def weights(self) -> dict[str, np.ndarray]:
        if self.held is not None:
            return dict(self.held)
        return draw_block_weights(self.rng, self.sizes, self.accepts.chain)

    def like(self, trial: Trial, query: np.ndarray, key: np.ndarray) -> Trial:
        """Return the trial with another query, and with another key as key and value."""
        key = key if self.accepts.has_memory else query
        return dataclasses.replace(trial, query=query, key=key, value=key)

    def padded(self, name: str, rows: int, columns: int, target: bool = False, **options: Any) -> Trial:
        trial = self.make(name, rows, columns, **options)
        if not self.accepts.has_memory:
            return dataclasses.replace(trial, key_mask=self._real(rows))
        masks: dict[str, Any] = {"key_mask": self._real(columns)} if self.accepts.mask else {}
        if target:  # reversed, so that the padding of target and encoder differs if T = S
            masks["query_mask"] = self._real(rows)[::-1]
        return dataclasses.replace(trial, **masks)

    def _real(self, positions: int) -> np.ndarray:
        """Return a padding mask (B, P), False at padding.

        The items end with different numbers of padded positions, and the last item ends without padding.
        """
        real = positions - np.roll(np.arange(self.sizes.batch), -1) % positions
        return np.arange(positions) < real[:, None]

    def tiny(self, rows: int, columns: int, factor: float) -> Trial:
        """Make a trial in which every normalized tensor has a tiny variance, if the weights can be chosen."""
        trial = self.make(f"variance near {factor**2:.0e}", rows, columns)
        weights = dict(trial.weights)
        if self.held is None:
            small = ["attention_output/kernel", "attention_output/bias", "dense2/kernel", "dense2/bias"]
            # In pre-norm nothing is normalized twice, and the following sublayers must show the tiny variance.
            small += [] if self.accepts.norm_first else ["gamma", "beta"]
            weights = {
                name: array * factor if name.endswith(tuple(small)) else array for name, array in weights.items()
            }
        trial = dataclasses.replace(trial, weights=weights)
        return self.like(trial, trial.query * factor, trial.key)

    def embeddings(self) -> Iterator[Trial]:
        """Yield trials with repeated ids, and with padding at the end of all items but the last."""
        sizes, pad = self.sizes, self.accepts.pad_id
        real = [token for token in range(sizes.vocabulary) if token != pad]
        ids = self.rng.choice(real, (sizes.batch, sizes.rows))
        ids[:, 1] = ids[:, 0]
        yield self.embedding("ids", ids)
        yield self.embedding("ids, padded", np.where(self._real(sizes.rows), ids, pad))
        yield self.embedding("one id only", np.full((sizes.batch, sizes.columns), real[1]))
        yield self.embedding("one position", ids[:, :1])
        trial = self.embedding("table of zeros", ids)
        if self.held is None:  # with a table of zeros, the output is the positions alone
            weights = {name: np.zeros_like(array) for name, array in trial.weights.items()}
            trial = dataclasses.replace(trial, weights=weights)
        yield trial

    def embedding(self, name: str, ids: np.ndarray) -> Trial:
        query = np.zeros((*ids.shape, self.sizes.width))
        more = {"ids": ids, "pad_id": self.accepts.pad_id}
        return Trial(name, query, query, query, self.weights(), chain=embedding.NAME, more=more)
