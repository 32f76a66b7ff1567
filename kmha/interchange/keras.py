"""`keras.layers.MultiHeadAttention`: the canonical names, with kernels (I, H, O) in place of (H, I, O).

>>> import keras, kmha, numpy as np
>>> from kmha.interchange import canonical
>>> theirs, ours = keras.layers.MultiHeadAttention(3, 5), kmha.MultiHeadAttention(3, 5)
>>> target, enc_output = np.ones((2, 7, 4)), np.ones((2, 11, 6))
>>> expected, _ = theirs(target, enc_output), ours(target, enc_output)
>>> canonical.write(ours, from_builtin(canonical.read(theirs)))
>>> bool(np.allclose(ours(target, enc_output), expected, atol=1e-6))
True
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.interchange.canonical import INTO_HEADS, Weights


def from_builtin(weights: Mapping[str, Any]) -> Weights:
    """Weights of the built-in layer, by name, to the canonical layout."""
    return _exchanged(weights)


def to_builtin(weights: Mapping[str, Any]) -> Weights:
    """Weights in the canonical layout, by name, to the built-in layer's."""
    return _exchanged(weights)


def _exchanged(weights: Mapping[str, Any]) -> Weights:
    """Exchanges the first two axes of the kernels into heads, which is its own inverse."""
    kernels = {f"{role}/kernel" for role in INTO_HEADS}
    return {name: np.swapaxes(array, 0, 1) if name in kernels else np.asarray(array) for name, array in weights.items()}
