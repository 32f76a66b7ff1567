"""What a candidate can be called with, and the sizes and weights that are drawn for it."""

import dataclasses
import math

import numpy as np

from kmha.verify.chains.attention import ROLES

# H and O: no two of 1, H, O, √O, O², H·O and O/H are the same, so that each wrong scale is another one.
HEADS = ((2, 3), (3, 2), (2, 5), (3, 4), (4, 3), (3, 5), (5, 3))
LENGTHS = (3, 4, 5, 6, 7, 8, 11)  # of batch, queries and keys


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
        other = f" ({self.key_features} of key)" if self.features != self.key_features else ""
        lengths = f"B={self.batch}, T={self.rows}, S={self.columns}, H={self.heads}"
        return f"{lengths}, I={self.features}{other}, O={self.size}, E={self.width}"


def draw_sizes(rng: np.random.Generator, accepts: Accepts, use_bias: bool = True) -> Sizes:
    """Pairwise different sizes, as far as `accepts` lets them be; key and value have the query's features.

    >>> str(draw_sizes(np.random.default_rng(0), Accepts(wide=True)))
    'B=4, T=11, S=7, H=3, I=15, O=5, E=15'
    """
    heads, size = HEADS[rng.integers(len(HEADS))]
    width = heads * size
    free = [number for number in LENGTHS if number not in (heads, size, width, size**2, 2 * heads)]
    batch, *rest = free
    rows, columns = rng.permutation(rest[:3])[:2].tolist()
    features = heads * (16 // heads)  # some code splits them into heads
    features += heads * (features == width)
    features, out = (width, width) if accepts.wide else (features, 17)
    return Sizes(batch, rows, columns, heads, features, features, size, out, use_bias)


def draw_weights(rng: np.random.Generator, sizes: Sizes) -> dict[str, np.ndarray]:
    """Random weights in the canonical layout; the logits that they give are of the order of 1 after scaling.

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
