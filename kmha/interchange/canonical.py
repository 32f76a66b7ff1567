"""The canonical layout: the names (paths) and shapes that every conversion goes through.

**One attention layer** (`kmha.MultiHeadAttention` has exactly this layout):

| path | shape |
| --- | --- |
| `query/kernel`, `gate/kernel` | (H, I, O) |
| `key/kernel`, `value/kernel` | (H, I, O), or (G, I, O), where H / G query heads share each of the G heads |
| `query/bias`, `key/bias`, `gate/bias`, `value/bias` | (H, O), or (G, O) |
| `attention_output/kernel` | (H, O, E) |
| `attention_output/bias` | (E,) |
| `query/scale` | (): √O if the layer does not divide its logits by √O, as in T5; other layouts fold it into the query |

Layers without biases or without a gate lack these weights. I may differ between query, key and value. Query and key
have the same O. Value and gate may have another O.

**Blocks** (encoder and decoder layers) contain:

| path | shape |
| --- | --- |
| `self_attention/…`, `cross_attention/…` | as above |
| `feed_forward/inner/kernel`, `feed_forward/inner/bias` | (E, F), (F,) |
| `feed_forward/outer/kernel`, `feed_forward/outer/bias` | (F, E), (E,) |
| `self_attention_norm/gamma`, `self_attention_norm/beta` | (E,) |
| `cross_attention_norm/…`, `feed_forward_norm/…` | the same |

Each norm belongs to the sublayer that it is named after. Its position (before or after the sublayer), its epsilon, the
activation and the dropout are settings of a layer, not weights. A gated feed-forward network also has
`feed_forward/gate/kernel`.

**Stacks and models** have one block in each of `encoder/layer_0/…` and `decoder/layer_0/…`, counted from zero, and:

| path | shape |
| --- | --- |
| `encoder/embedding/table`, `decoder/embedding/table` | (V, E) |
| `encoder/position/table`, `decoder/position/table` | learned positions, (N, E) |
| `encoder/norm/gamma`, `decoder/norm/gamma`, `…/beta` | (E,): the norm after the last layer |
| `logits/kernel`, `logits/bias` | (E, V), (V,); with tied embeddings, only the bias |

A single stack has these paths without `encoder/` or `decoder/`: `layer_0/…`, `norm/…`.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

INTO_HEADS = ("query", "key", "gate", "value")

Weights = dict[str, np.ndarray]


def scope_of(path: str) -> str:
    """Return the path of the layer that a weight belongs to. Each axis letter has a single size in this layer.

    >>> scope_of("layer_0/self_attention/query/kernel"), scope_of("feed_forward_norm/gamma"), scope_of("query/bias")
    ('layer_0/self_attention', 'feed_forward_norm', '')
    """
    parts = path.split("/")
    return "/".join(parts[: -2 if parts[-1] in ("kernel", "bias") else -1])


def read(layer: Any) -> Weights:
    """Return the weights of a layer whose projections have the names above, in the layer's own layout.

    >>> import kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5, use_bias=False)
    >>> layer.build((None, 7, 4), (None, 11, 6))
    >>> {name: array.shape for name, array in read(layer).items()}["key/kernel"]
    (3, 6, 5)
    """
    return {name: np.asarray(variable) for name, variable in variables(layer).items()}


def write(layer: Any, weights: Mapping[str, Any]) -> None:
    """Set the weights of a built layer from arrays in the layer's own layout.

    Raises:
        ValueError: A name is missing or unknown, or a shape is wrong. The layer is then unchanged.
    """
    held = variables(layer)
    for name in sorted(held.keys() ^ weights.keys()):
        where = "is missing from the weights" if name in held else "is not a weight of the layer"
        raise ValueError(f"{layer.name}: `{name}` {where}. Expected {sorted(held)}. Received {sorted(weights)}.")
    for name, variable in held.items():
        if tuple(np.shape(weights[name])) != tuple(variable.shape):
            raise ValueError(
                f"{layer.name}: `{name}` must have the shape {tuple(variable.shape)}. "
                f"Received: {np.shape(weights[name])}. The layout may be another layer's: see `kmha.interchange`."
            )
    for name, variable in held.items():
        variable.assign(weights[name])


def variables(layer: Any) -> dict[str, Any]:
    """Return the variables of a built layer, keyed by path, without the prefix that all paths share.

    >>> import kmha
    >>> layer = kmha.layers.EncoderLayer(embedding_dim=6, num_heads=3, fully_connected_dim=7)
    >>> layer.build((None, 5, 6))
    >>> [name for name in variables(layer) if name.endswith("kernel")][2:5]
    ['mha/value/kernel', 'mha/attention_output/kernel', 'ffn/dense1/kernel']
    """
    if not layer.weights:
        raise ValueError(f"{layer.name}: the layer has no weights yet. Call it once, or `build` it, first.")
    paths = [variable.path.split("/") for variable in layer.weights]
    steps = zip(*(path[:-1] for path in paths), strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda step: len(set(step)) == 1, steps))
    return {"/".join(path[common:]): variable for path, variable in zip(paths, layer.weights, strict=True)}
