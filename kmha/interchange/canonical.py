"""The layout in the middle: the names (paths) and shapes that every conversion goes through.

**One attention layer**, and the layout of `kmha.MultiHeadAttention` itself:

| path | shape |
| --- | --- |
| `query/kernel`, `gate/kernel` | (H, I, O) |
| `key/kernel`, `value/kernel` | (H, I, O), or (G, I, O), where each of G heads serves H / G queries |
| `query/bias`, `key/bias`, `gate/bias`, `value/bias` | (H, O), or (G, O) |
| `attention_output/kernel` | (H, O, E) |
| `attention_output/bias` | (E,) |
| `query/scale` | (): √O where logits are not divided by it, as in T5; elsewhere it is folded into the query |

Layers without biases or without a gate leave those names out. I may differ between query, key and value, and O between
query and key on one side, value and gate on the other.

**Blocks** (encoder and decoder layers) have their attentions under a name, and besides them

| path | shape |
| --- | --- |
| `self_attention/…`, `cross_attention/…` | as above |
| `feed_forward/inner/kernel`, `feed_forward/inner/bias` | (E, F), (F,) |
| `feed_forward/outer/kernel`, `feed_forward/outer/bias` | (F, E), (E,) |
| `self_attention_norm/gamma`, `self_attention_norm/beta` | (E,) |
| `cross_attention_norm/…`, `feed_forward_norm/…` | the same |

The norm is the one that stands at that sublayer, after it or before it: which of the two, its epsilon, the activation
and the dropout are settings of a layer and no weights. A gated feed-forward network has `feed_forward/gate/kernel` too.

**Stacks and models**: `encoder/layer_0/…`, `decoder/layer_0/…`, counted from zero, each with a block, and

| path | shape |
| --- | --- |
| `encoder/embedding/table`, `decoder/embedding/table` | (V, E) |
| `encoder/position/table`, `decoder/position/table` | learnt positions, (N, E) |
| `encoder/norm/gamma`, `decoder/norm/gamma`, `…/beta` | (E,): the norm after the last layer |
| `logits/kernel`, `logits/bias` | (E, V), (V,); with embeddings tied, the bias alone |

A stack alone has the paths without `encoder/` or `decoder/`: `layer_0/…`, `norm/…`.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

INTO_HEADS = ("query", "key", "gate", "value")

Weights = dict[str, np.ndarray]


def scope_of(path: str) -> str:
    """The part that a weight belongs to, in which a letter of axes has one size: an attention, a norm.

    >>> scope_of("layer_0/self_attention/query/kernel"), scope_of("feed_forward_norm/gamma"), scope_of("query/bias")
    ('layer_0/self_attention', 'feed_forward_norm', '')
    """
    parts = path.split("/")
    return "/".join(parts[: -2 if parts[-1] in ("kernel", "bias") else -1])


def read(layer: Any) -> Weights:
    """The weights of a layer whose projections are named as above, in the layer's own layout.

    >>> import kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5, use_bias=False)
    >>> layer.build((None, 7, 4), (None, 11, 6))
    >>> {name: array.shape for name, array in read(layer).items()}["key/kernel"]
    (3, 6, 5)
    """
    return {name: np.asarray(variable) for name, variable in variables(layer).items()}


def write(layer: Any, weights: Mapping[str, Any]) -> None:
    """Sets the weights of a built layer from arrays in the layer's own layout.

    Raises:
        ValueError: a name is missing or unknown, or a shape does not fit; nothing is written then.
    """
    held = variables(layer)
    for name in sorted(held.keys() ^ weights.keys()):
        where = "is missing from the weights" if name in held else "is not a weight of the layer"
        raise ValueError(f"{layer.name}: `{name}` {where}. The layer has {sorted(held)}, received {sorted(weights)}.")
    for name, variable in held.items():
        if tuple(np.shape(weights[name])) != tuple(variable.shape):
            raise ValueError(
                f"{layer.name}: `{name}` must have the shape {tuple(variable.shape)}. "
                f"Received: {np.shape(weights[name])}. The layout may be another layer's: see `kmha.interchange`."
            )
    for name, variable in held.items():
        variable.assign(weights[name])


def variables(layer: Any) -> dict[str, Any]:
    """The variables of a built layer by their path inside it, without what all paths begin with.

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
