"""The layout in the middle: names and shapes of one attention layer's weights.

| name | shape |
| --- | --- |
| `query/kernel`, `key/kernel`, `gate/kernel`, `value/kernel` | (H, I, O) |
| `query/bias`, `key/bias`, `gate/bias`, `value/bias` | (H, O) |
| `attention_output/kernel` | (H, O, E) |
| `attention_output/bias` | (E,) |

Layers without biases or without a gate leave those names out. It is the layout of `kmha.MultiHeadAttention` itself.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

INTO_HEADS = ("query", "key", "gate", "value")

Weights = dict[str, np.ndarray]


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
    """The variables of a built layer by the last two parts of their path."""
    if not layer.weights:
        raise ValueError(f"{layer.name}: the layer has no weights yet. Call it once, or `build` it, first.")
    return {"/".join(variable.path.split("/")[-2:]): variable for variable in layer.weights}
