"""Convert weights between `keras.layers.MultiHeadAttention` and `kmha.MultiHeadAttention`.

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

from kmha.interchange import mapping
from kmha.interchange.canonical import Weights
from kmha.interchange.layouts.keras import BUILTIN


def from_builtin(weights: Mapping[str, Any]) -> Weights:
    """Convert weights of the built-in layer, keyed by name, to the canonical layout.

    Raises:
        LayoutError: A name is missing or unexpected, or a shape is wrong.
    """
    return mapping.read(weights, BUILTIN, None)[0]


def to_builtin(weights: Mapping[str, Any]) -> Weights:
    """Convert weights in the canonical layout, keyed by name, to the built-in layer's layout.

    Raises:
        LayoutError: A name is missing or unexpected, or a shape is wrong.
    """
    return mapping.write(weights, BUILTIN)[0]
